"""Proof A: whatever happens to files, watcher, model and clock, the index comes to equal the files."""

from __future__ import annotations

import os
import sys

import pytest

from tests.convergence import oracle
from tests.convergence.divergence import Divergence
from tests.convergence.engine import on_backend
from tests.convergence.planted import PLANTED
from tests.convergence.run import REPEAT, fresh_seed, run, run_fresh

FRESH_SECONDS = 20.0
SEED_VARIABLE = "CONVERGENCE_SEED"


def test_index_equals_the_files_after_anything() -> None:
    """Random operations in a hostile world, the same ones each time; no descriptor and no thread is left behind."""
    run(examples=1, steps=5)
    descriptors, threads = oracle.open_descriptors(), oracle.thread_count()
    run(examples=100, steps=30)
    assert (oracle.open_descriptors(), oracle.thread_count()) == (descriptors, threads)


def test_index_in_postgres_equals_one_in_sqlite_after_anything() -> None:
    """The same world with the index in PostgreSQL: its dump is that of a new SQLite index, to the byte."""
    with on_backend("postgres"):
        run(examples=15, steps=30)


def test_index_equals_the_files_after_something_new(capfd: pytest.CaptureFixture[str]) -> None:
    """Each run of the tests tries worlds that none has tried before, and prints how to repeat them.

    The soak then looks for the shortest way to a failure, which may take minutes.
    """
    seed = int(os.environ.get(SEED_VARIABLE) or fresh_seed())
    with capfd.disabled():
        sys.stderr.write(f"\nconvergence: first seed {seed}; {SEED_VARIABLE}={seed} tries the same again\n")
    run_fresh(seed, FRESH_SECONDS, shrink=False)


def test_failure_says_how_to_repeat_it() -> None:
    """The seed that failed is the one named, and with it the same failure comes again."""
    with PLANTED["a deleted note is kept"](), pytest.raises(Divergence) as caught:
        run_fresh(4_711, seconds=60.0, shrink=False)
    named = next(note for note in caught.value.__notes__ if note.startswith(REPEAT)).removeprefix(REPEAT)
    with PLANTED["a deleted note is kept"](), pytest.raises(Divergence):
        run_fresh(int(named), seconds=0.0, shrink=False)
