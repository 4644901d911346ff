"""The database of cached vectors: its tables, queries and transactions.

Each user has one file, in WAL mode, so that reading never waits for another process. Writers wait only a moment for
each other: a vector that is not cached now is cached later or computed again.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import apsw

from memsync.errors import IndexTooNew
from memsync.index.vectors import are_unit
from memsync.model.query import EmbeddingSpace
from memsync.system import clock, database_files
from memsync.system.transactions import read_transaction, write_transaction

HASH_BYTES = 32


def checksum(content_hash: bytes, value: bytes) -> int:
    """Return the CRC-32 of a hash and its vector, which reveals damage to either of them."""
    return zlib.crc32(value, zlib.crc32(content_hash))


def value_bytes(dimension: int) -> int:
    """Return the size of a float16 vector in bytes."""
    return 2 * dimension


VERSION = 1
PAGE_BYTES = 8_192
"""SQLite's usual page of 4,096 bytes holds four vectors of 384 dimensions and wastes a fifth of its space."""
KEPT_SHARE = 0.8
"""The share of the size limit that remains after trimming, so that trimming is rare."""
MAX_VALUE_BYTES = 200_000
"""The largest row that is read: enough for vectors of almost 100,000 dimensions."""
MAX_SPACES = 100
"""How many spaces a file from another machine may have."""
_DAY_SECONDS = 86_400

