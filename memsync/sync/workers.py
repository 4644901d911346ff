"""Processes that parse notes: for loads of many notes, of which one process alone would parse for most of the time.

A worker gets a note's bytes and gives back its rows. It reads no file and writes none, has no connection to the index,
and ends when its standard input does, whatever happens to this process. What a worker does not do, because it cannot
be started, is killed or takes too long, this process does itself.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any, BinaryIO

import memsync
from memsync.model.vocabulary import NotePath
from memsync.notes.decode import BinaryFileError
from memsync.notes.parse import NoteReader
from memsync.ports import PreparedNote

MOST_WORKERS = 4
"""More have nothing to do: one process writes what they give, and that takes a third of the time that parsing takes."""
WORTH_BYTES = 3_000_000
"""A worker takes a third of a second to start, and parses 1.5 MB in a second."""
AHEAD_BYTES = 1_500_000
AHEAD_NOTES = 256
"""How far reading may be ahead of writing: what of the notes is in memory at once is some ten times that."""
PATIENCE_SECONDS = 120.0
"""The largest note that is parsed takes two seconds, on a busy machine ten."""
_WAIT_SECONDS = 0.05
_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from memsync.note_process import main; main()"


class WorkerLost(Exception):
    """A worker has ended, or has not answered: what it was to do is to be done elsewhere."""


class NoteWorkers:
    """Starts workers where there is enough to do for them. `count` 0: as many as there are processors."""

    def __init__(self, reader: NoteReader, count: int = 0) -> None:
        self._reader = reader
        self._count = count or min(_processors(), MOST_WORKERS)

    def pool(self, total_bytes: int) -> WorkerPool | None:
        """Return workers for so many bytes of notes; None where starting them would take longer than it saves."""
        if self._count < 2 or total_bytes < WORTH_BYTES:
            return None
        return WorkerPool(self._reader, self._count)


class WorkerPool:
    """Some workers, each with a thread that hands it notes. To be closed; used by one thread at a time."""

    def __init__(self, reader: NoteReader, count: int) -> None:
        """Take what workers are told; none is started before the first note is given."""
        import pickle

        rules = reader.rules
        self._setup = pickle.dumps(
            (dict(rules.kinds), dict(rules.tiers), reader.limits, reader.max_structured_bytes, reader.parsed_by)
        )
        self._count = count
        self._tasks: queue.SimpleQueue[tuple[NotePath, bytes, Future[PreparedNote]] | None] = queue.SimpleQueue()
        self._workers: list[_Worker] = []
        self._threads: list[threading.Thread] = []
        self._guard = threading.Lock()
        self._alive = 0
        self._is_closed = False

    def submit(self, path: NotePath, content: bytes) -> Future[PreparedNote]:
        """Have a note parsed; `result` returns it."""
        if not self._threads and not self._is_closed:
            self._start()
        parsed: Future[PreparedNote] = Future()
        with self._guard:
            if self._alive:
                self._tasks.put((path, content, parsed))
            else:
                parsed.set_exception(WorkerLost())
        return parsed

    def result(self, parsed: Future[PreparedNote], pause: Callable[[], None]) -> PreparedNote:
        """Return a note that was submitted, calling `pause` while it is waited for, which may raise.

        Raises BinaryFileError, WorkerLost.
        """
        waited = 0.0
        while not parsed.done() and waited < PATIENCE_SECONDS:
            with contextlib.suppress(FutureTimeout, BinaryFileError, WorkerLost):
                parsed.result(_WAIT_SECONDS)
            waited += _WAIT_SECONDS
            pause()
        if not parsed.done():
            self.close()
            raise WorkerLost
        return parsed.result()

    def close(self) -> None:
        """End the workers, whatever they are at."""
        with self._guard:
            self._is_closed = True
        for worker in self._workers:
            worker.kill()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()
        self._give_up_what_waits()

    def _start(self) -> None:
        for number in range(self._count if sys.executable else 0):
            with contextlib.suppress(OSError):  # no memory, or no processes left: then there are fewer
                self._workers.append(_Worker(self._setup))
                thread = threading.Thread(
                    target=self._serve, args=(self._workers[-1],), name=f"parse-{number}", daemon=True
                )
                self._threads.append(thread)
        self._alive = len(self._threads)
        for thread in self._threads:
            thread.start()

    def _serve(self, worker: _Worker) -> None:
        """Hand one worker a note after the other, until there is no more to do or it is no more."""
        try:
            while (task := self._tasks.get()) is not None and not self._is_closed:
                path, content, parsed = task
                try:
                    note = worker.parse(path, content)
                except BinaryFileError as error:
                    parsed.set_exception(error)
                    continue
                except WorkerLost as lost:
                    parsed.set_exception(lost)
                    return
                if note is None:
                    parsed.set_exception(WorkerLost())
                else:
                    parsed.set_result(note)
            if task is not None:
                task[2].set_exception(WorkerLost())
        finally:
            worker.end()
            with self._guard:
                self._alive -= 1
                is_last = not self._alive
            if is_last:
                self._give_up_what_waits()

    def _give_up_what_waits(self) -> None:
        """Tell whoever waits that no worker is left."""
        with contextlib.suppress(queue.Empty):
            while True:
                task = self._tasks.get_nowait()
                if task is not None:
                    task[2].set_exception(WorkerLost())


class _Worker:
    """One process, and the pipes to it. Messages are pickles, each after its length in eight bytes."""

    def __init__(self, setup: bytes) -> None:
        import subprocess

        # It finds what this process finds; nothing of the folder it is started in, which may be a stranger's, counts.
        paths = [path for path in sys.path if os.path.isabs(path)]
        package = str(Path(memsync.__file__).resolve().parent.parent)
        self._process = subprocess.Popen(  # noqa: S603 (because it is this same program)
            [sys.executable, "-P", "-c", _BOOT, *dict.fromkeys([*paths, package])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input: BinaryIO = self._process.stdin  # type: ignore[assignment]  # because typeshed has IO[bytes]
        self._output: BinaryIO = self._process.stdout  # type: ignore[assignment]  # because: as above
        self._setup = setup

    def parse(self, path: NotePath, content: bytes) -> PreparedNote | None:
        """Return a note as the index stores it, None if that failed. Raises BinaryFileError, WorkerLost."""
        import pickle

        try:
            if self._setup:
                send(self._input, self._setup)
                self._setup = b""
            send(self._input, pickle.dumps((path, content)))
            answer = receive(self._output)
        except (OSError, ValueError):
            raise WorkerLost from None
        if answer is None:
            raise WorkerLost
        outcome: Mapping[str, Any] = pickle.loads(answer)  # noqa: S301 (because this same program has made it)
        if "binary" in outcome:
            raise BinaryFileError(outcome["binary"])
        note: PreparedNote | None = outcome.get("note")
        return note

    def kill(self) -> None:
        """End the process at once; whoever waits for its answer gets none."""
        self._process.kill()

    def end(self) -> None:
        """End the process and let go of it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._input, self._output):
            with contextlib.suppress(OSError):
                pipe.close()


def send(pipe: BinaryIO, message: bytes) -> None:
    """Write one message."""
    pipe.write(len(message).to_bytes(8, "big"))
    pipe.write(message)
    pipe.flush()


def receive(pipe: BinaryIO) -> bytes | None:
    """Return the next message, None when there are no more."""
    head = pipe.read(8)
    size = int.from_bytes(head, "big")
    message = pipe.read(size) if len(head) == 8 else b""
    return message if len(head) == 8 and len(message) == size else None


def _processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
