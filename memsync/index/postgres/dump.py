"""The canonical dump of a memory: the lines of the SQLite index, but the words of rows instead of FTS5's figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from memsync.index.postgres import queries
from memsync.index.postgres.halfvec import from_halfvec
from memsync.index.vectors import to_int8
from memsync.model.vocabulary import NotePath

if TYPE_CHECKING:
    from memsync.index.postgres.reader import Rows


def lines(rows: Rows, history: Mapping[NotePath, tuple[bytes, int]], space: int | None) -> Iterator[str]:
    """Yield the dump, one JSON list per line; `space` is the number of the active space."""
    for statement in (
        queries.DUMP_NOTES, queries.DUMP_CHUNKS, queries.DUMP_TAGS, queries.DUMP_LINKS, queries.DUMP_MESSAGES,
        queries.DUMP_PASSAGES,
    ):  # fmt: skip
        yield from map(_line, rows(statement, {}))
    for path in sorted(history, key=str.encode):
        blob, committed = history[path]
        yield _line(("history", path, blob.hex(), committed))
    if space is not None:
        for digest, value in rows(queries.DUMP_VECTORS, {"space": space}):
            half = from_halfvec(value)
            yield _line(("vector", digest.hex(), to_int8(half).hex(), half.hex()))
    for statement in (queries.DUMP_WORDS, queries.DUMP_VOCABULARY):
        yield from map(_line, rows(statement, {}))


def _line(row: Iterable[Any]) -> str:
    return json.dumps(tuple(row), ensure_ascii=False)
