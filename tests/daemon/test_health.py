"""What is wrong is told while it is wrong, and tried again less and less often."""

from __future__ import annotations

import logging
import time
from unittest.mock import Mock

import pytest

from memsync.daemon import vector_keeper
from memsync.daemon.health import DaemonFaults
from memsync.daemon.keeper import Keeper
from memsync.daemon.vector_keeper import VectorKeeper
from memsync.errors import EmbedderError, IndexBusy, RootError
from tests.conftest import FakeEmbedder, MakeMemory, Patch, Write
from tests.support.daemon_fixtures import FakeWatcher, Held, Served, wait_until
from tests.support.stand_ins import PutForward


def test_time_until_the_next_try_doubles_up_to_its_limit() -> None:
    """From one second to five minutes, or to what the caller says; each fault by itself."""
    health = DaemonFaults()
    tries = [health.fault("model", "gone") for _ in range(11)]
    assert tries == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert [health.fault("root", f"{n}", longest_retry=3) for n in range(4)] == [1, 2, 3, 3]
    health.mended("model")
    assert health.fault("model", "gone") == 1
    assert health.fault("root", "gone", longest_retry=60) == 6


def test_faults_are_told_by_name_until_they_are_mended(caplog: pytest.LogCaptureFixture) -> None:
    """With the advice of the error; the log has each once, and once that it works again."""
    health = DaemonFaults()
    with caplog.at_level(logging.INFO, logger="memsync.daemon"):
        for _ in range(3):
            health.fault("root", RootError("the root is gone", hint="Mount it."))
        health.fault("model", "slow")
        assert health.faults() == ("model: slow", "root: the root is gone. Mount it.")
        assert health.reason("index", "root", "model") == "the root is gone. Mount it."
        assert health.reason("index") == ""
        health.mended("root")
        health.mended("root")
    assert health.faults() == ("model: slow",)
    assert [record.getMessage() for record in caplog.records] == [
        "root: the root is gone. Mount it.", "model: slow", "root: works again",
    ]  # fmt: skip


def test_failing_model_is_asked_again_after_twice_the_time_and_at_once_when_it_worked(
    make_memory: MakeMemory, write: Write, embedder: FakeEmbedder
) -> None:
    """Nobody asks in between; the first success ends it, and the next failure begins with a second again."""
    clock, health, memory = PutForward(stands_still=True), DaemonFaults(), make_memory()
    keeper = VectorKeeper(memory, health, clock)
    write("a.md", "The heron nests.\n")
    memory.syncer.refresh()
    embedder.fail = EmbedderError("the model is gone")
    for seconds in (1.0, 2.0, 4.0):
        assert keeper.is_due()
        keeper.attempt()
        assert keeper.due_at() == clock.monotonic() + seconds
        assert not keeper.is_due()
        clock.ahead += seconds
    assert health.faults() == ("model: the model is gone",)
    assert [failure.reason for failure in memory.status().failures] == ["the model is gone"]
    embedder.fail = None
    assert keeper.is_due()
    keeper.attempt()
    assert health.faults() == ()
    assert memory.status().failures == ()
    assert keeper.due_at() == float("inf")
    assert memory.status().pending_vectors == 0
    embedder.fail = EmbedderError("gone again")
    write("b.md", "The tern dives.\n")
    memory.syncer.refresh()
    keeper.text_committed(1)
    assert keeper.is_due()
    keeper.attempt()
    assert keeper.due_at() == clock.monotonic() + 1.0


def test_report_after_a_failure_brings_in_what_was_reported_before_it(
    make_memory: MakeMemory, write: Write, monkeypatch: Patch
) -> None:
    """Otherwise a search would count as current while the first change is missing until the next retry."""
    clock, memory = PutForward(stands_still=True), make_memory()
    keeper = Keeper(memory, FakeWatcher, DaemonFaults(), lambda notes: None, clock)

    def work() -> None:
        assert keeper.is_due()
        keeper.attempt()

    work()
    write("a.md", "The heron nests.\n")
    keeper._reported("a.md")
    turn = keeper.hasten()
    with monkeypatch.context() as fault:
        fault.setattr(memory.syncer, "refresh", Mock(side_effect=IndexBusy("somebody writes")))
        work()
    assert not keeper.has_finished(turn)
    keeper._reported("b.md")
    turn = keeper.hasten()
    work()
    assert keeper.has_finished(turn)
    assert [hit.path for hit in memory.search("heron", mode="keyword", fresh="none").hits] == ["a.md"]


def test_busy_index_is_no_fault_of_the_model(make_memory: MakeMemory, monkeypatch: Patch) -> None:
    """Another process embeds the same: look again in a second, and tell nobody."""
    clock, health, memory = PutForward(stands_still=True), DaemonFaults(), make_memory()
    keeper = VectorKeeper(memory, health, clock)

    def busy() -> None:
        raise IndexBusy("somebody syncs")

    monkeypatch.setattr(memory.syncer, "embed_in_background", busy)
    assert keeper.is_due()
    keeper.attempt()
    assert (keeper.due_at(), health.faults(), keeper.hanging()) == (clock.monotonic() + 1.0, (), "")


def test_model_that_hangs_stands_in_status_until_it_answers(served: Served, held: Held, write: Write) -> None:
    """After a minute without an answer, with for how long; not before, and not afterwards."""
    write("new.md", "The bittern booms.\n")
    served.watcher.on_path("new.md")
    assert held.begun.wait(120)
    assert served.engine.memory.status().daemon is not None
    clock = PutForward(stands_still=True)
    keeper = served.engine.vectors
    since = max(keeper._working_since or 0.0, keeper._memory.syncer.stepped_at)
    keeper._clock = clock
    clock.ahead = since + vector_keeper.HANGING_SECONDS - clock.monotonic()
    with served.connect() as remote:
        daemon = remote.status().daemon
        assert daemon is not None
        assert daemon.errors == ()
        clock.ahead += 5
        daemon = remote.status().daemon
        assert daemon is not None
        assert daemon.errors == ("model: it has not answered for 65 s",)
        keeper._clock = time
        held.goes_on.set()
        wait_until(lambda: remote.status().pending_vectors == 0, "the vectors")
        daemon = remote.status().daemon
        assert daemon is not None
        assert daemon.errors == ()
