"""A daemon that nobody asks gives the model's memory back, and loads it again on demand. Time is made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memsync.daemon.health import Health
from memsync.daemon.vectors import VectorKeeper
from memsync.indexes.sqlite.index import SqliteIndex
from memsync.memory import Memory
from memsync.settings import load_settings
from memsync.sync.clock import SystemClock
from tests.conftest import COUNTER, FakeEmbedder
from tests.daemon_process import until

MINUTES = 15


class MovedClock(SystemClock):
    """The system's clocks, set forward as a test says."""

    forward = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.forward


class CountingEmbedder(FakeEmbedder):
    """Counts how often it was told to unload."""

    unloads = 0

    def unload(self) -> None:
        self.unloads += 1


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def model() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def start(
    root: Path, clock: MovedClock, model: CountingEmbedder
) -> Iterator[Callable[[int], tuple[Memory, VectorKeeper]]]:
    """Begin to keep the vectors of one note, with a model that is unloaded after so many minutes."""
    begun: list[tuple[Memory, VectorKeeper]] = []

    def begin(minutes: int) -> tuple[Memory, VectorKeeper]:
        settings = load_settings(root=root, environ={"MEMSYNC_DAEMON_IDLE_UNLOAD_MINUTES": str(minutes)}, cwd=root)
        index = SqliteIndex(settings.index_dir / "index.db")
        memory = Memory(settings, index, COUNTER, lambda: model, lambda space: model, clock=clock)
        begun.append((memory, VectorKeeper(memory, Health(), clock)))
        (root / "a.md").write_text("The heron nests.\n")
        memory.syncer.refresh()
        begun[-1][1].start()
        until(lambda: memory.status().vectors == 1, "the note is embedded")
        return begun[-1]

    yield begin
    for memory, keeper in begun:
        memory.syncer.gate.stop()
        assert keeper.stop(10)
        memory.close()


def test_an_unused_model_is_unloaded_and_loaded_again(
    start: Callable[[int], tuple[Memory, VectorKeeper]], clock: MovedClock, model: CountingEmbedder
) -> None:
    """Not a moment before its time; the next question is answered by meaning all the same."""
    memory, keeper = start(MINUTES)
    clock.forward += 60 * MINUTES - 30
    keeper._rest(clock.monotonic())
    assert (memory.models.is_loaded, model.unloads) == (True, 0)
    clock.forward += 60
    until(lambda: model.unloads, "the model is unloaded")
    assert (memory.models.is_loaded, model.unloads) == (False, 1)
    assert [hit.path for hit in memory.search("nesting", mode="vector").hits] == ["a.md"]
    assert (memory.models.is_loaded, model.unloads) == (True, 1)


def test_a_question_begins_the_time_anew(
    start: Callable[[int], tuple[Memory, VectorKeeper]], clock: MovedClock, model: CountingEmbedder
) -> None:
    """Whoever asks every ten minutes never waits for the model."""
    memory, keeper = start(MINUTES)
    for _ in range(4):
        clock.forward += 600
        memory.search("heron")
        keeper._rest(clock.monotonic())
    assert (memory.models.is_loaded, model.unloads) == (True, 0)


def test_zero_minutes_never_unload(
    start: Callable[[int], tuple[Memory, VectorKeeper]], clock: MovedClock, model: CountingEmbedder
) -> None:
    """The setting that turns it off."""
    memory, keeper = start(0)
    clock.forward += 1_000_000
    keeper._rest(clock.monotonic())
    assert (memory.models.is_loaded, model.unloads) == (True, 0)
