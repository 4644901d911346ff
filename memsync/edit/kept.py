"""What outlives the index of a memory root and must survive a crash: one SQLite database in the state folder.

It has the journal of appends, how notes ended after their last append, and the runs that can be undone. Writing waits
for the disk only where a run begins: an append waits for the disk with its note, so `kill -9` loses nothing of the
journal, and a loss of power only its last entries.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import apsw

from memsync.errors import FilesystemError
from memsync.index.sqlite.database_files import create_private
from memsync.index.sqlite.transactions import translate_sqlite_errors, write_transaction
from memsync.model.vocabulary import NotePath

FILE = "kept.db"
VERSION = 2
BUSY_TIMEOUT_MS = 5_000
MAX_RUNS = 100
"""Moves and accepts of longer ago cannot be undone, because each keeps copies of whole notes."""
_DROP_OLD = "DELETE FROM step WHERE kind IN (?, ?) AND run < ?"
CHECKPOINT_PAGES = 250
"""Pages of SQLite's log until it is copied into the database: few, because each new process reads the log."""
_TABLES = """
CREATE TABLE append (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,                       -- Unix time
    path TEXT NOT NULL,
    text TEXT NOT NULL,
    head TEXT NOT NULL,                     -- begins the note if it has to be created
    branch TEXT NOT NULL,                   -- of git
    replaced_by INTEGER                     -- the append that restores this one
) STRICT;
CREATE INDEX append_path ON append (path);
CREATE TABLE ending (                       -- how a note ended after its last append
    path TEXT PRIMARY KEY,
    ending TEXT NOT NULL                    -- JSON
) STRICT, WITHOUT ROWID;
CREATE TABLE step (                         -- what a run does to a note, until it is undone
    run INTEGER NOT NULL,
    user TEXT,                              -- whose text the run takes out
    path TEXT NOT NULL,
    other TEXT NOT NULL,                    -- where the note is moved to; or its former path
    before BLOB NOT NULL,                   -- the note's content; empty if it is moved
    after TEXT NOT NULL,                    -- SHA-256 of its content after the run; empty if there is none
    mode INTEGER NOT NULL,
    parts TEXT NOT NULL,                    -- the first and last lines of the text that is taken out, as JSON
    kind TEXT NOT NULL DEFAULT '',          -- of the run
    PRIMARY KEY (run, path)
) STRICT;
"""

_UPGRADES = {
    1: """
ALTER TABLE step ADD COLUMN kind TEXT NOT NULL DEFAULT '';
UPDATE step SET kind = CASE WHEN user IS NULL THEN 'prune' ELSE 'forget' END;
"""
}
"""Version -> what makes the next one of it."""


class Work(StrEnum):
    """What a run does, which decides what undoes it."""

    PRUNE = "prune"
    FORGET = "forget"
    MOVE = "mv"
    ACCEPT = "proposals accept"


Lines = tuple[int, int]
"""The first and the last line of a part of a note, counted from 1."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a run does to one note: it moves the note to `other`, changes its text, or both.

    `user` is whose text it takes out, or what else tells what the run did. Where it takes out text, `other` is the path
    under which appends to the note may be in the journal, and `parts` are the lines that go. `before` is its content,
    `after` the SHA-256 of its content afterwards: empty if the whole note goes or if its text does not change.
    """

    path: NotePath
    other: NotePath
    kind: Work
    user: str = ""
    before: bytes = b""
    after: str = ""
    mode: int = 0
    parts: tuple[Lines, ...] = ()
    run: int = 0


