"""The state of a memory root and the state of the user: two SQLite files with what outlives an index.

Both are in the state folder. A write waits for the disk only if it says so; otherwise `kill -9` loses nothing of it,
and a loss of power only the last writes. A damaged file is never set aside by itself, because it may have the only
copy of a note.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from memsync.errors import FilesystemError
from memsync.system.database_files import create_private, locked
from memsync.system.transactions import translate_sqlite_errors, write_transaction
from memsync.system.user_folders import STATE, filesystem_errors, other_writer, user_folder

BUSY_TIMEOUT_MS = 5_000
OPEN = 16
"""How many of the files that a process has used stay open."""
CHECKPOINT_PAGES = 250
"""Pages of SQLite's log until it is copied into the database: few, because each new process reads the log."""


class Tables(NamedTuple):
    """What a file holds, for its messages, and the script of each version: the first one makes the tables."""

    holds: str
    scripts: tuple[str, ...]


_SINGLE = "CREATE TABLE single (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;"
_ROOT_TABLES = """
-- The journal: `head` begins the note if it has to be created, `branch` was checked out in git, and `replaced_by` is
-- the append that restores this one.
CREATE TABLE append (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, path TEXT NOT NULL, text TEXT NOT NULL,
    head TEXT NOT NULL, branch TEXT NOT NULL, replaced_by INTEGER
) STRICT;
CREATE INDEX append_path ON append (path);
-- How a note ended after its last append, as JSON.
CREATE TABLE ending (path TEXT PRIMARY KEY, ending TEXT NOT NULL) STRICT, WITHOUT ROWID;
-- What a run does to a note, until it is undone: see Step. `parts` is JSON.
CREATE TABLE step (
    run INTEGER NOT NULL, kind TEXT NOT NULL, user TEXT NOT NULL, path TEXT NOT NULL, other TEXT NOT NULL,
    before BLOB NOT NULL, after TEXT NOT NULL, mode INTEGER NOT NULL, parts TEXT NOT NULL, PRIMARY KEY (run, path)
) STRICT;
-- The counts: of notes in searches, of searches, and of the index once a day.
CREATE TABLE retrieved (path TEXT PRIMARY KEY, times INTEGER NOT NULL, last TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE search (at TEXT NOT NULL, ms REAL NOT NULL, hits INTEGER NOT NULL, query TEXT) STRICT;
CREATE INDEX search_at ON search (at);
CREATE TABLE size (
    day TEXT PRIMARY KEY, notes INTEGER NOT NULL, passages INTEGER NOT NULL, bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- The digests of the keys of links that let a browser in, once.
CREATE TABLE link (key TEXT PRIMARY KEY, at REAL NOT NULL) STRICT, WITHOUT ROWID;
"""
_USER_TABLES = """
-- Config files, with the settings that they may set, as JSON.
CREATE TABLE trusted (path BLOB PRIMARY KEY, settings TEXT NOT NULL) STRICT, WITHOUT ROWID;
-- The paths of memory roots, with device and inode of the folders that were there. The last row of a folder counts.
CREATE TABLE place (folder TEXT NOT NULL, path BLOB NOT NULL, PRIMARY KEY (folder, path)) STRICT;
-- What memsync answered at the events of agents, as JSON, by the digest of the session.
CREATE TABLE recall (
    id INTEGER PRIMARY KEY, agent TEXT NOT NULL, session TEXT NOT NULL, at REAL NOT NULL, record BLOB NOT NULL
) STRICT;
CREATE INDEX recall_session ON recall (agent, session, at);
"""
ROOT = Tables("the journal, what can be undone, and the counts of searches", (_SINGLE + _ROOT_TABLES,))
USER = Tables("what you trust, how agents were connected, and what they recalled", (_SINGLE + _USER_TABLES,))


