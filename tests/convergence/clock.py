"""Time that passes only when the world lets it, and everything that happens while it passes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Protocol

from tests.convergence.divergence import require

START_NS = 1_795_000_000_000_000_000
BEGIN_NS = 1_000_000_000_000
GRAIN_NS = 4_000_000
"""Linux stamps files with the time of the last tick, up to four milliseconds ago."""
PHASE_NS = 123_457
"""Ticks do not fall on whole milliseconds."""
WORK_NS = 100_000
SPARE_TURNS = 1_000
TURNS_A_SECOND = 10


class Worker(Protocol):
    """Background work that is due at times of its own."""

    def due_at(self) -> float:
        """Return when there is something to do (monotonic clock)."""

    def work(self) -> None:
        """Do one thing."""


class SimulatedClock:
    """A Clock, and the world's order of events: planned actions and background workers take place while it passes."""

    def __init__(self) -> None:
        self._now_ns = BEGIN_NS
        self._ahead_ns = START_NS
        self._planned: list[tuple[int, int, Callable[[], None]]] = []
        self._number = count()
        self._working: set[int] = set()
        self._turns = 0
        self.workers: list[Worker] = []

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return self._now_ns / 1e9

    def time_ns(self) -> int:
        """Return the wall clock."""
        return self._now_ns + self._ahead_ns

    def stamp_ns(self) -> int:
        """Return what the kernel stamps a file with at this moment: the wall clock as of its last tick."""
        phase = (self._ahead_ns + PHASE_NS) % GRAIN_NS
        return (self.time_ns() - phase) // GRAIN_NS * GRAIN_NS + phase

    def jump(self, seconds: float) -> None:
        """Set the wall clock; no tick falls on an earlier one's time, which two states of a file could share."""
        self._ahead_ns += int(seconds * 1e9) + 1_234_567

    def plan(self, seconds: float, action: Callable[[], None]) -> None:
        """Let something happen later."""
        heapq.heappush(self._planned, (self._now_ns + int(seconds * 1e9), next(self._number), action))

    def sleep(self, seconds: float) -> None:
        """Let time pass, with all that happens meanwhile; whoever sleeps inside his own work does not work twice."""
        until = self._now_ns + max(0, int(seconds * 1e9))
        while True:
            worker = self._first_due()
            worker_ns = int(max(worker.due_at(), 0.0) * 1e9) if worker is not None else until + 1
            planned_ns = self._planned[0][0] if self._planned else until + 1
            if min(worker_ns, planned_ns) > until:
                break
            if planned_ns <= worker_ns:
                self._now_ns = max(self._now_ns, planned_ns)
                heapq.heappop(self._planned)[2]()
            elif worker is not None:
                self._now_ns = max(self._now_ns, worker_ns)
                self._let_work(worker)
        self._now_ns = max(self._now_ns, until)

    def sleep_out(self) -> None:
        """Let everything planned happen."""
        while self._planned:
            self.sleep(max(0.0, (self._planned[0][0] - self._now_ns) / 1e9))

    @contextmanager
    def without(self, worker: Worker) -> Iterator[None]:
        """Let a worker wait, as a thread does for a lock that another holds."""
        self._working.add(id(worker))
        try:
            yield
        finally:
            self._working.discard(id(worker))

    def _first_due(self) -> Worker | None:
        idle = [worker for worker in self.workers if id(worker) not in self._working and worker.due_at() < 1e12]
        return min(idle, key=lambda worker: worker.due_at(), default=None)

    def _let_work(self, worker: Worker) -> None:
        self._turns += 1
        allowed = SPARE_TURNS + TURNS_A_SECOND * (self._now_ns - BEGIN_NS) / 1e9
        require(self._turns < allowed, "background work does not come to rest")
        with self.without(worker):
            worker.work()
        self._now_ns += WORK_NS
