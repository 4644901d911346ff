"""How each thread of the daemon waits, works, fails, tries again and ends."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import suppress

from memsync.daemon.health import LONGEST_RETRY_SECONDS, DaemonFaults
from memsync.errors import own_error
from memsync.ports import Clock
from memsync.sync.gate import Stopped
from memsync.system import clock as system_clock

REST_SECONDS = 5.0
NEVER = float("inf")


class Worker(ABC):
    """Work that has a thread of its own, which does it whenever it is due.

    `_condition` guards the values for which the thread waits.

    If the work fails, the status has a fault of the worker's name, and the work is tried again after a pause, which
    doubles with each failure in a row. The work itself says when it is mended.
    """

    def __init__(
        self, name: str, health: DaemonFaults, clock: Clock = system_clock, longest_retry: float = LONGEST_RETRY_SECONDS
    ) -> None:
        self._name = name
        self._health = health
        self._clock = clock
        self._longest_retry = longest_retry
        self._due_at = self._retry_at = -NEVER
        self._condition = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Make the thread end after its current step."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()

    def join(self, seconds: float) -> bool:
        """Wait for the thread; return whether it ended in time."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def has_died(self) -> bool:
        """Return whether the thread ended without being told to."""
        return self._thread.ident is not None and not self._thread.is_alive() and not self._stopping

    def wake(self, seconds: float = 0.0) -> None:
        """Make the work due in `seconds`, or earlier if it already is. It still waits out the pause after a failure."""
        with self._condition:
            self._due_at = min(self._due_at, self._clock.monotonic() + seconds)
            self._condition.notify_all()

    def due_at(self) -> float:
        """Return when the work is due (monotonic clock): -inf is now, inf is when something wakes it."""
        return max(self._due_at, self._retry_at)

    def is_due(self) -> bool:
        """Return whether the work is due now."""
        return self._clock.monotonic() >= self.due_at()

    def attempt(self) -> None:
        """Do the work once. An error becomes a fault in the status: none may end the thread. Raises Stopped."""
        self._due_at = NEVER  # what wakes the worker from now on counts
        try:
            seconds = self.step()
            self._retry_at = -NEVER
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001 (because no error may end this thread)
            seconds = self._failed(error)
            self._retry_at = self._clock.monotonic() + seconds
        self.wake(seconds)

    @abstractmethod
    def step(self) -> float:
        """Do the work; return in how many seconds it is due again. Raises Stopped to end the thread."""

    def _failed(self, error: Exception) -> float:
        """Record a failure; return in how many seconds to try again."""
        return self._health.fault(self._name, own_error(error), longest_retry=self._longest_retry)

    def _rest(self) -> None:  # noqa: B027 (because most workers have nothing to do then)
        """Do what is wanted from time to time while nothing is due."""

    def _run(self) -> None:
        with suppress(Stopped):
            while not self._stopping:
                if self.is_due():
                    self.attempt()
                    continue
                self._rest()
                with self._condition:
                    if not self._stopping:
                        self._condition.wait(min(max(0.0, self.due_at() - self._clock.monotonic()), REST_SECONDS))
