"""The daemon's engine: a memory, and the threads that keep its index current."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from memsync import __version__
from memsync.daemon.health import DaemonFaults
from memsync.daemon.keeper import Keeper
from memsync.daemon.nightly import Nightly
from memsync.daemon.session_noter import SessionNoter
from memsync.daemon.sharer import Sharer
from memsync.daemon.transcripts import TranscriptKeeper
from memsync.daemon.vector_keeper import VectorKeeper
from memsync.daemon.watch import MakeWatcher
from memsync.daemon.web_server import WebServer
from memsync.memories.hook_answer import Recaller
from memsync.memory import Memory
from memsync.model.answer import Freshness
from memsync.model.status import DaemonStatus, Status
from memsync.ports import Clock
from memsync.system import clock as system_clock

STOP_SECONDS = 1.5


class Engine:
    """One memory root with a current index."""

    def __init__(self, memory: Memory, make_watcher: MakeWatcher, socket: str, clock: Clock = system_clock) -> None:
        self.memory = memory
        self.health = DaemonFaults()
        self._socket = socket
        self._in_use = 0
        self._unused = threading.Condition()
        self._started_at = system_clock.utc().isoformat(timespec="seconds")
        self.vectors = VectorKeeper(memory, self.health, clock)
        self.recaller = Recaller(memory)
        self.notes = SessionNoter(memory, self.health, clock)
        self.transcripts = TranscriptKeeper(memory, self.health, self.notes.wake, clock)
        self.sharer = Sharer(memory, self.health, clock)
        self.keeper = Keeper(memory, make_watcher, self.health, self._text_committed, clock)
        self.web = WebServer(memory.settings, self.health)
        nightly = Nightly(memory, self.health)
        self._keepers = (self.keeper, self.vectors, self.transcripts, self.notes, nightly, self.web, self.sharer)
        memory.fresh_search.live = self.keeper
        memory.daemon_status = self._with_daemon

    def start(self) -> None:
        """Start watching, indexing and embedding."""
        for keeper in self._keepers:
            keeper.start()

    def has_died(self) -> bool:
        """Return whether a thread has ended by itself, which nothing but a new run mends."""
        return any(keeper.has_died() for keeper in self._keepers)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the index open for one request."""
        self.sharer.worked()
        with self._unused:
            self._in_use += 1
        try:
            yield
        finally:
            with self._unused:
                self._in_use -= 1
                self._unused.notify_all()

    def stop(self) -> bool:
        """Stop within two seconds, after the current commit; the next start does the rest.

        Returns False if a thread or a request hangs; then the index stays open for it.
        """
        deadline = time.monotonic() + STOP_SECONDS
        self.memory.syncer.gate.stop()
        self.memory.models.close()  # requests that wait for a model end
        self.memory.reranking.close()
        for keeper in self._keepers:
            keeper.stop()
        with self._unused:
            has_ended = self._unused.wait_for(lambda: self._in_use == 0, STOP_SECONDS)
        for keeper in self._keepers:
            has_ended &= keeper.join(max(0.0, deadline - time.monotonic()))
        self.recaller.close()
        if has_ended:
            self.memory.close()
        return has_ended

    def _text_committed(self, notes: int) -> None:
        self.vectors.text_committed(notes)
        self.sharer.looked(found=bool(notes))

    def freshness(self) -> Freshness:
        """Return how current the index is at this moment, without looking at the files."""
        return self.memory.fresh_search.freshness(self.keeper.pending_text)

    def _with_daemon(self, status: Status) -> Status:
        watcher, reason = self.keeper.watching()
        daemon = DaemonStatus(
            process=os.getpid(),
            version=__version__,
            started_at=self._started_at,
            socket=self._socket,
            watcher=watcher,
            reason=reason,
            scanned_at=self.memory.syncer.scanned_at,
            pending_text=self.keeper.pending_text,
            model_loaded=self.memory.models.is_loaded,
            memory_bytes=memory_bytes(),
            web=self.web.url,
            errors=tuple(
                filter(None, (*self.health.faults(), self.vectors.hanging(), self.memory.fresh_search.silence()))
            ),
        )
        last_sync = status.last_sync if daemon.pending_text else max(status.last_sync, daemon.scanned_at)
        return replace(status, last_sync=last_sync, daemon=daemon)


def memory_bytes() -> int:
    """Return the bytes of memory that this process and its children use (Linux), or the peak of this one (others)."""
    if not Path("/proc/self/statm").exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    processes, pages = ["self"], 0
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread has just ended
            processes += path.read_text().split()
    for process in processes:
        with suppress(OSError):  # the process has just ended
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * resource.getpagesize()
