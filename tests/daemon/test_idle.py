"""A daemon that nobody asks gives the model's memory back, and loads it again on demand. Time is made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from memsync.daemon.engine import Engine
from memsync.daemon.vector_keeper import IDLE_UNLOAD_MINUTES
from memsync.daemon.watch import Watcher
from memsync.index.sqlite.index import SqliteIndex
from memsync.memory import Memory
from memsync.settings.load import Settings, load_settings
from tests.conftest import COUNTER, FakeEmbedder
from tests.support.daemon_process import until
from tests.support.stand_ins import PutForward

MINUTES = 15


class CountingEmbedder(FakeEmbedder):
    """Counts how often it was told to unload."""

    unloads = 0

    def unload(self) -> None:
        self.unloads += 1


class CountingReranker:
    """Finds everything equally relevant, and counts how often it was told to unload."""

    unloads = 0

    def relevance(self, question: str, texts: Sequence[str]) -> list[float]:
        return [0.5] * len(texts)

    def unload(self) -> None:
        self.unloads += 1

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def clock() -> PutForward:
    return PutForward()


@pytest.fixture
def model() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def reranker() -> CountingReranker:
    return CountingReranker()


@pytest.fixture
def start(
    root: Path, clock: PutForward, model: CountingEmbedder, reranker: CountingReranker
) -> Iterator[Callable[[], Engine]]:
    """Start an engine whose clock a test puts forward."""
    engines: list[Engine] = []

    def memory_of(settings: Settings) -> Memory:
        index = SqliteIndex(settings.index_dir / "index.db")
        return Memory(
            settings, index, COUNTER, lambda: model, lambda space: model, make_reranker=lambda: reranker, clock=clock
        )

    def begin() -> Engine:
        settings = load_settings(root=root, environ={}, cwd=root)
        memory = memory_of(settings)
        engine = Engine(memory, lambda on_path, on_lost: Watcher(root, on_path, on_lost), "socket", clock=clock)
        engines.append(engine)
        (root / "a.md").write_text("The heron nests.\n")
        engine.start()
        until(lambda: engine.memory.status().vectors == 1, "the note is embedded")
        return engine

    yield begin
    for engine in engines:
        assert engine.stop()


def is_loaded(engine: Engine) -> bool:
    about = engine.memory.status().daemon
    assert about is not None
    return about.model_loaded


def test_an_unused_model_is_unloaded_and_loaded_again(
    start: Callable[[], Engine], clock: PutForward, model: CountingEmbedder
) -> None:
    """Not a moment before its time; status tells, and the next question is answered by meaning all the same."""
    engine = start()
    assert is_loaded(engine)
    clock.ahead += 60 * IDLE_UNLOAD_MINUTES - 30
    engine.vectors._rest()
    assert (is_loaded(engine), model.unloads) == (True, 0)
    clock.ahead += 60
    until(lambda: not is_loaded(engine), "the model is unloaded")
    assert model.unloads == 1
    assert [hit.path for hit in engine.memory.search("nesting", mode="vector", min_score=0).hits] == ["a.md"]
    assert is_loaded(engine)


def test_a_question_begins_the_time_anew(
    start: Callable[[], Engine], clock: PutForward, model: CountingEmbedder
) -> None:
    """Whoever asks every ten minutes never waits for the model."""
    engine = start()
    for _ in range(4):
        clock.ahead += 600
        engine.memory.search("heron")
        engine.vectors._rest()
    assert (is_loaded(engine), model.unloads) == (True, 0)


def test_an_unused_reranking_model_is_unloaded_whether_or_not_questions_are_embedded(
    start: Callable[[], Engine], clock: PutForward, model: CountingEmbedder, reranker: CountingReranker
) -> None:
    """Each model has a time of its own: plain searches keep the embedding model, and not the other."""
    engine = start()
    clock.ahead += 60 * IDLE_UNLOAD_MINUTES
    engine.memory.search("heron")
    engine.vectors._rest()
    assert reranker.unloads == 0
    before = model.unloads  # the engine's own thread may have seen the clock before that search
    for unloads in (1, 2):
        engine.memory.search("heron", rerank=True)
        clock.ahead += 60 * IDLE_UNLOAD_MINUTES - 30
        engine.memory.search("heron")
        engine.vectors._rest()
        assert (reranker.unloads, model.unloads) == (unloads - 1, before)
        clock.ahead += 60
        engine.memory.search("heron")
        until(lambda: reranker.unloads == unloads, "the model is unloaded")  # noqa: B023 (because it is called at once)
        assert (reranker.unloads, model.unloads) == (unloads, before)
