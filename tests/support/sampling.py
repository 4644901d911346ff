"""How much of an enumeration runs: with `pytest --sample`, as `make test` calls it, a few drawn cases; otherwise all.

Of the longest enumerations each run draws a part; with `pytest --every`, as `make soak` calls it, all of them run. The
draw follows the seed of the run, which pytest prints; --hypothesis-seed=N repeats it.
"""

from __future__ import annotations

import os
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count
from math import ceil
from posixpath import dirname
from typing import TypeVar

import hypothesis
import pytest

T = TypeVar("T")
CASES = 1
SHARE = 0.15
NEEDS_PROCESSES = re.compile(r"postgres|/test_(clients|hook|http|isolated|serving|terminal|workers)\.py::")
BY_FILE = ("tests/convergence/", "tests/faults/", "tests/web/")
"""Where each file has a slow test in the sample: planted bugs, kills, damage, pages. Elsewhere each folder has one."""
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
    """In a sample, keep CASES cases of each test, few slow ones, and SHARE of those that need processes or a server."""
    if not _is_sample:
        return
    groups = defaultdict[tuple[str, float], list[pytest.Item]](list)
    for item in items:
        file, test = item.nodeid.partition("[")[0].split("::", 1)
        needs_daemon = "/daemon/" in file and "cli" in getattr(item, "fixturenames", ())
        if item.get_closest_marker("slow"):
            groups[file if file.startswith(BY_FILE) else dirname(file), 1].append(item)
        elif needs_daemon or NEEDS_PROCESSES.search(item.nodeid):
            groups["", SHARE].append(item)
        else:
            groups[f"{file}::{test}", CASES].append(item)
    kept = set[pytest.Item]()
    for (_, most), listed in groups.items():
        kept.update(sampled(listed, ceil(most if most >= 1 else most * len(listed))))
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


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
