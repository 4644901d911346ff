"""The test of the test: each planted bug is found by the same random operations that find none in memsync."""

from __future__ import annotations

import pytest

from memsync.search.fresh_search import FreshSearch
from tests.convergence.divergence import Divergence
from tests.convergence.engine import on_backend
from tests.convergence.planted import PLANTED, PLANTED_IN_POSTGRES, Plant, instead
from tests.convergence.run import run
from tests.support.sampling import sampled

EXAMPLES = 100
STEPS = 30
SEEDS = range(1, 11)
"""Tried in turn: a bug that shows in every second run of this length is missed by ten of them once in a thousand."""


def is_caught(plant: Plant, seed: int) -> bool:
    """Tell whether the oracle finds a bug. Raises whatever else goes wrong: a mistake in the bug or in the test."""
    with plant():
        try:
            run(examples=EXAMPLES, steps=STEPS, seed=seed, shrink=False)
        except Divergence:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("bug", sampled(PLANTED, 2, 5))
def test_planted_bug_is_caught(bug: str) -> None:
    """A memsync that has this bug does not pass."""
    assert any(is_caught(PLANTED[bug], seed) for seed in SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("bug", sampled(PLANTED_IN_POSTGRES, 1, 3))
def test_planted_bug_of_the_postgres_index_is_caught(bug: str) -> None:
    """The same for the bugs of the other backend."""
    with on_backend("postgres"):
        assert any(is_caught(PLANTED_IN_POSTGRES[bug], seed) for seed in SEEDS)


def test_bug_in_what_does_not_exist_is_not_caught() -> None:
    """A method that was renamed since must not make its bug look found."""
    with pytest.raises(AttributeError, match="_freshen_as_it_was"):
        is_caught(instead(FreshSearch, "_freshen_as_it_was", None), seed=1)


@pytest.mark.slow
def test_bug_that_does_not_fit_is_not_caught() -> None:
    """A stand-in with another signature fails in itself; only what the oracle says of the world counts."""
    with pytest.raises(TypeError, match="argument"):
        is_caught(instead(FreshSearch, "_freshen", lambda: None), seed=1)