class StateFile:
    """One of the two files, which the first write creates. Safe for several threads and processes.

    All methods raise FilesystemError, IndexBusy and IndexFailure.
    """

    def __init__(self, folder: Path, tables: Tables) -> None:
        self.path = folder / STATE
        self._tables = tables
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

    def write(self, statement: str, values: Sequence[apsw.SQLiteValue] = (), *, waits: bool = False) -> int:
        """Run one statement in a transaction of its own; return how many rows it has changed."""
        with self.writing(waits=waits) as database:
            database.execute(statement, values)
            return database.changes()

    def rows(self, statement: str, values: Sequence[apsw.SQLiteValue] = ()) -> list[Any]:
        """Return the rows of a SELECT; none if nothing was ever written."""
        with self._opened(create=False) as database:
            return list(database.execute(statement, values)) if database else []

    def single(self, name: str) -> Any:
        """Return the value of a name; None if there is none."""
        return next((value for (value,) in self.rows("SELECT value FROM single WHERE name = ?", (name,))), None)

    def keep_single(self, name: str, value: apsw.SQLiteValue, *, waits: bool = False) -> None:
        """Store the value of a name."""
        self.write("REPLACE INTO single VALUES (?, ?)", (name, value), waits=waits)

    def wipe(self) -> None:
        """Leave nothing of deleted text on the disk. Raises IndexBusy to be tried again."""
        with self._opened(create=False) as database:
            if database:
                database.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def close(self) -> None:
        """Close the database. The next call opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    @contextmanager
    def _opened(self, *, create: bool) -> Iterator[apsw.Connection | None]:
        """Yield the database to one thread at a time; None if there is none, unless `create`."""
        with self._lock, translate_sqlite_errors(str(self.path)):
            try:
                with filesystem_errors(f"{self.path} cannot be opened", "Check its permissions."):
                    database = self._current(create=create)
                yield database
            except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError) as error:
                hint = f"It has {self._tables.holds}. Move it away to go on without these."
                raise FilesystemError(f"{self.path} is damaged: {error}", hint=hint) from error

    def _current(self, *, create: bool) -> apsw.Connection | None:
        """Return the connection to the file that has the database's name now."""
        if not self.path.exists():
            if not create:
                return None
            create_private(self.path)
        status = os.stat(self.path)
        if writer := other_writer(status, str(self.path)):
            raise FilesystemError(f"{self.path}: {writer} can change it", hint="Look at it, then move it away.")
        if self._database is None or self._file is None or not os.path.samestat(status, self._file):
            self._close()
            with locked(self.path.parent):  # because no other process may look while SQLite changes the kind of its log
                self._database, self._file = self._connected(), status
        return self._database

    def _connected(self) -> apsw.Connection:
        database = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
        database.set_busy_timeout(BUSY_TIMEOUT_MS)
        database.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # because that waits for the disk, in each process
        database.wal_autocheckpoint(CHECKPOINT_PAGES)
        database.pragma("secure_delete", "on")
        version, scripts = int(str(database.pragma("user_version"))), self._tables.scripts
        if not version:
            database.pragma("auto_vacuum", "full")
            database.pragma("journal_mode", "wal")
        if version > len(scripts):
            raise FilesystemError(f"{self.path} is of a later memsync", hint="Upgrade memsync.")
        if version < len(scripts):
            with write_transaction(database):
                for script in scripts[version:]:
                    database.execute(script)
                database.pragma("user_version", len(scripts))
        return database


def state_of_root(folder: Path | str) -> StateFile:
    """Return the state of the memory root whose folder for data that outlives the index is `folder`."""
    return _shared(str(folder), ROOT)


def state_of_user() -> StateFile:
    """Return the state of the user."""
    return _shared(user_folder(), USER)


@lru_cache(OPEN)
def _shared(folder: str, tables: Tables) -> StateFile:
    """Return the one of this process, because opening a file takes 30 times as long as reading a value."""
    return StateFile(Path(folder), tables)
