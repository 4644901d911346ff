"""The system's clock. Code that waits or measures age takes it as a parameter, so that tests can replace it."""

from __future__ import annotations

import time


class SystemClock:
    """A Clock with real time."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def time_ns(self) -> int:
        """Return the wall clock in nanoseconds, as file systems stamp files."""
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


SYSTEM_CLOCK = SystemClock()
