"""The test of the test: each planted bug is found by the same random operations that find none in memsync."""

from __future__ import annotations

import pytest

from tests.convergence.planted import PLANTED
from tests.convergence.run import run

EXAMPLES = 100
STEPS = 30
SEED = 1
OTHER_SEEDS = {
    "an overflow is ignored": 3,
    "failures are forgotten": 2,
    "a report about a folder does not hold for what is in it": 2,
    "two writes in one tick are taken for one": 2,
}
"""What these bugs are found by sooner."""


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_caught(bug: str) -> None:
    """A memsync that has this bug does not pass."""
    with PLANTED[bug](), pytest.raises(Exception):  # noqa: B017 (because any way of not passing will do)
        run(examples=EXAMPLES, steps=STEPS, seed=OTHER_SEEDS.get(bug, SEED), shrink=False)
