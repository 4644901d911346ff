"""What tests put in place of clocks and functions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from memsync.system import clock


class PutForward:
    """The system's clocks, put forward as a test says, and instead of sleeping; or one that stands still."""

    time_ns = staticmethod(clock.time_ns)

    def __init__(self, *, stands_still: bool = False) -> None:
        self.ahead = 0.0
        self._begun = 1_000.0 if stands_still else 0.0

    def monotonic(self) -> float:
        return (self._begun or time.monotonic()) + self.ahead

    def sleep(self, seconds: float, /) -> None:
        self.ahead += seconds


def beforehand(patch: pytest.MonkeyPatch, owner: Any, name: str, act: Callable[..., object]) -> None:
    """Call `act` with the arguments of each call of a function before the function itself."""
    real = getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> Any:
        act(*arguments, **options)
        return real(*arguments, **options)

    patch.setattr(owner, name, call)
