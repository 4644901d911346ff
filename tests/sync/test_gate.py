"""Background work stands aside for searches, but not for long, and not for one that is over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memsync.sync.gate import LONGEST_PAUSE_SECONDS, WORK_SECONDS, Gate, Stopped


class Waiting:
    """Stands in for the clock and for the wait: each wait lasts as long as it may."""

    def __init__(self, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        self.waits = 0
        monkeypatch.setattr("time.monotonic", lambda: self.now)
        monkeypatch.setattr(gate._condition, "wait_for", self._wait)

    def _wait(self, is_over: Callable[[], bool], seconds: float) -> None:
        if not is_over():
            self.waits += 1
            self.now += seconds


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def waiting(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Waiting:
    return Waiting(gate, monkeypatch)


def test_a_search_that_is_over_holds_nothing_back(gate: Gate, waiting: Waiting) -> None:
    """However it ended."""
    with pytest.raises(KeyError), gate.searching():
        raise KeyError
    with gate.searching():
        gate.pause()
    gate.pause()
    assert (waiting.waits, waiting.now) == (1, 1_000.0 + LONGEST_PAUSE_SECONDS)


def test_a_search_that_waits_for_background_work_lets_it_go_on(gate: Gate, waiting: Waiting) -> None:
    """And holds it back again afterwards."""
    with gate.searching():
        with gate.awaiting():
            gate.pause()
        assert waiting.waits == 0
        gate.pause()
    assert waiting.waits == 1


def test_background_work_that_stood_aside_long_enough_goes_on_for_a_while(gate: Gate, waiting: Waiting) -> None:
    """One search after the other must not stop it for good."""
    with gate.searching():
        gate.pause()
        gate.pause()
        waiting.now += WORK_SECONDS * 0.9
        gate.pause()
        assert waiting.waits == 1
        waiting.now += WORK_SECONDS * 0.2
        gate.pause()
    assert waiting.waits == 2


def test_work_that_is_to_end_ends_at_its_next_step(gate: Gate) -> None:
    """Whether or not anybody searches."""
    gate.require_open()
    gate.stop()
    for step in (gate.pause, gate.require_open):
        with pytest.raises(Stopped):
            step()
