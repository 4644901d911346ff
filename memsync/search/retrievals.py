"""Count searches, their latency, and which notes they returned, in a small database outside the index.

The database is in the state directory. Counts are written a few seconds later in one transaction, so that no search
waits for them. It holds no text of notes, and stores queries only if the settings allow it. Answers do not depend on
it: if it cannot be written, only statistics are lost.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from memsync.errors import FilesystemError, MemsyncError
from memsync.model.text import whole_characters
from memsync.model.upkeep import AskedQuery, Growth, NoteUse
from memsync.model.vocabulary import NotePath
from memsync.ports import Index
from memsync.system.user_folders import own_folder

if TYPE_CHECKING:
    import sqlite3

FLUSH_SECONDS = 5.0
KEEP_DAYS = 400
"""How long single searches are kept; counts of notes are kept forever."""
MAX_WAITING = 10_000
BUSY_SECONDS = 1.0
MAX_QUERIES = 20

_SCHEMA = """
CREATE TABLE IF NOT EXISTS counted (since TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS note (path TEXT PRIMARY KEY, retrieved INTEGER NOT NULL, last TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS search (at TEXT NOT NULL, ms REAL NOT NULL, hits INTEGER NOT NULL, query TEXT);
CREATE INDEX IF NOT EXISTS search_at ON search (at);
CREATE TABLE IF NOT EXISTS size (
    day TEXT PRIMARY KEY, notes INTEGER NOT NULL, passages INTEGER NOT NULL, bytes INTEGER NOT NULL
) WITHOUT ROWID;
"""
_PUT_NOTE = """
INSERT INTO note VALUES (?, ?, ?) ON CONFLICT (path)
DO UPDATE SET retrieved = retrieved + excluded.retrieved, last = max(last, excluded.last)
"""


_Search = tuple[str, float, int, str | None]
"""One search: its time, latency in milliseconds, number of hits, and its text if the settings allow it."""


class Used(NamedTuple):
    """The counts: since when, how often each note was retrieved, and the searches since some moment."""

    counted_since: str
    notes: dict[NotePath, NoteUse]
    milliseconds: Sequence[float]
    empty: int
    growth: Sequence[Growth]
    queries: Sequence[AskedQuery]


class UsageCounter:
    """Counts the searches of one memory root, in a database in `folder`; safe for several threads and processes.

    It records the size of the index once a day. With `is_on` false it counts nothing.
    """

    def __init__(self, folder: Path, index: Index, *, is_on: bool, keeps_queries: bool) -> None:
        self.path = folder / "usage.db"
        self._index = index
        self._is_on = is_on
        self._keeps_queries = keeps_queries
        self._lock = threading.Lock()
        self._searches: list[_Search] = []
        self._retrieved: Counter[NotePath] = Counter()
        self._timer: threading.Timer | None = None
        self.fault = ""

    def searched(self, query: str, milliseconds: float, paths: Iterable[NotePath]) -> None:
        """Count one search and the notes it returned."""
        notes = set(paths)
        text = query if self._keeps_queries else None
        self._count(notes, [(_now(), milliseconds, len(notes), text)])

    def read(self, paths: Iterable[NotePath]) -> None:
        """Count notes that were read without a search."""
        self._count(set(paths), [])

    def _count(self, paths: set[NotePath], searches: list[_Search]) -> None:
        if not self._is_on:
            return
        with self._lock:
            if len(self._searches) < MAX_WAITING:
                self._searches += searches
                self._retrieved.update(paths)
            if self._timer is None:
                self._timer = threading.Timer(FLUSH_SECONDS, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Write the counts to the database. If that fails, keep them for the next time and set `fault`."""
        with self._lock:
            searches, retrieved = self._searches, self._retrieved
            self._searches, self._retrieved = [], Counter()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        if not searches and not retrieved:
            return
        import sqlite3

        try:
            try:
                self._write(searches, retrieved)
                self.fault = ""
            except sqlite3.DatabaseError as error:
                if not self._set_aside(error):
                    raise
                self._write(searches, retrieved)
        except (sqlite3.Error, OSError, MemsyncError) as error:
            self.fault = f"{self.path} cannot be written, so retrievals are not counted: {error}"
            with self._lock:
                self._searches = [*searches, *self._searches][-MAX_WAITING:]
                self._retrieved.update(retrieved)

    def _set_aside(self, error: Exception) -> bool:
        """Rename a damaged database, so that counting starts again; return False for any other fault."""
        import sqlite3

        if type(error) is not sqlite3.DatabaseError:  # subclasses mean that it is locked, full or unreadable
            return False
        aside = self.path.with_name(f"{self.path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S}")
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(f"{self.path}{suffix}").rename(f"{aside}{suffix}")
        self.fault = f"{self.path} was damaged ({error}): it was set aside as {aside.name}, and counting started again"
        return True

    def _write(self, searches: list[_Search], retrieved: Counter[NotePath]) -> None:
        with self._writing() as database:
            now = _now()
            rows = [(whole_characters(path), times, now) for path, times in retrieved.items()]
            database.executemany(_PUT_NOTE, rows)
            database.executemany("INSERT INTO search VALUES (?, ?, ?, ?)", searches)
            if not database.execute("SELECT 1 FROM size WHERE day = ?", (now[:10],)).fetchone():
                with self._index.reading() as reader:
                    counts = reader.counts()
                size = (now[:10], counts.notes, counts.passages, counts.index_bytes or 0)  # 0: not known
                database.execute("INSERT OR REPLACE INTO size VALUES (?, ?, ?, ?)", size)
                database.execute("DELETE FROM search WHERE at < ?", (_now(-KEEP_DAYS),))

    def used(self, since: str) -> Used:
        """Write the waiting counts, then return all counts and the searches since a moment.

        Raises FilesystemError if the database exists but cannot be read.
        """
        self.flush()
        if not self._has_begun():
            return Used("", {}, (), 0, (), ())
        import sqlite3

        try:
            with self._opened() as database:
                database.execute("BEGIN")
                return _read(database, since)
        except (OSError, sqlite3.Error, TypeError, ValueError) as error:
            if self._set_aside(error):
                return Used("", {}, (), 0, (), ())
            raise self._unreadable(error) from error

    def forget(self, paths: Iterable[NotePath]) -> int:
        """Delete the texts of all questions and the counts of these notes; return how many texts these were.

        The searches still count. Raises FilesystemError.
        """
        self.flush()
        if not self._has_begun():
            return 0
        import sqlite3

        try:
            with self._writing() as database:
                (questions,) = database.execute("SELECT count(DISTINCT query) FROM search").fetchone()
                database.execute("UPDATE search SET query = NULL")
                database.executemany("DELETE FROM note WHERE path = ?", [(whole_characters(path),) for path in paths])
            with self._opened() as database:
                database.execute("VACUUM")  # otherwise deleted text stays in unused pages
                database.execute("PRAGMA wal_checkpoint (TRUNCATE)")
        except (OSError, sqlite3.Error) as error:
            raise self._unreadable(error) from error
        return int(questions)

    def retrievals(self) -> dict[NotePath, int]:
        """Return how often each note was retrieved; nothing if the database cannot be read."""
        with suppress(FilesystemError):
            return {path: use.retrieved for path, use in self.used(_now()).notes.items()}
        return {}

    def _unreadable(self, error: Exception) -> FilesystemError:
        hint = "Try again." if "locked" in str(error) else "If it is damaged, move it away: counting starts again."
        return FilesystemError(f"{self.path} cannot be read: {error}", hint=hint)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the database in one transaction, committed unless an error is raised; create a missing database."""
        own_folder(self.path.parent)
        if not self.path.exists():
            self.path.touch(0o600)
        with self._opened() as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.split(";"):
                database.execute(statement)
            database.execute("INSERT INTO counted SELECT ? WHERE NOT EXISTS (SELECT 1 FROM counted)", (_now(),))
            yield database
            database.execute("COMMIT")

    def _opened(self) -> closing[sqlite3.Connection]:
        import sqlite3

        return closing(sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None))

    def _has_begun(self) -> bool:
        """Tell whether there is anything to read; a new database file is empty."""
        try:
            return self.path.stat().st_size > 0
        except FileNotFoundError:
            return False


def _read(database: sqlite3.Connection, since: str) -> Used:
    (counted_since,) = database.execute("SELECT since FROM counted").fetchone()
    notes = database.execute("SELECT path, retrieved, last FROM note")
    rows = database.execute("SELECT ms, hits FROM search WHERE at >= ? ORDER BY ms", (since,)).fetchall()
    sizes = database.execute("SELECT day, notes, passages, bytes FROM size WHERE day >= ? ORDER BY day", (since[:10],))
    queries = database.execute(
        "SELECT at, query, hits FROM search WHERE at >= ? AND query IS NOT NULL ORDER BY at DESC LIMIT ?",
        (since, MAX_QUERIES),
    )
    return Used(
        counted_since,
        {NotePath(path): NoteUse(NotePath(path), times, last) for path, times, last in notes},
        [float(ms) for ms, _ in rows],
        sum(not hits for _, hits in rows),
        [Growth(day, notes, passages, size or None) for day, notes, passages, size in sizes],
        [AskedQuery(*row) for row in queries],
    )


def _now(days: int = 0) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="seconds")
