"""Worker processes that parse notes. They speed up loading many notes, where parsing takes most of the time.

A worker gets a note's bytes and returns its rows. It reads and writes no files, has no connection to the index, and
ends when its standard input is closed, so also when this process dies. If a worker cannot be started, is killed or
takes too long, this process parses the note itself.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any, BinaryIO

import memsync
from memsync.model.note import Chunk, Note
from memsync.model.vocabulary import NotePath
from memsync.notes.decode import BinaryFileError
from memsync.notes.parse import NoteReader
from memsync.ports import PreparedNote

MAX_WORKERS = 4
"""More workers would idle, because one process writes all rows, which takes a third of the time of parsing."""
WORTH_BYTES = 3_000_000
"""Minimum bytes of notes to start workers: a worker starts in a third of a second and parses 1.5 MB per second."""
AHEAD_BYTES = 1_500_000
AHEAD_NOTES = 256
"""How far reading may be ahead of writing. Notes then take about ten times AHEAD_BYTES of memory."""
PATIENCE_SECONDS = 120.0
"""How long to wait for one note. The largest note takes two seconds to parse, on a busy machine ten."""
_WAIT_SECONDS = 0.05
_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from memsync.note_process import main; main()"


Prepare = Callable[[Note, Sequence[Chunk]], PreparedNote]
"""Makes the rows of an index from a note and its chunks."""


class WorkerLost(Exception):
    """A worker ended or did not answer; this process must parse the note itself."""


class NoteWorkers:
    """Starts workers if there is enough to parse. `count` 0: one per processor, up to MAX_WORKERS."""

    def __init__(self, reader: NoteReader, prepare: Prepare, count: int = 0) -> None:
        """`prepare` is a function of a module, which each worker imports."""
        self._reader = reader
        self._prepare = prepare
        self._count = count or min(_processors(), MAX_WORKERS)

    def pool(self, total_bytes: int) -> WorkerPool | None:
        """Return workers for `total_bytes` of notes; None if starting them would take longer than it saves."""
        if self._count < 2 or total_bytes < WORTH_BYTES:
            return None
        return WorkerPool(self._reader, self._prepare, self._count)


class WorkerPool:
    """Some workers, each with a thread that sends it notes. Must be closed; only one thread at a time may use it."""

    def __init__(self, reader: NoteReader, prepare: Prepare, count: int) -> None:
        """Prepare the settings for the workers. The first `submit` starts them."""
        import pickle

        rules = reader.rules
        globs = (dict(rules.kinds), dict(rules.tiers), tuple(rules.local_only))
        self._setup = pickle.dumps((globs, reader.limits, reader.max_structured_bytes, reader.parsed_by, prepare))
        self._count = count
        self._tasks: queue.SimpleQueue[tuple[NotePath, bytes, Future[PreparedNote]] | None] = queue.SimpleQueue()
        self._workers: list[_Worker] = []
        self._threads: list[threading.Thread] = []
        self._is_started = False

    def submit(self, path: NotePath, content: bytes) -> Future[PreparedNote]:
        """Queue a note for parsing; pass the returned future to `result`."""
        if not self._is_started:
            self._start()
        parsed: Future[PreparedNote] = Future()
        self._tasks.put((path, content, parsed))
        return parsed

    def result(self, parsed: Future[PreparedNote], pause: Callable[[], None]) -> PreparedNote:
        """Wait for a submitted note and return it; calls `pause` while it waits. `pause` may raise.

        Raises BinaryFileError, WorkerLost.
        """
        waited = 0.0
        while not parsed.done() and waited < PATIENCE_SECONDS and any(thread.is_alive() for thread in self._threads):
            with contextlib.suppress(FutureTimeout, BinaryFileError, WorkerLost):
                parsed.result(_WAIT_SECONDS)
            waited += _WAIT_SECONDS
            pause()
        if not parsed.done():
            self.close()
            raise WorkerLost
        return parsed.result()

    def close(self) -> None:
        """Kill the workers and wait for their threads. Queued notes stay unparsed."""
        for worker in self._workers:
            worker.kill()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()
        for worker in self._workers:
            worker.end()

    def _start(self) -> None:
        self._is_started = True
        for number in range(self._count if sys.executable else 0):
            # Too little memory, or too many processes or threads (Python raises RuntimeError): use fewer workers.
            with contextlib.suppress(OSError, RuntimeError):
                worker = _Worker(self._setup)
                self._workers.append(worker)
                thread = threading.Thread(target=self._serve, args=(worker,), name=f"parse-{number}", daemon=True)
                thread.start()
                self._threads.append(thread)

    def _serve(self, worker: _Worker) -> None:
        """Send one worker notes until there are none left or the worker has ended."""
        while (task := self._tasks.get()) is not None:
            path, content, parsed = task
            try:
                note = worker.parse(path, content)
            except BinaryFileError as error:
                parsed.set_exception(error)
                continue
            except WorkerLost as lost:
                parsed.set_exception(lost)
                break
            if note is None:
                parsed.set_exception(WorkerLost())
            else:
                parsed.set_result(note)


class _Worker:
    """One process, and the pipes to it. Messages are pickles, each after its length in eight bytes."""

    def __init__(self, setup: bytes) -> None:
        import subprocess

        # The worker imports from the same paths as this process, but never from the current folder, which may be
        # a stranger's.
        paths = [path for path in sys.path if os.path.isabs(path)]
        package = str(Path(memsync.__file__).resolve().parent.parent)
        self._process = subprocess.Popen(  # noqa: S603 (because it starts this same program)
            [sys.executable, "-P", "-c", _BOOT, *dict.fromkeys([*paths, package])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": ""},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input: BinaryIO = self._process.stdin  # type: ignore[assignment]  # because typeshed has IO[bytes]
        self._output: BinaryIO = self._process.stdout  # type: ignore[assignment]  # because typeshed has IO[bytes]
        self._setup = setup

    def parse(self, path: NotePath, content: bytes) -> PreparedNote | None:
        """Return a note in the form that the index stores, None if that failed. Raises BinaryFileError, WorkerLost."""
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
        outcome: Mapping[str, Any] = pickle.loads(answer)  # noqa: S301 (because this same program wrote it)
        if "binary" in outcome:
            raise BinaryFileError(outcome["binary"])
        note: PreparedNote | None = outcome.get("note")
        return note

    def kill(self) -> None:
        """Kill the process; a thread that waits in `parse` gets WorkerLost."""
        self._process.kill()

    def end(self) -> None:
        """Kill the process, wait for its end and close the pipes."""
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
    """Read the next message; return None at the end of the stream."""
    head = pipe.read(8)
    size = int.from_bytes(head, "big")
    message = pipe.read(size) if len(head) == 8 else b""
    return message if len(head) == 8 and len(message) == size else None


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