class Kept:
    """The database in `folder`, which the first write creates.

    All methods raise FilesystemError, IndexBusy and IndexFailure.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._lock = threading.Lock()
        self._database: apsw.Connection | None = None
        self._file: os.stat_result | None = None

    @contextmanager
    def writing(self, *, waits: bool = False) -> Iterator[apsw.Connection]:
        """Yield the database in one transaction. With `waits`, the transaction is on the disk afterwards."""
        with self._opened(create=True) as database:
            assert database is not None
            database.pragma("synchronous", "full" if waits else "normal")
            with write_transaction(database):
                yield database

    def rows(self, statement: str, values: Sequence[apsw.SQLiteValue] = ()) -> list[Any]:
        """Return the rows of a SELECT; none if nothing was ever written."""
        with self._opened(create=False) as database:
            return list(database.execute(statement, values)) if database else []

    def wipe(self) -> None:
        """Leave nothing of deleted text on the disk, and delete how notes ended. Raises IndexBusy to be tried again."""
        with self._opened(create=False) as database:
            if database:
                with write_transaction(database):
                    database.execute("DELETE FROM ending")
                database.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def close(self) -> None:
        """Close the database. The next call opens it again."""
        if self._database is not None:
            self._database.close()
            self._database = None

    # ------------------------------------------------------------------------------------------------- runs

    def begin(self, steps: Iterable[Step]) -> int:
        """Record a run on the disk, before it changes the first note; return its number."""
        with self.writing(waits=True) as database:
            run = int(database.execute("SELECT coalesce(max(run), 0) + 1 FROM step").get)
            rows = (
                (run, s.user, s.path, s.other, s.before, s.after, s.mode, json.dumps(s.parts), s.kind) for s in steps
            )
            database.execute(_DROP_OLD, (Work.MOVE, Work.ACCEPT, run - MAX_RUNS))
            database.executemany("INSERT INTO step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        return run

    def steps(self, kind: Work) -> list[Step]:
        """Return the steps of all runs of one kind that can be undone, the last one first."""
        rows = self.rows(
            "SELECT path, other, user, before, after, mode, parts, run FROM step WHERE kind = ?"
            " ORDER BY run DESC, rowid DESC",
            (kind,),
        )
        return [
            Step(path, other, kind, user or "", before, after, mode, tuple(map(tuple, json.loads(parts))), run)
            for path, other, user, before, after, mode, parts, run in rows
        ]

    def drop(self, run: int, paths: Iterable[NotePath]) -> None:
        """Delete steps: what they did is undone, was never done, or is not to be undone any more."""
        with self.writing() as database:
            database.executemany("DELETE FROM step WHERE run = ? AND path = ?", [(run, path) for path in paths])

    # -------------------------------------------------------------------------------------------- connection

    @contextmanager
    def _opened(self, *, create: bool) -> Iterator[apsw.Connection | None]:
        """Yield the database to one thread at a time; None if there is none, unless `create`."""
        with self._lock, translate_sqlite_errors(str(self._path)):
            try:
                yield self._current(create=create)
            except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError) as error:
                hint = "It has the journal, and what can be undone. Move it away to go on without these."
                raise FilesystemError(f"{self._path} is damaged: {error}", hint=hint) from error

    def _current(self, *, create: bool) -> apsw.Connection | None:
        """Return the connection to the file that has the database's name now."""
        if not self._path.exists():
            if not create:
                return None
            create_private(self._path)
        status = os.stat(self._path)
        if self._database is None or self._file is None or not os.path.samestat(status, self._file):
            self.close()
            self._database, self._file = _connected(self._path), status
        return self._database


def _connected(path: Path) -> apsw.Connection:
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    database.set_busy_timeout(BUSY_TIMEOUT_MS)
    database.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # because that waits for the disk, in each process
    database.wal_autocheckpoint(CHECKPOINT_PAGES)
    database.pragma("secure_delete", "on")
    if not (version := database.pragma("user_version")):
        database.pragma("auto_vacuum", "full")
        database.pragma("journal_mode", "wal")
    if version < VERSION:
        with write_transaction(database):
            now = database.pragma("user_version")  # another process may have made the tables meanwhile
            if now < VERSION:
                database.execute(_UPGRADES[now] if now else _TABLES)
                database.pragma("user_version", VERSION)
    elif version > VERSION:
        raise FilesystemError(f"{path} is of a later memsync", hint="Upgrade memsync.")
    return database
