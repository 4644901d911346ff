"""Puts memsync's store in place of LangGraph's own, for the tests of langgraph-checkpoint-sqlite.

PYTHONPATH=tests/integrations pytest -p langgraph_plugin TESTS/test_store.py TESTS/test_async_store.py
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self

import langgraph.store.sqlite
import langgraph.store.sqlite.aio

from memsync import Memory
from memsync.integrations.langgraph import MemsyncStore


class _InOwnMemory(MemsyncStore):
    """A store that opens as SqliteStore does, in a memory of its own, and searches with memsync's own vectors."""

    MIGRATIONS = langgraph.store.sqlite.SqliteStore.MIGRATIONS

    @classmethod
    @contextmanager
    def from_conn_string(cls, _name: str, **_: Any) -> Iterator[Self]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder, "notes")
            root.mkdir()
            with Memory.open(root) as memory:
                yield cls(memory)

    def setup(self) -> None:
        """There is nothing to set up."""


class _AsyncInOwnMemory(MemsyncStore):
    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, name: str, **_: Any) -> AsyncIterator[Self]:
        with _InOwnMemory.from_conn_string(name) as store:
            yield cls(store._values.memory)

    async def setup(self) -> None:
        """There is nothing to set up."""


langgraph.store.sqlite.SqliteStore = _InOwnMemory  # type: ignore[misc, assignment]
langgraph.store.sqlite.AsyncSqliteStore = _AsyncInOwnMemory  # type: ignore[misc, assignment]
