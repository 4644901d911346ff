"""Proof A: whatever happens to files, watcher, model and clock, the index comes to equal the files."""

from __future__ import annotations

import pytest

from tests.convergence import oracle
from tests.convergence.divergence import Divergence
from tests.convergence.engine import on_backend
from tests.convergence.planted import PLANTED
from tests.convergence.run import REPEAT, run, run_batch, run_fresh
from tests.support.daemon_process import until
from tests.support.descriptors import open_descriptors
from tests.support.sampling import fewer


@pytest.mark.slow
def test_index_equals_the_files_after_anything() -> None:
    """Random operations in a hostile world, the same ones each time; no descriptor and no thread is left behind."""
    run(examples=1, steps=5)
    descriptors, threads = open_descriptors(), oracle.thread_count()
    run(examples=fewer(100, 10), steps=30)
    until(lambda: (open_descriptors(), oracle.thread_count()) == (descriptors, threads), "what was begun ends")


@pytest.mark.slow
def test_index_in_postgres_equals_one_in_sqlite_after_anything() -> None:
    """The same world with the index in PostgreSQL: but for words, its dump is that of a new SQLite index."""
    with on_backend("postgres"):
        run(examples=fewer(15, 4), steps=30)


@pytest.mark.slow
def test_index_equals_the_files_after_something_new(pytestconfig: pytest.Config) -> None:
    """Each run of the tests tries worlds that none has tried before: those of its seed. The soak tries more."""
    for number in range(fewer(4, 1)):
        run_batch(int(pytestconfig.option.hypothesis_seed) + number, shrink=False)


@pytest.mark.slow
def test_failure_says_how_to_repeat_it() -> None:
    """The seed that failed is the one named, and with it the same failure comes again."""
    with PLANTED["a deleted note is kept"](), pytest.raises(Divergence) as caught:
        run_fresh(4_711, seconds=60.0, shrink=False)
    named = next(note for note in caught.value.__notes__ if note.startswith(REPEAT)).removeprefix(REPEAT)
    with PLANTED["a deleted note is kept"](), pytest.raises(Divergence):
        run_fresh(int(named), seconds=0.0, shrink=False)
