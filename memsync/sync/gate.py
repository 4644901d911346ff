"""Searches before background work: who keeps the index live stands aside while somebody waits for an answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_PAUSE_SECONDS = 0.1
WORK_SECONDS = 0.05
"""However many searches there are: having stood aside for the first in all, background work goes on for the second."""


class Stopped(Exception):
    """Raised where background work would go on, when it is to end; what it has committed stays."""


class Gate:
    """Open to background work while no search is in flight. Safe to use from any thread."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._searches = 0
        self._stopped = False
        self._stood_aside = 0.0
        self._free_until = 0.0

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

    @contextmanager
    def awaiting(self) -> Iterator[None]:
        """Hold nothing back for a search while it waits for background work itself. Only within `searching`."""
        with self._condition:
            self._searches -= 1
            self._condition.notify_all()
        try:
            yield
        finally:
            with self._condition:
                self._searches += 1

    def pause(self) -> None:
        """Wait until no search is in flight, but not for long. Called before each step. Raises Stopped."""
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
        """Raise Stopped if background work, and whatever waits for it, is to end."""
        if self._stopped:
            raise Stopped

    def stop(self) -> None:
        """Let every background step end in Stopped from now on."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
