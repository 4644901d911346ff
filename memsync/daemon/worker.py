"""How each thread of the daemon starts, waits and ends."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class Worker(ABC):
    """Work on a thread of its own. `_condition` guards `_stopping` and whatever else the thread waits for."""

    def __init__(self, name: str) -> None:
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

    def _has_died(self) -> bool:
        return self._thread.ident is not None and not self._thread.is_alive() and not self._stopping

    def _waits(self, seconds: float) -> bool:
        """Wait, unless the thread has to end; return False if it has to."""
        with self._condition:
            return not self._condition.wait_for(lambda: self._stopping, seconds)

    @abstractmethod
    def _run(self) -> None:
        """Work until `_stopping`."""
