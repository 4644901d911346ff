"""The system's clocks. Whatever waits or measures age is given one of these, so that a test can hold time still."""

from __future__ import annotations

import time


class SystemClock:
    """Real time; the Clock of everything but tests."""

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
