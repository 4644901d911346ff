"""Copy the vectors that can still be read from a damaged database.

Computing vectors is the only slow part of building an index, so this copies them row by row, around lost pages. Each
vector is stored twice, as float16 and as int8 made from it. If both look like vectors but do not match, nobody can tell
which one is right, so the vector is computed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import compress, islice
from pathlib import Path
from typing import Any

import apsw

from memsync.index.sqlite.schema import load_vec0
from memsync.index.vectors import are_unit, is_int8_vector, to_int8
from memsync.model.query import EmbeddingSpace

SPACE_KEY = "space "
"""`meta` keeps a copy of each space's description under this key and its number: without one, vectors are useless."""
HASH_BYTES = 32
BLOCK_ROWS = 1_000

_SPACES = "SELECT id, name, description, dimension, state FROM space"
_SPACES_AGAIN = "SELECT CAST(substr(key, 7) AS INTEGER), value FROM meta WHERE key GLOB 'space [0-9]*'"
# (rowid, hash, space, value) of the vectors between two row numbers, without these two.
_VECTORS = "SELECT rowid, hash, space, value FROM vector WHERE rowid > ? AND rowid < ? ORDER BY rowid"
_INSERT_SPACE = "INSERT OR IGNORE INTO space VALUES (?, ?, ?, ?, 'retired')"
_INSERT_VECTOR = "INSERT OR IGNORE INTO vector VALUES (?, ?, ?)"
_INSERT_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
# (hash, float16 vector, int8 vector) of each passage of a live space that has both.
_TWICE = """
SELECT p.hash, c.value, v.embedding FROM vec_{space} v JOIN passage p ON p.id = v.rowid
JOIN vector c ON c.hash = p.hash AND c.space = {space}
"""
_FORGET = "DELETE FROM vector WHERE hash = ? AND space = ?"
_LAST = 2**63 - 1
_UNREADABLE = (apsw.Error, UnicodeDecodeError)
"""Errors on reading a row: SQLite returns damaged text as it is, and apsw cannot decode it."""


def copy_vectors(source: Path, target: apsw.Connection) -> str:
    """Copy every space and every usable vector of a database, damaged or not, into an empty one.

    Returns the description of the active space; empty if there was none or it cannot be read.
    """
    try:
        database = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
    except apsw.Error:
        return ""
    target.execute("BEGIN IMMEDIATE")
    with closing(database):
        database.set_busy_timeout(1_000)
        spaces, active = _spaces(database)
        for number, space in spaces.items():
            target.execute(_INSERT_SPACE, (number, space.name, space.description, space.dimension))
            target.execute(_INSERT_META, (f"{SPACE_KEY}{number}", space.description))
        readable = _readable(database, 0, _LAST) if spaces else iter(())
        while rows := list(islice(readable, BLOCK_ROWS)):
            for number, space in spaces.items():
                target.executemany(_INSERT_VECTOR, _usable(rows, number, space.dimension))
        load_vec0(database)
        for number in spaces:
            target.executemany(_FORGET, [(digest, number) for digest in _doubtful(database, number)])
    target.execute("COMMIT")
    return active


def _doubtful(database: apsw.Connection, space: int) -> Iterator[bytes]:
    """Yield the hashes of the texts whose two vectors differ, as far as they can be read."""
    with suppress(*_UNREADABLE):  # a retired space has no int8 vectors, a damaged one may lack some
        for digest, value, int8 in database.execute(_TWICE.format(space=space)):
            if len(value) == 2 * len(int8) and to_int8(value) != int8 and is_int8_vector(int8):
                yield digest


def _spaces(database: apsw.Connection) -> tuple[dict[int, EmbeddingSpace], str]:
    """Return each space by its number, and the description of the active one."""
    spaces: dict[int, EmbeddingSpace] = {}
    active = ""
    with suppress(*_UNREADABLE):
        for number, name, description, dimension, state in database.execute(_SPACES):
            space = _described(description)
            if space is not None and (space.name, space.dimension) == (name, dimension):
                spaces[number] = space
                active = space.description if state == "active" else active
    with suppress(*_UNREADABLE):
        for number, description in database.execute(_SPACES_AGAIN):
            space = _described(description)
            if space is not None:
                spaces.setdefault(number, space)
    if not active and len(spaces) == 1:
        active = next(iter(spaces.values())).description
    return spaces, active


def _described(description: object) -> EmbeddingSpace | None:
    with suppress(ValueError, RecursionError):
        return EmbeddingSpace.described(str(description))
    return None


def _readable(database: apsw.Connection, above: int, below: int) -> Iterator[tuple[Any, ...]]:
    """Yield the readable rows between two row numbers: up to a lost page, down to one, then the range in between."""
    first = above
    try:
        for row in database.execute(_VECTORS, (above, below)):
            first = row[0]
            yield row
    except _UNREADABLE:
        pass
    else:
        return
    last = below
    with suppress(*_UNREADABLE):
        for row in database.execute(_VECTORS.replace("ORDER BY rowid", "ORDER BY rowid DESC"), (first, below)):
            last = row[0]
            yield row
    if last == _LAST:
        return  # the end of the table is lost, and its last row number is unknown
    if last - first > 2:
        middle = (first + last) // 2
        yield from _readable(database, first, middle + 1)
        yield from _readable(database, middle, last)


def _usable(rows: list[tuple[Any, ...]], space: int, dimension: int) -> Iterator[tuple[Any, ...]]:
    """Return (hash, space, value) of the rows that have a valid vector of a space."""
    shaped = [
        row[1:]
        for row in rows
        if row[2] == space and isinstance(row[1], bytes) and len(row[1]) == HASH_BYTES
        and isinstance(row[3], bytes) and len(row[3]) == 2 * dimension
    ]  # fmt: skip
    return compress(shaped, are_unit([value for _, _, value in shaped]))