_SCHEMA = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID, STRICT;
CREATE TABLE space (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL       -- JSON object: the fields of EmbeddingSpace
) STRICT;
CREATE TABLE vector (
    id INTEGER PRIMARY KEY,
    space INTEGER NOT NULL REFERENCES space (id),
    hash BLOB NOT NULL,             -- SHA-256 of the passage
    used INTEGER NOT NULL,          -- the day on which it was stored, counted from 1970
    checksum INTEGER NOT NULL,      -- CRC-32 of hash and value
    value BLOB NOT NULL             -- float16, little-endian, unit length
) STRICT;
CREATE UNIQUE INDEX vector_hash ON vector (space, hash);
CREATE INDEX vector_used ON vector (used);
"""
_STATEMENTS = sorted(statement.strip() for statement in _SCHEMA.split(";") if statement.strip())
_TABLE_LEAF = b"\x0d"
"""The first byte of the list of tables if that fits into one page."""
_FIND = "SELECT hash, checksum, value FROM vector WHERE space = ? AND hash = ?"
_ADD = """
INSERT INTO vector (space, hash, used, checksum, value) VALUES (?, ?, ?, ?, ?) ON CONFLICT (space, hash) DO UPDATE
SET checksum = excluded.checksum, value = excluded.value WHERE (checksum, value) != (excluded.checksum, excluded.value)
"""
_FORGET_OLDEST = "DELETE FROM vector WHERE id IN (SELECT id FROM vector ORDER BY used, id LIMIT ?)"
# (hash, checksum, vector) of every vector of a space, in the order in which they came.
_ALL = "SELECT hash, checksum, value FROM vector WHERE space = ? ORDER BY id"
_COUNT = "SELECT count(*) FROM vector WHERE space = ?"


@dataclass(frozen=True, slots=True)
class CachedSpace:
    """A space of the cache, and its number of vectors."""

    space: EmbeddingSpace
    vectors: int


class VectorDatabase:
    """One connection to the database at `path`, which is created if it does not exist.

    A `journal` other than SQLite's "wal" keeps everything in this one file. A file from another machine (`is_foreign`)
    is checked, and only read. Methods raise apsw's errors, including CorruptError for invalid rows. The constructor
    also raises IndexTooNew, and FilesystemError if the file cannot be created.
    """

    def __init__(self, path: Path, busy_ms: int, *, journal: str = "wal", is_foreign: bool = False) -> None:
        database_files.create_private(path)
        self._numbers: dict[str, int] = {}
        self._is_foreign = is_foreign
        flags = apsw.SQLITE_OPEN_READONLY if is_foreign else apsw.SQLITE_OPEN_READWRITE
        self._db = apsw.Connection(str(path), flags=flags)
        try:
            self._db.set_busy_timeout(busy_ms)
            self._db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            self._db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            self._db.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            self._check(path) if is_foreign else self._prepare(path, journal)
            self.inode = os.stat(path).st_ino
            self._numbers = {name: number for number, name, _ in self._spaces()}
        except BaseException:
            self.close()
            raise

    def _check(self, path: Path) -> None:
        """Raise CorruptError unless the file is whole, and has the cache's tables and nothing else.

        So it has no views, triggers or expressions of a stranger, and reading its tables takes no longer than its size.
        """
        with path.open("rb") as file:
            has_few_tables = file.read(101)[100:] == _TABLE_LEAF  # SQLite holds a list of any length in memory
        tables = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY sql"
        if not (
            has_few_tables
            and [sql for (sql,) in self._db.execute(tables)] == _STATEMENTS
            and self._db.pragma("user_version") == VERSION
            and self._db.pragma("integrity_check", 1) == "ok"
            and path.stat().st_size == int(str(self._db.pragma("page_count"))) * int(str(self._db.pragma("page_size")))
            and int(str(self._db.execute("SELECT count(*) FROM space").get)) <= MAX_SPACES
        ):
            raise apsw.CorruptError("it is not whole, or its tables are not those of a vector cache")

    def _prepare(self, path: Path, journal: str) -> None:
        version = self._db.pragma("user_version")
        if version not in (0, VERSION):
            if 0 < int(str(version)) < 1_000:
                hint = "Upgrade memsync."
                raise IndexTooNew(f"a later version of memsync wrote the vector cache {path}", hint=hint)
            raise apsw.CorruptError(f"its version is {version}")
        if version == 0:
            self._db.pragma("page_size", PAGE_BYTES)
        self._db.pragma("journal_mode", journal)
        self._db.pragma("synchronous", "normal")
        if version == VERSION:
            return
        with self.writing():
            if self._db.pragma("user_version") == 0:  # another process may have created the tables
                if self._db.execute("SELECT count(*) FROM sqlite_schema").get:
                    raise apsw.CorruptError("its tables are not the cache's")
                for _ in self._db.execute(_SCHEMA):
                    pass
                self._db.execute("INSERT INTO about VALUES ('identity', ?)", (os.urandom(8).hex(),))
                self._db.pragma("user_version", VERSION)

    def close(self) -> None:
        """Close the connection. If its last checkpoint fails, the write-ahead log still has the data."""
        with suppress(apsw.Error):
            self._db.close(True)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Run the body in one write transaction; commit it, or roll it back if the body raises."""
        try:
            with write_transaction(self._db):
                yield
        except BaseException:
            self._numbers = {}  # it may contain a space that was rolled back
            raise

    def reading(self) -> AbstractContextManager[None]:
        """Return a read transaction, in which all queries see the same state."""
        return read_transaction(self._db)

    def identity(self) -> str:
        """Return this database's random id, which a replacement does not have."""
        return str(self._db.execute("SELECT value FROM about WHERE key = 'identity'").get or "")

    # ---------------------------------------------------------------------------------------- spaces

    def spaces(self) -> list[CachedSpace]:
        """Return all spaces, in the order in which they were added."""
        return [
            CachedSpace(space, int(str(self._db.execute(_COUNT, (number,)).get))) for number, _, space in self._spaces()
        ]

    def _spaces(self) -> list[tuple[int, str, EmbeddingSpace]]:
        """Return (number, name, space) of each. Raises CorruptError if a description does not fit its name."""
        spaces = []
        for number, name, description in self._db.execute("SELECT id, name, description FROM space ORDER BY id"):
            try:
                space = EmbeddingSpace.described(str(description))
            except (ValueError, RecursionError):
                space = None
            if space is None or space.name != name:
                raise apsw.CorruptError(f"the description of space {number} does not fit its name")
            spaces.append((int(str(number)), space.name, space))
        return spaces

    def _number(self, space: EmbeddingSpace) -> int | None:
        if space.name not in self._numbers:
            self._numbers = {name: number for number, name, _ in self._spaces()}
        return self._numbers.get(space.name)

    def _number_made(self, space: EmbeddingSpace) -> int:
        number = self._number(space)
        if number is None:
            row = (space.name, space.description)
            self._db.execute("INSERT INTO space (name, description) VALUES (?, ?)", row)
            number = self._numbers[space.name] = self._db.last_insert_rowid()
        return number

    # --------------------------------------------------------------------------------------- vectors

    def find(self, space: EmbeddingSpace, hashes: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the vectors of these hashes, but not broken ones: they are computed again and replaced."""
        number, size = self._number(space), value_bytes(space.dimension)
        found = self._db.executemany(_FIND, [(number, digest) for digest in hashes])
        values = {digest: value for digest, check, value in found if _is_sound(digest, check, value, size)}
        return dict(compress(values.items(), are_unit(list(values.values()))))

    def add(self, space: EmbeddingSpace, values: Iterable[tuple[bytes, bytes]]) -> None:
        """Store (hash, float16 vector); they replace those that are there. Call this in a write transaction."""
        number, today = self._number_made(space), int(clock.seconds() // _DAY_SECONDS)
        rows = ((number, digest, today, checksum(digest, value), value) for digest, value in values)
        self._db.executemany(_ADD, rows)

    def all_of(self, space: EmbeddingSpace) -> Iterator[tuple[bytes, bytes]]:
        """Yield (hash, vector) of every intact vector of a space. A broken vector of a foreign file is an error."""
        size = value_bytes(space.dimension)
        for digest, check, value in self._db.execute(_ALL, (self._number(space),)):
            if _is_sound(digest, check, value, size):
                yield digest, value
            elif self._is_foreign:
                raise apsw.CorruptError("a vector does not fit its checksum")

    # ------------------------------------------------------------------------------------------ size

    def used_bytes(self) -> int:
        """Return how many bytes of the file are in use."""
        pages = int(str(self._db.pragma("page_count"))) - int(str(self._db.pragma("freelist_count")))
        return pages * int(str(self._db.pragma("page_size")))

    def trim(self, max_bytes: int) -> None:
        """Delete the oldest vectors if the file uses more than `max_bytes`.

        Their last use would not tell which ones an index still needs: it looks up only those that it lacks.
        """
        if self.used_bytes() <= max_bytes:
            return
        with self.writing():
            count = int(str(self._db.execute("SELECT count(*) FROM vector").get))
            kept = int(count * KEPT_SHARE * min(1.0, max_bytes / self.used_bytes()))
            self._db.execute(_FORGET_OLDEST, (count - kept,))
        self._db.execute("VACUUM")
        self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def _is_sound(digest: object, check: object, value: object, size: int) -> bool:
    return (
        isinstance(digest, bytes)
        and len(digest) == HASH_BYTES
        and isinstance(value, bytes)
        and len(value) == size
        and check == checksum(digest, value)
    )
