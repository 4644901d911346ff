"""Which model answers for which space, and that none is left behind."""

from __future__ import annotations

import pytest

from memsync.errors import EmbedderError
from memsync.model.query import EmbeddingSpace
from memsync.sync.embedding_models import EmbeddingModels
from tests.conftest import FakeEmbedder


class Counted(FakeEmbedder):
    """Counts how often it was closed; its space cannot be asked for while `fails` is set."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._named = self.space
        self.closed = 0
        self.fails = False

    @property
    def space(self) -> EmbeddingSpace:
        if self.fails:
            raise EmbedderError("the model's process ended")
        return self._named

    @space.setter
    def space(self, space: EmbeddingSpace) -> None:
        self._named = space
        self.fails = False

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def made() -> list[Counted]:
    """Every embedder that was made, in order."""
    return []


@pytest.fixture
def models(made: list[Counted]) -> EmbeddingModels:
    """Models of which the configured one is `new`, and whatever else is asked for turns out to be `new`, too."""

    def make(space: EmbeddingSpace | None = None) -> Counted:
        made.append(Counted("new"))
        return made[-1]

    return EmbeddingModels(make, make)


@pytest.fixture
def old() -> EmbeddingSpace:
    return FakeEmbedder("old").space


def test_model_that_is_not_what_the_index_was_built_with_is_tried_once_and_closed(
    models: EmbeddingModels, made: list[Counted], old: EmbeddingSpace
) -> None:
    """Each question asks for it again, as long as the new space is being built: a process each would be too many."""
    for _ in range(3):
        with pytest.raises(EmbedderError, match="now unavailable"):
            models.of_space(old)
    configured, refused = made
    assert (configured.closed, refused.closed) == (0, 1)


def test_model_that_cannot_name_its_space_is_closed_and_made_again(made: list[Counted], old: EmbeddingSpace) -> None:
    """A model of an old space that dies while it starts may start the next time."""

    def make(space: EmbeddingSpace | None = None) -> Counted:
        made.append(Counted("new" if space is None else "old"))
        made[-1].fails = len(made) == 2
        return made[-1]

    models = EmbeddingModels(make, make)
    with pytest.raises(EmbedderError, match="ended"):
        models.of_space(old)
    assert models.of_space(old) is made[2]
    assert [one.closed for one in made] == [0, 1, 0]


def test_configured_model_that_died_once_answers_for_its_space(models: EmbeddingModels, made: list[Counted]) -> None:
    """One model in memory, not a second one for the same space, and no complaint once it works."""
    space = models.configured().space
    made[0].fails = True
    models = EmbeddingModels(lambda: made[0], lambda _: Counted("never"))
    with pytest.raises(EmbedderError):
        models.configured()
    made[0].fails = False
    assert models.of_space(space) is made[0]
    assert models.complaint(space) == ""


@pytest.mark.parametrize("when", ["before", "after"])
def test_closing_reaches_every_model(
    models: EmbeddingModels, made: list[Counted], old: EmbeddingSpace, when: str
) -> None:
    """One that another thread makes meanwhile, too."""
    if when == "before":
        models.configured()
    models.close()
    if when == "after":
        models.configured()
    assert [one.closed for one in made] == [1]
