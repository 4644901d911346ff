"""The CPU time of a worker of the tests, and what of it is on no test's account."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

_spent_for_all = 0.0


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that have ended, without what is for all tests."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime - _spent_for_all


@contextmanager
def shared_cost() -> Iterator[None]:
    """Put what is done here on no test's account: all tests of this process share it."""
    global _spent_for_all
    before = cpu_seconds()
    try:
        yield
    finally:
        _spent_for_all += cpu_seconds() - before
