"""Other processes parse notes: all notes if there are many to read, and large ones always.

Parsing many notes takes most of the time of a first sync, and Python's lock would make searches wait for a large note.
A process gets a note's bytes and returns its rows. It reads and writes no files and has no connection to the index. If
it cannot be started, is killed or takes too long, this process parses the note itself.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial

from memsync.model.note import Chunk, Note
from memsync.model.vocabulary import NotePath
from memsync.notes.parse import NoteReader
from memsync.notes.rules import PathRules
from memsync.ports import PreparedNote
from memsync.system.child import Child, ChildFailed

MAX_WORKERS = 4
"""More workers would idle, because one process writes all rows, which takes a third of the time of parsing."""
WORTH_BYTES = 3_000_000
"""Minimum bytes of notes to parse all of them in workers: one starts in a third of a second and parses 1.5 MB per
second."""
LARGE_BYTES = 256_000
"""A note of this size takes a fifth of a second to parse, many times as long as usual: a worker always parses it."""
AHEAD_BYTES = 1_500_000
AHEAD_NOTES = 256
"""How far reading may be ahead of writing. Notes then take about ten times AHEAD_BYTES of memory."""
PATIENCE_SECONDS = 120.0
"""How long to wait for one note. The largest note takes two seconds to parse, on a busy machine ten."""
NICENESS = 5
"""Searches and embedding have priority."""
GARBAGE_OBJECTS = 200_000
"""Objects between two garbage collections: parsing makes many objects, but hardly any cycles."""
_WAIT_SECONDS = 0.05

Prepare = Callable[[Note, Sequence[Chunk]], PreparedNote]
"""Makes the rows of an index from a note and its chunks."""


class NoteParser:
    """What a worker runs."""

    def __init__(self, reader: NoteReader, prepare: Prepare, parsed_by: str) -> None:
        gc.set_threshold(GARBAGE_OBJECTS)
        if reader.parsed_by != parsed_by:
            raise RuntimeError("another version of the parser was installed meanwhile")
        self._reader = reader
        self._prepare = prepare

    def parse(self, path: NotePath, content: bytes) -> PreparedNote:
        """Return a note in the form that the index stores. Raises BinaryFileError."""
        return self._prepare(*self._reader.read(path, content))


class NoteWorkers:
    """Decides which notes workers parse. `count` 0: one worker per processor, up to MAX_WORKERS."""

    def __init__(self, reader: NoteReader, prepare: Prepare, count: int = 0) -> None:
        """`prepare` is pickled for each worker."""
        rules = PathRules(dict(reader.rules.kinds), dict(reader.rules.tiers), tuple(reader.rules.local_only))
        self._make = partial(NoteParser, replace(reader, rules=rules), prepare, reader.parsed_by)
        self._count = count or min(_processors(), MAX_WORKERS)

    def pool(self, total_bytes: int) -> WorkerPool:
        """Return workers for `total_bytes` of notes: all of these, if that saves more time than starting takes."""
        is_bulk = self._count >= 2 and total_bytes >= WORTH_BYTES
        return WorkerPool(self._make, self._count if is_bulk else 1, is_bulk=is_bulk)


class WorkerPool:
    """Up to `count` workers, started when the first note needs them; `is_bulk`: for every note, not only large ones.

    Must be closed; only one thread at a time may use it.
    """

    def __init__(self, make: Callable[[], NoteParser], count: int, *, is_bulk: bool) -> None:
        self._make = make
        self._count = count
        self.is_bulk = is_bulk
        self._workers: list[Child] | None = None

    def submit(self, path: NotePath, content: bytes) -> Future[PreparedNote] | None:
        """Let a worker parse a note; pass the future to `result`. None if this process has to parse it."""
        if not self.is_bulk and len(content) < LARGE_BYTES:
            return None
        if self._workers is None:
            self._workers = []
            for number in range(self._count):
                with suppress(ChildFailed):  # too little memory, or too many processes: use fewer workers
                    self._workers.append(Child(f"memsync-notes-{number}", self._make, niceness=NICENESS))
        running = [worker for worker in self._workers if not worker.ended]
        return min(running, key=lambda worker: worker.waiting).ask("parse", path, content) if running else None

    def result(self, parsed: Future[PreparedNote], pause: Callable[[], None]) -> PreparedNote:
        """Wait for a submitted note and return it; calls `pause` while it waits. `pause` may raise.

        Raises BinaryFileError, and ChildFailed if this process must parse the note.
        """
        until = time.monotonic() + PATIENCE_SECONDS
        while not wait([parsed], _WAIT_SECONDS).done:
            if time.monotonic() > until:
                self.close()
            pause()
        return parsed.result()

    def close(self) -> None:
        """Kill the workers. Submitted notes stay unparsed."""
        for worker in self._workers or ():
            worker.end()


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
