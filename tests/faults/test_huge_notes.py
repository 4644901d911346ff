"""A single note that takes longer than a search may: the answer comes in time, and says what it has not read."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import Future

import pytest

from memsync.memory import Memory
from memsync.model.vocabulary import NotePath
from memsync.notes.parse import NoteReader
from memsync.search.fresh_search import DEADLINE_SECONDS
from memsync.settings.load import Settings
from memsync.sync import indexer
from memsync.system.child import Child
from memsync.wiring import make_index
from tests.conftest import COUNTER, FakeEmbedder, Write

TICK_SECONDS = 0.02


class TickingClock:
    """A clock on which each look takes 20 ms: how often a search looks at it counts, and not the machine."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        self.now += TICK_SECONDS
        return self.now

    def time_ns(self) -> int:
        return 2**61

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_search_keeps_its_deadline_while_a_note_is_parsed(
    settings: Settings, embedder: FakeEmbedder, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small notes are in the answer, the huge one is said to be missing, and nothing of it is in the index."""
    monkeypatch.setattr(Child, "ask", lambda *request: Future())  # a process that takes for ever
    clock = TickingClock()
    write("a.md", "# h\n" * 100_000)
    write("b.md", "The quokka smiles.\n")
    with Memory(settings, make_index(settings), COUNTER, lambda: embedder, lambda _: embedder, clock=clock) as memory:
        began = clock.now
        result = memory.search("quokka", mode="keyword")
        assert [hit.path for hit in result.hits] == ["b.md"]
        assert result.freshness.pending_text == 1
        assert result.warnings == ("Still indexing: 1 of 2 files is not searched yet. Run memsync sync.",)
        assert clock.now - began < DEADLINE_SECONDS + 0.5
        assert memory.status().notes == 1


def test_sync_indexes_what_no_search_has_the_time_for(memory: Memory, write: Write) -> None:
    """Without a deadline the huge note is indexed whole, and no search says that it is missing."""
    write("a.md", "# h\n" * 2_000 + "\nThe quokka smiles.\n")
    memory.sync()
    result = memory.search("quokka", mode="keyword")
    assert [hit.citation for hit in result.hits] == ["a.md:2000-2002"]
    assert result.freshness.pending_text == 0


def test_deletion_of_a_huge_note_does_not_hold_a_search_up(
    settings: Settings, embedder: FakeEmbedder, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes too long is left to the next sync; its lines are gone from the answer all the same."""
    monkeypatch.setattr(indexer, "WRITTEN_PER_SECOND", 10_000)
    clock = TickingClock()
    path = write("a.md", f"# heron {'x' * 500}\n" * 600)
    with Memory(settings, make_index(settings), COUNTER, lambda: embedder, lambda _: embedder, clock=clock) as memory:
        memory.sync()
        path.unlink()
        began = clock.now
        result = memory.search("heron", mode="keyword")
        assert (result.hits, result.freshness.pending_text) == ((), 1)
        assert clock.now - began < DEADLINE_SECONDS + 0.5
        memory.sync()
        assert memory.status().notes == 0


@pytest.mark.parametrize("key", ["tags", "aliases"])
def test_front_matter_does_not_multiply_by_the_passages_of_a_note(key: str, reader: NoteReader) -> None:
    """Each passage takes over tags and aliases of its note, so only the first hundred count, and a warning says so."""
    head = f"---\n{key}: [{', '.join(f'name{number}' for number in range(5_000))}]\n---\n"
    note, _ = reader.read(NotePath("a.md"), f"{head}# h\n".encode())
    kept = note.aliases if key == "aliases" else [tag.name for tag in note.tags]
    assert list(kept) == [f"name{number}" for number in range(100)]
    assert any("5000" in warning and "only the first 100 are used" in warning for warning in note.warnings)


def test_note_of_too_many_lines_is_refused_by_name(memory: Memory, write: Write) -> None:
    """Its paragraphs would fill the machine: only its bytes are read. The other notes are searched."""
    write("huge.md", b"a\n\n" * 4_000_000)
    write("b.md", "The quokka smiles.\n")
    tracemalloc.start()
    try:
        report = memory.sync()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [(failure.path, "over 1,000,000 lines" in failure.reason) for failure in report.failed] == [
        ("huge.md", True)
    ]
    assert peak < 100_000_000
    assert [hit.path for hit in memory.search("quokka", mode="keyword").hits] == ["b.md"]
