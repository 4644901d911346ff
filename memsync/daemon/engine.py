"""A memory with what keeps it live: what the daemon's requests are answered from."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from memsync import __version__
from memsync.daemon.health import Health
from memsync.daemon.keeper import Keeper
from memsync.daemon.vector_keeper import VectorKeeper
from memsync.daemon.watch import MakeWatcher
from memsync.memory import Memory
from memsync.model.answer import Freshness
from memsync.model.status import DaemonStatus, Status
from memsync.ports import Clock
from memsync.sync.clock import SYSTEM_CLOCK

STOP_SECONDS = 1.5


class Engine:
    """One memory root, kept live. `on_change` is called, on other threads, whenever its state may have changed."""

    def __init__(
        self,
        memory: Memory,
        make_watcher: MakeWatcher,
        socket: str,
        on_change: Callable[[], None] = lambda: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.memory = memory
        self.health = Health()
        self._socket = socket
        self._on_change = on_change
        self._in_use = 0
        self._unused = threading.Condition()
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self.vectors = VectorKeeper(memory, self.health, clock)
        self.keeper = Keeper(memory, make_watcher, self.health, self._text_committed, clock)
        memory.answering.live = self.keeper
        memory.daemon_status = self._with_daemon

    def start(self) -> None:
        """Begin to watch, index and embed."""
        self.keeper.start()
        self.vectors.start()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the index open for one request."""
        with self._unused:
            self._in_use += 1
        try:
            yield
        finally:
            with self._unused:
                self._in_use -= 1
                self._unused.notify_all()

    def stop(self) -> bool:
        """End within two seconds: what is being committed is, the rest is left to the next start.

        Returns False when a thread or a request hangs; the index is left open for it then.
        """
        self.memory.syncer.gate.stop()
        self.memory.models.close()  # whoever waits for one waits no longer
        self.memory.reranking.close()
        with self._unused:
            idle = self._unused.wait_for(lambda: self._in_use == 0, STOP_SECONDS / 2)
        half = STOP_SECONDS / 2
        stoppers = [self.keeper.stop, self.vectors.stop]
        done: list[bool] = []
        threads = [threading.Thread(target=lambda stop=stop: done.append(stop(half))) for stop in stoppers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ended = idle and len(done) == len(threads) and all(done)
        if ended:
            self.memory.close()
        return ended

    def _text_committed(self, notes: int) -> None:
        self.vectors.text_committed(notes)
        self._on_change()

    def freshness(self) -> Freshness:
        """Return how current the index is at this moment, without looking at the files."""
        return self.memory.answering.freshness(self.keeper.pending_text)

    def _with_daemon(self, found: Status) -> Status:
        """Return a status with how the daemon fares."""
        watcher, reason = self.keeper.watching()
        about = DaemonStatus(
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
            errors=tuple(
                filter(None, (*self.health.faults(), self.vectors.hanging(), self.memory.answering.silence()))
            ),
        )
        last_sync = max(found.last_sync, about.scanned_at) if not about.pending_text else found.last_sync
        return replace(found, last_sync=last_sync, daemon=about)


def memory_bytes() -> int:
    """Return what this process and the model's hold in memory now (on Linux), or this one held at most."""
    if not Path("/proc/self/statm").exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pages = 0
    for process in ["self", *_children()]:
        with suppress(OSError):  # it has just ended
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _children() -> list[str]:
    lists = Path("/proc/self/task").glob("*/children")
    found: list[str] = []
    for one in lists:
        with suppress(OSError):
            found += one.read_text().split()
    return found
