"""Searches before background work: who keeps the index live stands aside while somebody waits for an answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_PAUSE_SECONDS = 0.25
"""However many searches there are, background work takes a step this often."""


class Stopped(Exception):
    """Raised where background work would go on, when it is to end; what it has committed stays."""


class Gate:
    """Open to background work while no search is in flight. Safe to use from any thread."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._searches = 0
        self._stopped = False

    @contextmanager
    def searching(self) -> Iterator[None]:
        """Hold background work back for the time of one search."""
        with self._condition:
            self._searches += 1
        try:
            yield
        finally:
            with self._condition:
                self._searches -= 1
                self._condition.notify_all()

    @property
    def is_wanted(self) -> bool:
        """True when background work should let go of what it holds."""
        return self._searches > 0 or self._stopped

    def pause(self) -> None:
        """Wait until no search is in flight, but not for long. Called before each step. Raises Stopped."""
        with self._condition:
            self._condition.wait_for(lambda: self._searches == 0 or self._stopped, LONGEST_PAUSE_SECONDS)
            if self._stopped:
                raise Stopped

    def stop(self) -> None:
        """Let every background step end in Stopped from now on."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
