"""Gives searches priority over background work, which pauses while a search runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

LONGEST_PAUSE_SECONDS = 0.1
WORK_SECONDS = 0.05
"""After pauses of LONGEST_PAUSE_SECONDS in total, background work continues for WORK_SECONDS despite searches."""


class Stopped(Exception):
    """Ends background work at its next step after `Gate.stop`. Committed work stays."""


class Gate:
    """Lets background work run while no search runs. Safe to use from any thread."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._searches = 0
        self._stopped = False
        self._stood_aside = 0.0
        self._free_until = 0.0

    def searching(self) -> AbstractContextManager[None]:
        """Pause background work during one search."""
        return self._counting(1)

    def awaiting(self) -> AbstractContextManager[None]:
        """Let background work continue while a search waits for it. Use only within `searching`."""
        return self._counting(-1)

    @contextmanager
    def _counting(self, searches: int) -> Iterator[None]:
        self._add(searches)
        try:
            yield
        finally:
            self._add(-searches)

    def _add(self, searches: int) -> None:
        with self._condition:
            self._searches += searches
            self._condition.notify_all()

    def pause(self) -> None:
        """Wait briefly while searches run. Background work calls this before each step. Raises Stopped."""
        with self._condition:
            began = time.monotonic()
            if self._searches and began >= self._free_until:
                self._condition.wait_for(lambda: self._searches == 0 or self._stopped, LONGEST_PAUSE_SECONDS)
                now = time.monotonic()
                self._stood_aside += now - began
                if self._stood_aside >= LONGEST_PAUSE_SECONDS:
                    self._stood_aside, self._free_until = 0.0, now + WORK_SECONDS
            if self._stopped:
                raise Stopped

    def require_open(self) -> None:
        """Raise Stopped if `stop` was called."""
        if self._stopped:
            raise Stopped

    def stop(self) -> None:
        """Make every later `pause` and `require_open` raise Stopped."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
