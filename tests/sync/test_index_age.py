"""The index says of when it is: a comparison of the files that left nothing to index stores when it began."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType

import pytest

from memsync.daemon.health import DaemonFaults
from memsync.daemon.keeper import STORE_SECONDS, Keeper
from memsync.errors import IndexReadOnly
from memsync.memory import Memory
from memsync.notes.files import Places
from memsync.ports import IndexWriter
from memsync.system import clock
from tests.conftest import Patch, Write
from tests.support.daemon_fixtures import FakeWatcher
from tests.support.stand_ins import PutForward


def age_of(memory: Memory) -> str:
    """Return the stored moment, as a reader without the files sees it."""
    with memory.index.reading() as reader:
        return reader.meta("last_sync")


def now() -> str:
    return clock.utc().isoformat(timespec="milliseconds")


@contextmanager
def counted_writes(memory: Memory, monkeypatch: Patch) -> Iterator[list[str]]:
    """Yield a list that gets an entry for each transaction that writes."""
    writes: list[str] = []
    writing = memory.index.writing

    @contextmanager
    def counting() -> Iterator[IndexWriter]:
        writes.append(now())
        with writing() as writer:
            yield writer

    with monkeypatch.context() as patch:
        patch.setattr(memory.index, "writing", counting)
        yield writes


def settle(memory: Memory, monkeypatch: Patch) -> None:
    """Compare the files until no stamp is in doubt: each comparison before would read the new files again."""
    for _ in range(500):
        with counted_writes(memory, monkeypatch) as writes:
            memory.syncer.refresh()
        if not writes:
            return
        time.sleep(0.01)
    pytest.fail("the stamps stay in doubt")


def test_search_that_indexes_changes_stores_when_it_compared_the_files(memory: Memory, write: Write) -> None:
    """In the transaction of the last change, so that no reader finds a text that is newer than the index."""
    write("a.md", "The heron nests.\n")
    before = now()
    assert memory.search("heron", mode="keyword").hits
    assert before <= age_of(memory) <= now()
    write("b.md", "The stork nests.\n")
    between = now()
    result = memory.search("stork", mode="keyword")
    assert [hit.path for hit in result.hits] == ["b.md"]
    assert between <= age_of(memory) <= result.freshness.scanned_at


def test_search_that_finds_nothing_new_writes_nothing(memory: Memory, write: Write, monkeypatch: Patch) -> None:
    """A search must not cost a write."""
    write("a.md", "The heron nests.\n")
    memory.sync()
    settle(memory, monkeypatch)
    stored = age_of(memory)
    with counted_writes(memory, monkeypatch) as writes:
        memory.search("heron", mode="keyword")
    assert (writes, age_of(memory)) == ([], stored)


def test_change_and_its_moment_are_one_transaction(memory: Memory, write: Write, monkeypatch: Patch) -> None:
    """And readers still notice the change: the generation grows by it."""
    write("a.md", "The heron nests.\n")
    memory.sync()
    settle(memory, monkeypatch)
    write("b.md", "The stork nests.\n")
    with memory.index.reading() as reader:
        generation = reader.generation()
    with counted_writes(memory, monkeypatch) as writes:
        memory.search("stork", mode="keyword")
    with memory.index.reading() as reader:
        assert (reader.generation(), reader.notes_generation()) == (generation + 1, generation + 1)
    assert len(writes) == 1
    assert age_of(memory) <= writes[0]


def test_entry_that_memsync_writes_stores_when(memory: Memory, write: Write) -> None:
    """`log` indexes its note at once; who finds the entry is told of a time that is not before it."""
    write("a.md", "The heron nests.\n")
    memory.sync()
    before = now()
    memory.log("saw a stork")
    assert age_of(memory) >= before


def test_index_that_lacks_changes_does_not_claim_the_moment(memory: Memory, write: Write, monkeypatch: Patch) -> None:
    """A search may leave changes to the daemon: then the stored moment stays, because the index is not of now."""
    write("a.md", "The heron nests.\n")
    memory.sync()
    settle(memory, monkeypatch)
    stored = age_of(memory)
    for number in range(3):
        write(f"{number}.md", f"The stork {number} nests.\n")
    report = memory.syncer.refresh(max_changes=1, words=("stork",))
    assert report.pending == 2
    assert age_of(memory) == stored
    memory.syncer.refresh()
    assert age_of(memory) > stored


def test_file_that_cannot_be_indexed_does_not_stop_the_moment(memory: Memory, write: Write) -> None:
    """Its failure is stored with the moment: nothing is left to index."""
    write("a.md", b"\x00\x01\x02\xff" * 100)
    before = now()
    memory.syncer.refresh()
    assert age_of(memory) >= before


def test_daemon_renews_the_moment_at_most_once_a_minute(memory: Memory, write: Write, monkeypatch: Patch) -> None:
    """While nothing changes; a change is stored at once."""
    clock = PutForward()
    write("a.md", "The heron nests.\n")
    memory.sync()
    settle(memory, monkeypatch)
    keeper = Keeper(memory, FakeWatcher, DaemonFaults(), lambda _: None, clock)

    def compare() -> None:
        assert keeper.is_due()
        keeper.attempt()

    compare()  # starts the watcher
    compare()
    first = age_of(memory)
    with counted_writes(memory, monkeypatch) as writes:
        clock.ahead += STORE_SECONDS / 2
        compare()
        assert writes == []
        clock.ahead += STORE_SECONDS / 2
        compare()
    assert len(writes) == 1
    assert first <= age_of(memory) <= writes[0]
    write("b.md", "The stork nests.\n")
    before = now()
    memory.syncer.refresh(places=Places(["b.md"]))
    assert age_of(memory) >= before


@pytest.mark.parametrize("error", [IndexReadOnly("a standby"), OSError("no")], ids=["read-only", "broken"])
def test_index_that_cannot_be_written_keeps_its_moment(
    memory: Memory, write: Write, monkeypatch: Patch, error: Exception
) -> None:
    """The daemon goes on without a fault if it only cannot store the moment; a bug is not hidden."""
    write("a.md", "The heron nests.\n")
    memory.sync()
    settle(memory, monkeypatch)
    stored = age_of(memory)

    def refuse(self: object) -> None:
        raise error

    monkeypatch.setattr(memory.index, "writing", MethodType(refuse, memory.index))
    if isinstance(error, OSError):
        with pytest.raises(OSError, match="no"):
            memory.syncer.remember_comparison()
        return
    health = DaemonFaults()
    keeper = Keeper(memory, FakeWatcher, health, lambda _: None)
    for _ in range(2):  # the first one starts the watcher
        assert keeper.is_due()
        keeper.attempt()
    assert (health.faults(), age_of(memory)) == ((), stored)


def test_rebuilt_index_is_of_the_moment_when_its_files_were_read(memory: Memory, write: Write) -> None:
    """Not of the moment when it was complete: a file may have changed in between."""
    write("a.md", "The heron nests.\n")
    memory.sync()
    before = now()
    memory.rebuild()
    assert before <= age_of(memory) <= now()
    assert memory.status().last_sync == age_of(memory)
