"""The canonical dump of a memory: the very lines of the SQLite index, so that both can be compared byte for byte.

SQLite keeps figures of FTS5's own tables in its dump. Here they are computed from the packed lists.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from memsync.index.postgres import queries
from memsync.index.postgres.halfvec import from_halfvec
from memsync.index.postgres.postings import read_places, read_postings
from memsync.index.vectors import to_int8
from memsync.model.vocabulary import Form, NotePath

if TYPE_CHECKING:
    from memsync.index.postgres.keyword import Rows, Totals

MAX_ITEMS = 256
_COLUMNS = ("body", "heading", "context", "cjk")


def lines(rows: Rows, history: Mapping[NotePath, tuple[bytes, int]], space: int | None, known: Totals) -> Iterator[str]:
    """Yield the dump, one JSON list per line; `space` is the number of the active space.

    Another line says if the word index has other totals than `known`, with which searches compute bm25.
    """
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
    numbers = dict[int, int]()
    totals, row_count = [0, 0, 0, 0], 0
    for number, (chunk, path, ordinal, form, lengths) in enumerate(rows(queries.PLACES_OF_CHUNKS, {}), 1):
        numbers[chunk] = number
        for item, sizes in enumerate(_sizes(lengths), 1 if form == Form.GROUP else 0):
            row_count += 1
            totals = [total + size for total, size in zip(totals, sizes, strict=True)]
            yield _line(("words of", path, ordinal, item, b"".join(map(_varint, sizes)).hex()))
    all_words = b"".join(map(_varint, (row_count, *totals))).hex() if row_count else ""
    yield _line(("words of all", all_words if all_words.strip("0") else ""))
    if known != (row_count, sum(totals)):
        yield _line(("words that searches count", *known))
    for word, parts in groupby(rows(queries.ALL_POSTINGS, {}), key=lambda row: str(row[0])):
        yield _line(("word", word, *_checksums([(postings, places) for _, postings, places in parts], numbers)))


def _line(row: Iterable[Any]) -> str:
    return json.dumps(tuple(row), ensure_ascii=False)


def _checksums(parts: list[tuple[bytes, bytes]], numbers: Mapping[int, int]) -> tuple[int, int, int]:
    """Return the number of places of a word and the two checksums that SQLite's dump has of them."""
    import numpy as np

    table = read_postings([postings for postings, _ in parts])
    posting, column, offset = read_places([places for _, places in parts])
    chunk = np.array([numbers.get(number, 0) for number in table[:, 0].tolist()], dtype=np.int64)
    row = (chunk * MAX_ITEMS + (table[:, 1] & 255))[posting]
    first_letter = np.array([ord(name[0]) for name in _COLUMNS])[column]
    offset = offset.astype(np.int64)
    first = (row * 1_000_003 + offset * 8 + first_letter) % 2_147_483_647
    second = (row * 7_368_787 + offset * 31 + first_letter) % 1_073_741_789 * (offset % 97 + 1)
    return len(row), int(first.sum()), int(second.sum())


def _sizes(lengths: bytes) -> list[list[int]]:
    import numpy as np

    sizes: list[list[int]] = np.frombuffer(lengths, dtype="<u4").reshape(-1, len(_COLUMNS)).tolist()
    return sizes


def _varint(number: int) -> bytes:
    """Return a number as FTS5 stores it: seven bits a byte, the highest first."""
    groups = [number & 127]
    while number := number >> 7:
        groups.append(number & 127 | 128)
    return bytes(reversed(groups))
