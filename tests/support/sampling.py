"""How much of an enumeration runs: with `pytest --sample`, as `make test` calls it, a few drawn cases; otherwise all.

Of the longest enumerations each run draws a part; with `pytest --every`, as `make soak` calls it, all of them run. The
draw follows the seed of the run, which pytest prints; --hypothesis-seed=N repeats it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from itertools import count
from typing import TypeVar

import hypothesis
import pytest

T = TypeVar("T")
_seed = ""
_is_sample = _is_every = False


def configure(config: pytest.Config) -> None:
    """Give the run a seed, which is that of the controller in a worker of xdist, and heed --sample."""
    global _seed, _is_sample, _is_every
    given = getattr(config, "workerinput", {}).get("seed", config.option.hypothesis_seed)
    config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32)) if given is None else given
    _seed = config.option.hypothesis_seed
    _is_sample, _is_every = config.option.sample, config.option.every
    hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sample" if _is_sample else "fresh"))


def thin(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a sample, keep a third of the tests that start processes or need PostgreSQL: most of the time is theirs."""
    slow = [item for item in items if "cli" in getattr(item, "fixturenames", ()) or "postgres" in item.nodeid]
    gone = set(slow).difference(sampled(slow, (len(slow) + 2) // 3))
    config.hook.pytest_deselected(items=list(gone))
    items[:] = [item for item in items if item not in gone]


def fewer(number: int, sample: int) -> int:
    """Return how many of something to try: `number`, or in a sample `sample`."""
    return sample if _is_sample else number


def sampled(cases: Iterable[T], sample: int, most: int | None = None) -> list[T]:
    """Return all cases, or in a sample so many drawn ones, in their order; without --every at most `most`."""
    listed = list(cases)
    most = sample if _is_sample else len(listed) if _is_every or most is None else most
    if len(listed) <= most:
        return listed
    drawn = random.Random(f"{_seed} {len(listed)}").sample(range(len(listed)), most)
    return [listed[place] for place in sorted(drawn)]


def each(step: int, sample: int) -> Iterator[int]:
    """Count from 1 in such steps; in a sample from a drawn number in the larger steps of `sample`."""
    return count(random.Random(_seed).randint(1, sample), sample) if _is_sample else count(1, step)
