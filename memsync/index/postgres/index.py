"""The PostgreSQL index: one memory among the others of a database, its transactions, and which machine may write it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from memsync.errors import IndexBusy, IndexFailure
from memsync.index.frequencies import FrequencyCache
from memsync.index.postgres import queries
from memsync.index.postgres.connections import Connections, DatabaseConnection
from memsync.index.postgres.hnsw import make_hnsw
from memsync.index.postgres.kept_claim import KeptClaim, write_claim
from memsync.index.postgres.local_state import LocalState
from memsync.index.postgres.migrate import require_version
from memsync.index.postgres.reader import EXACT_PASSAGES, Outside, PostgresReader
from memsync.index.postgres.refusals import OWN_SOURCE
from memsync.index.postgres.rows import postgres_note
from memsync.index.postgres.writer import PostgresWriter
from memsync.system import clock

if TYPE_CHECKING:
    from memsync.model.note import Chunk, Note
    from memsync.ports import Index, PreparedNote

EF_SEARCH = 400
"""Vectors that an HNSW search visits; more find more, but slower."""
_BESIDE = " (being rebuilt)"
_REPLACED = " (replaced)"

# (number, id and text of the writer, version of the tables) of a memory. The schema is named because a role without
# rights to it would otherwise find no table instead of no right. The version, because another process may have
# migrated the tables since this one began.
_FIND = """
SELECT root, writer, writer_label, (SELECT coalesce(max(number), 0) FROM memsync.migration)
FROM memsync.memory WHERE name = %s
"""
_LOCKED = "FOR UPDATE"
_CREATE = """
INSERT INTO memory (name, writer, writer_label) VALUES (%s, %s, %s) ON CONFLICT (name) DO NOTHING RETURNING root
"""
# Give a memory of this writer another name, unless one has it already.
_RENAME = """
UPDATE memsync.memory SET name = %(new)s WHERE name = %(old)s AND writer = %(writer)s
AND NOT EXISTS (SELECT FROM memory WHERE name = %(new)s)
"""


class Claim(NamedTuple):
    """Who writes a memory: an id of machine and folder, and a text for people."""

    writer: str
    label: str


class PostgresIndex:
    """One memory of a database. It connects when it is first used, so that a database that is away blocks no start."""

    def __init__(
        self,
        dsn: str,
        name: str,
        folder: Path,
        claim: Claim,
        *,
        former_name: str = "",
        ef_search: int = EF_SEARCH,
        stores_text: bool = False,
        statement_ms: int = 0,
        source: str = "",
        own: str = OWN_SOURCE,
    ) -> None:
        """`former_name` is the name under which the same folder wrote before: its memory gets the new name."""
        self._connections = Connections(dsn, statement_ms=statement_ms, source=source, own=own)
        self._former_name = former_name
        self.name = name
        self._folder = folder
        self._claim = claim
        state = LocalState(folder / "local.json")
        self._outside = Outside(state, ef_search, stores_text)
        self._frequencies = FrequencyCache()
        self._thread = _ThreadReader()
        self._write_lock = threading.RLock()

    @property
    def prepare(self) -> Callable[[Note, Sequence[Chunk]], PreparedNote]:
        """The function that makes the rows of a note."""
        return partial(postgres_note, stores_text=self._outside.stores_text)

    @property
    def server(self) -> str:
        """Host, port and database, for messages."""
        return self._connections.server

    @property
    def place(self) -> str:
        """The server and the memory's name."""
        return f"{self.server}, memory {self.name}"

    @property
    def _leftovers(self) -> list[str]:
        """The names of what a killed rebuild may have left."""
        return [f"{self.name}{_BESIDE}", f"{self.name}{_REPLACED}"]

    @contextmanager
    def reading(self) -> Iterator[PostgresReader]:
        """Yield a consistent view. Nested calls in one thread share it."""
        if self._thread.reader is not None:
            yield self._thread.reader
            return
        with self._connections.reading() as connection:
            row = self._find(connection)
            root = row[0] if row else 0
            self._thread.reader = PostgresReader(connection, root, self._outside, self._frequencies)
            try:
                yield self._thread.reader
            finally:
                self._thread.reader = None

    @contextmanager
    def writing(self) -> Iterator[PostgresWriter]:
        """Yield a write transaction; commit it at the end, or roll it back if the body raises."""
        with self._write_lock, self._connections.writing() as connection:
            if self._former_name not in ("", self.name):
                connection.execute(
                    _RENAME.encode(), {"old": self._former_name, "new": self.name, "writer": self._claim.writer}
                )
            root = self._own_root(connection)
            writer = PostgresWriter(connection, root, self._outside)
            yield writer
            writer.finish()
            if self._former_name != self.name:
                write_claim(self._folder, KeptClaim(self.name, self._claim.writer))
        self._former_name = self.name

    def _find(self, connection: DatabaseConnection, lock: str = "") -> tuple[int, str, str] | None:
        """Return number, writer and the writer's text of the memory; None if there is none. Raises IndexTooNew."""
        row = connection.execute(f"{_FIND}{lock}".encode(), (self.name,)).fetchone()
        if row is None:
            return None
        require_version(row[3], self.server)
        return row[0], row[1], row[2]

    def _own_root(self, connection: DatabaseConnection) -> int:
        """Lock the memory for this transaction and return its number; create it if there is none.

        Raises IndexFailure if another machine or folder writes it.
        """
        row = self._find(connection, _LOCKED)
        if row is None:
            connection.execute(_CREATE.encode(), (self.name, *self._claim))
            row = self._find(connection, _LOCKED)
            assert row is not None
            generation = str(clock.time_ns() // 1000)  # a memory that replaces this one never has the same generation
            connection.execute(
                b"INSERT INTO meta VALUES (%s, 'generation', %s) ON CONFLICT DO NOTHING", (row[0], generation)
            )
        self._check_writer(row)
        return row[0]

    def _check_writer(self, row: tuple[int, str, str]) -> None:
        _, writer, label = row
        if writer != self._claim.writer:
            raise IndexFailure(
                f"the memory {self.name!r} on {self.server} is written by {label}",
                hint="Give this memory another name (index.name), or, if that machine or folder is gone for good,"
                " run: memsync index claim --take-over",
            )

    def claim(self, *, take_over: bool) -> str:
        """Make this machine and folder the writer of the memory; return who wrote it before, empty if nobody did.

        Raises IndexFailure if another one is and `take_over` is not set.
        """
        with self._write_lock, self._connections.writing() as connection:
            row = self._find(connection, _LOCKED)
            if row is None or row[1] == self._claim.writer or not take_over:
                self._own_root(connection)
                return ""
            connection.execute(
                b"UPDATE memory SET writer = %s, writer_label = %s, claimed_at = now() WHERE root = %s",
                (*self._claim, row[0]),
            )
            return str(row[2])

    def check_writable(self) -> None:
        """Raise IndexFailure if another machine or folder writes the memory, or if this role may only read.

        Locks the memory's row for an instant, because that needs what a write needs; waits for nobody who has it.
        """
        with self._connections.writing() as connection:
            row = self._find(connection, f"{_LOCKED} SKIP LOCKED") or self._find(connection)
            if row is not None:
                self._check_writer(row)

    def check(self, *, is_quick: bool = False) -> None:  # noqa: ARG002 (because the port fixes it)
        """Only connect: the server guards its files, and `verify` compares all rows with those of a new index."""
        with self.reading():
            pass

    def _delete(self, names: Sequence[str]) -> None:
        """Delete memories of the writer of this one. Raises IndexFailure if that is another machine or folder."""
        with self._write_lock, self._connections.writing() as connection:
            self._own_root(connection)
            connection.execute(b"DELETE FROM memory WHERE name = ANY (%s)", (list(names),))

    def take_damage(self) -> str:
        """Return nothing: an error of the server ends the work that met it."""
        return ""

    def take_warnings(self) -> list[str]:
        """Return none."""
        return []

    def compact(self, *, bulk: bool, is_changed: bool = True) -> None:  # noqa: ARG002 (because an earlier sync may have ended early)
        """Make the HNSW index of the active space if it is worth it; after a bulk load, tidy up words, too."""
        with self.reading() as reader:
            space, passages = reader.active_space(), int(reader.value(queries.PASSAGE_COUNT))
        if space is not None and passages > EXACT_PASSAGES:
            with suppress(IndexBusy):  # another memory is written to: the next sync tries again
                make_hnsw(self._connections, space.dimension, passages)
        if bulk:
            with self._connections.writing() as connection:
                connection.execute(b"SELECT gin_clean_pending_list('word_row_words')")
                connection.execute(b"ANALYZE note, chunk, passage, word_row, vocabulary, embedding, fact, tag")

    def in_file(self, path: Path) -> Index:
        """Return a SQLite index: a state of the past is on this machine alone."""
        from memsync.index.sqlite.index import SqliteIndex

        return SqliteIndex(path)

    def copy_to(self, path: Path) -> None:
        """Write nothing: the file will be an empty index."""

    def beside(self) -> PostgresIndex:
        """Return an empty memory next to this one.

        Removes what a killed process left, so the caller must hold the sync lock.
        """
        other = PostgresIndex.__new__(PostgresIndex)
        other.__dict__.update(self.__dict__)
        other.name = other._former_name = f"{self.name}{_BESIDE}"
        other._outside = self._outside._replace(local=LocalState(self._folder / "local.beside.json"))
        other._outside.local.remove()
        other._thread, other._write_lock = _ThreadReader(), threading.RLock()
        other._frequencies = FrequencyCache()
        with self._connections.writing() as connection:
            self._own_root(connection)
            connection.execute(b"DELETE FROM memory WHERE name = ANY (%s)", (self._leftovers,))
            other._own_root(connection)
        return other

    def discard_leftovers(self) -> None:
        """Delete what a killed rebuild left: it may have text of notes that are local-only now.

        The caller must hold the sync lock. Raises IndexFailure.
        """
        with self._connections.reading() as connection:
            statement = b"SELECT FROM memsync.memory WHERE name = ANY (%s)"
            has_leftovers = connection.execute(statement, (self._leftovers,)).fetchone() is not None
        if has_leftovers:
            self._delete(self._leftovers)

    def take_over(self, other: Index) -> None:
        """Give the name of this memory to `other` in one step, then delete the rows of the old one.

        Grants stay with the name. Raises IndexBusy, IndexFailure; this memory then stays in use.
        """
        assert isinstance(other, PostgresIndex)
        other.compact(bulk=True)
        with self._write_lock, self._connections.writing() as connection:
            old = self._own_root(connection)
            new = other._own_root(connection)
            connection.execute(b"UPDATE memory SET name = %s WHERE root = %s", (f"{self.name}{_REPLACED}", old))
            connection.execute(b"UPDATE memory SET name = %s WHERE root = %s", (self.name, new))
            connection.execute(b"UPDATE grantee SET root = %s WHERE root = %s", (new, old))
            self._outside.local.take_in(other._outside.local)  # before the commit, which decides whose state counts
        with suppress(IndexFailure), self._connections.writing() as connection:  # otherwise `beside` deletes them
            connection.execute(b"DELETE FROM memory WHERE root = %s", (old,))

    def discard(self) -> None:
        """Delete a memory that `beside` made, if possible; otherwise the next `beside` does it."""
        with suppress(IndexFailure), self._connections.writing() as connection:
            connection.execute(b"DELETE FROM memory WHERE name = %s AND writer = %s", (self.name, self._claim.writer))
        self._outside.local.remove()

    def forget(self) -> None:
        """Delete everything of this memory in the database. Raises IndexFailure if another machine writes it."""
        self._delete([self.name, *self._leftovers])
        self._outside.local.remove()
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._connections.close()


class _ThreadReader(threading.local):
    """The view that a thread is reading, which nested calls share."""

    reader: PostgresReader | None = None
