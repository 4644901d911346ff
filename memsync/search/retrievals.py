"""Count searches, their latency, and which notes they returned, in the state of a memory root.

Counts are written a few seconds later in one transaction, so that no search waits for them. They hold no text of
notes, and queries only if the settings allow it. Answers do not depend on them: if the state cannot be written, only
statistics are lost.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple

from memsync.errors import MemsyncError
from memsync.model.text import whole_characters
from memsync.model.upkeep import AskedQuery, Growth, NoteUse
from memsync.model.vocabulary import NotePath
from memsync.ports import Index
from memsync.system import clock
from memsync.system.state_file import StateFile

FLUSH_SECONDS = 5.0
KEEP_DAYS = 400
"""How long single searches are kept; counts of notes are kept forever."""
MAX_QUERIES = 20
_SINCE = "counted since"

_PUT_NOTE = """
INSERT INTO retrieved VALUES (?, ?, ?) ON CONFLICT (path)
DO UPDATE SET times = times + excluded.times, last = max(last, excluded.last)
"""


_Search = tuple[str, float, int, str | None]
"""One search: its time, latency in milliseconds, number of hits, and its text if the settings allow it."""


class Used(NamedTuple):
    """The counts: since when, how often each note was retrieved, and the searches since some moment.

    A search has its day, its milliseconds and its number of hits.
    """

    counted_since: str
    notes: dict[NotePath, NoteUse]
    searches: Sequence[tuple[str, float, int]]
    growth: Sequence[Growth]
    queries: Sequence[AskedQuery]

    @property
    def milliseconds(self) -> list[float]:
        """The latencies of the searches, in order."""
        return sorted(ms for _, ms, _ in self.searches)

    @property
    def empty(self) -> int:
        """How many searches found nothing."""
        return sum(not hits for _, _, hits in self.searches)


class UsageCounter:
    """Counts the searches of one memory root in its state; safe for several threads and processes.

    It records the size of the index once a day. With `is_on` false it counts nothing.
    """

    def __init__(self, state: StateFile, index: Index, *, is_on: bool, keeps_queries: bool) -> None:
        self.state = state
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
            self._searches += searches
            self._retrieved.update(paths)
            if self._timer is None:
                self._timer = threading.Timer(FLUSH_SECONDS, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Write the counts. If that fails, they are lost, and `fault` says why."""
        with self._lock:
            searches, retrieved = self._searches, self._retrieved
            self._searches, self._retrieved = [], Counter()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        if searches or retrieved:
            try:
                self._write(searches, retrieved)
                self.fault = ""
            except MemsyncError as error:
                self.fault = f"retrievals are not counted: {error.message}"

    def _write(self, searches: list[_Search], retrieved: Counter[NotePath]) -> None:
        now, sizes = _now(), []
        if not self.state.rows("SELECT 1 FROM size WHERE day = ?", (now[:10],)):
            with self._index.reading() as reader:
                counts = reader.counts()
            sizes = [(now[:10], counts.notes, counts.passages, counts.index_bytes or 0)]  # 0: not known
        with self.state.writing() as database:
            database.execute("INSERT OR IGNORE INTO single VALUES (?, ?)", (_SINCE, now))
            rows = [(whole_characters(path), times, now) for path, times in retrieved.items()]
            database.executemany(_PUT_NOTE, rows)
            database.executemany("INSERT INTO search VALUES (?, ?, ?, ?)", searches)
            if sizes:
                database.executemany("REPLACE INTO size VALUES (?, ?, ?, ?)", sizes)
                database.execute("DELETE FROM search WHERE at < ?", (_now(-KEEP_DAYS),))

    def used(self, since: str) -> Used:
        """Write the waiting counts, then return all counts and the searches since a moment.

        If they cannot be read, return nothing; `fault` says why.
        """
        self.flush()
        try:
            return self._read(since)
        except MemsyncError as error:
            self.fault = error.message
        return Used("", {}, (), (), ())

    def _read(self, since: str) -> Used:
        rows = self.state.rows
        queries = "SELECT at, query, hits FROM search WHERE at >= ? AND query IS NOT NULL ORDER BY at DESC LIMIT ?"
        notes = (NoteUse(NotePath(path), times, last) for path, times, last in rows("SELECT * FROM retrieved"))
        sizes = rows("SELECT day, notes, passages, bytes FROM size WHERE day >= ? ORDER BY day", (since[:10],))
        return Used(
            self.state.single(_SINCE) or "",
            {use.path: use for use in notes},
            rows("SELECT substr(at, 1, 10), ms, hits FROM search WHERE at >= ? ORDER BY at", (since,)),
            [Growth(day, notes, passages, size or None) for day, notes, passages, size in sizes],
            [AskedQuery(*row) for row in rows(queries, (since, MAX_QUERIES))],
        )

    def forget(self, paths: Iterable[NotePath]) -> int:
        """Delete the texts of all questions and the counts of these notes; return how many texts these were.

        The searches still count. Raises MemsyncError.
        """
        self.flush()
        with self.state.writing() as database:
            questions = database.execute("SELECT count(DISTINCT query) FROM search").get
            database.execute("UPDATE search SET query = NULL")
            gone = [(whole_characters(path),) for path in paths]
            database.executemany("DELETE FROM retrieved WHERE path = ?", gone)
        return int(questions)

    def retrievals(self) -> dict[NotePath, int]:
        """Return how often each note was retrieved; nothing if the database cannot be read."""
        return {path: use.retrieved for path, use in self.used(_now()).notes.items()}


def _now(days: int = 0) -> str:
    return (clock.utc() + timedelta(days=days)).isoformat(timespec="seconds")


def percentile(values: Iterable[float], share: float) -> float:
    """Return the smallest value that at least `share` of the values do not exceed; 0 without any."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)] if ordered else 0.0
