"""Times and ratios that hold on a noisy machine: two things measured in turn, medians, percentiles."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median


def seconds(work: Callable[[], object]) -> float:
    """Return how long one call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def in_turn(first: Callable[[], object], second: Callable[[], object], runs: int) -> tuple[float, float, float]:
    """Return the median seconds of both and the median of the ratios pair by pair, after one uncounted pair."""
    first()
    second()
    pairs = [(seconds(first), seconds(second)) for _ in range(runs)]
    return median(a for a, _ in pairs), median(b for _, b in pairs), median(a / b for a, b in pairs)
