"""LangGraph: a store whose items are notes, `BaseStore`. Needs `memsync[langgraph]`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)

from memsync.integrations.values import Entry, Name, Values, matches
from memsync.memory import MemoryApi

_FILTER_KEY = re.compile(r"[\w.-]+")


class MemsyncStore(BaseStore):
    """Items are notes in by-agents/langgraph/NAMESPACE/; a query searches them by meaning and by word.

    Every item is searched, also one that was put with `index=False`. Search, and list_namespaces, read each note of the
    prefix, so an edit by hand counts at once.
    """

    def __init__(self, memory: MemoryApi, folder: str = "by-agents/langgraph") -> None:
        """Take a memory, which the caller closes, and the folder of the items."""
        self._values = Values(memory, folder)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations: first those that read, then those that write. Raises MemsyncError."""
        ops = list(ops)
        for op in ops:
            validate_op_namespace(op)
        results = [self._read(op) for op in ops]
        latest = {(*op.namespace, op.key): op.value for op in ops if isinstance(op, PutOp)}
        for name, value in latest.items():
            if value is None:
                self._values.delete(name)
            else:
                self._values.put(name, value)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations in a thread, see `batch`. If it is cancelled, the thread still finishes them."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            entry = self._values.get((*op.namespace, op.key))
            return Item(**_fields(entry)) if entry else None
        if isinstance(op, SearchOp):
            return self._search(op)
        return self._namespaces(op) if isinstance(op, ListNamespacesOp) else None

    def _search(self, op: SearchOp) -> list[SearchItem]:
        wanted = op.filter or {}
        if strange := next((key for key in wanted if not _FILTER_KEY.fullmatch(key)), None):
            raise ValueError(f"Invalid filter key: {strange!r}")
        prefix = tuple(op.namespace_prefix)
        if op.query:
            ranked: Iterable[tuple[float | None, Entry]] = self._values.search(op.query, prefix)
        else:
            newest = sorted(self._values.entries(prefix), key=lambda entry: entry.updated, reverse=True)
            ranked = ((None, entry) for entry in newest)
        items = (SearchItem(**_fields(entry), score=score) for score, entry in ranked if matches(entry.value, wanted))
        return list(islice(items, op.offset, op.offset + op.limit))

    def _namespaces(self, op: ListNamespacesOp) -> list[Name]:
        conditions = op.match_conditions or ()
        spaces = {entry.name[:-1] for entry in self._values.entries()}
        kept = {space[: op.max_depth] for space in spaces if all(_matches(space, one) for one in conditions)}
        return sorted(kept)[op.offset : op.offset + op.limit]


def _fields(entry: Entry) -> dict[str, Any]:
    *namespace, key = entry.name
    times = {"created_at": entry.created, "updated_at": entry.updated}
    return {"value": entry.value, "key": key, "namespace": tuple(namespace), **times}


def _matches(space: Name, condition: MatchCondition) -> bool:
    """Tell whether a namespace begins or ends like a path, in which `*` is any one label."""
    path = tuple(condition.path)
    part = space[: len(path)] if condition.match_type == "prefix" else space[len(space) - len(path) :]
    return len(space) >= len(path) and all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
