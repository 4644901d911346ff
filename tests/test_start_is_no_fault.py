"""Append to tests/test_watching_faults.py. Fails on the tree as it is: `watcher: 1 changes were not reported`."""
import time

from tests.test_watching_faults import *  # noqa: F403


def test_what_changed_before_the_start_is_not_taken_for_missed(start: Start, write: Write) -> None:  # noqa: F405
    """Nobody watched then: the first comparison says nothing of the watcher."""
    path = write("a.md", "The heron nests.\n")
    until(lambda: time.time() - path.stat().st_ctime > 0.5, "the note is older than a report may take")  # noqa: F405
    engine = start()
    until(lambda: finds(engine, "heron"), "the note is indexed")  # noqa: F405
    engine.keeper.catch_up(5)
    assert engine.health.faults() == ()
    assert state(engine) is WatcherState.LIVE  # noqa: F405
