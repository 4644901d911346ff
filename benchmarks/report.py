"""How a measurement is shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One line of docs/benchmarks.md: what was measured, the figure, what was asked, and whether it was reached."""

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
