"""Take times that can be compared on a noisy machine, and show figures as rows of a table."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import ParamSpec

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of docs/benchmarks.md: what was measured, the figure, the target, and whether it was reached."""

    measure: str
    value: float | int | str
    asked: str = ""
    met: bool | None = None
    interval: tuple[float, float] | None = None
    """The 95 % interval of a mean over questions."""

    def __str__(self) -> str:
        value = f"{self.value:.3f}" if isinstance(self.value, float) else self.value
        if self.interval is not None:
            value = f"{value} [{self.interval[0]:.3f}, {self.interval[1]:.3f}]"
        verdict = {True: "met", False: "MISSED", None: ""}[self.met]
        return f"| {self.measure} | {value} | {self.asked} | {verdict} |"


def ratio_row(measure: str, ratio: float, limit: float, detail: str) -> Row:
    """Return the row of a ratio that should be at most `limit`."""
    return Row(measure, f"{ratio:.2f} × ({detail})", f"≤ {limit} ×", ratio <= limit)


def ms_over(ours: float, theirs: float, digits: int = 0) -> str:
    """Return two times, given in seconds, as text in milliseconds."""
    return f"{ours * 1000:.{digits}f} ms over {theirs * 1000:.{digits}f} ms"


def seconds(work: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> float:
    """Return how long one call takes."""
    started = time.perf_counter()
    work(*args, **kwargs)
    return time.perf_counter() - started


def in_turn(first: Callable[[], object], second: Callable[[], object], runs: int) -> tuple[float, float, float]:
    """Return the median seconds of both and the median of the ratios pair by pair, after one uncounted pair."""
    first()
    second()
    pairs = [(seconds(first), seconds(second)) for _ in range(runs)]
    return median(a for a, _ in pairs), median(b for _, b in pairs), median(a / b for a, b in pairs)
