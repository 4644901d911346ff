"""Proof A: whatever happens to files, watcher, model and clock, the index comes to equal the files."""

from __future__ import annotations

from tests.convergence import oracle
from tests.convergence.run import run


def test_index_equals_the_files_after_anything() -> None:
    """Random operations in a hostile world, the same ones each time; no descriptor and no thread is left behind."""
    run(examples=1, steps=5)
    descriptors, threads = oracle.open_descriptors(), oracle.thread_count()
    run(examples=100, steps=30)
    assert (oracle.open_descriptors(), oracle.thread_count()) == (descriptors, threads)
