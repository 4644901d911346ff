"""A change of model: the new embedding space is built beside the old one, which answers until it is complete."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memsync.errors import EmbedderError
from memsync.memory import Memory
from memsync.settings.load import load_settings
from memsync.sync import embedding
from tests.conftest import FakeEmbedder, MakeMemory, Write
from tests.support.index_checks import check_sound


@pytest.fixture
def a() -> FakeEmbedder:
    return FakeEmbedder("a", dimension=16)


@pytest.fixture
def b() -> FakeEmbedder:
    return FakeEmbedder("b", dimension=24)


@pytest.fixture
def indexed_with_a(make_memory: MakeMemory, write: Write, a: FakeEmbedder) -> Memory:
    """Six notes of one passage each, all in the space of `a`."""
    for number in range(6):
        write(f"n{number}.md", f"The heron of note {number} nests in the alder.\n")
    memory = make_memory(a)
    memory.sync()
    return memory


def break_after(embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch, passages: int) -> None:
    """Make `embedder` fail once it has seen so many passages; commit every two of them."""
    monkeypatch.setattr(embedding, "BATCH_PASSAGES", 2)
    real = embedder.embed_passages

    def embed(texts: Sequence[str], pause: object = None) -> Any:
        if len(embedder.seen) >= passages:
            raise EmbedderError("the power went")
        return real(texts)

    monkeypatch.setattr(embedder, "embed_passages", embed)


def test_searches_answer_from_the_old_space_while_the_new_one_is_built(
    indexed_with_a: Memory, make_memory: MakeMemory, a: FakeEmbedder, b: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two batches of the new model a search by meaning is complete, and asks the old model."""
    memory = make_memory(b, old=a)
    found: list[int] = []
    real = b.embed_passages

    def embed(texts: Sequence[str], pause: object = None) -> Any:
        result = memory.search("heron alder", mode="vector", limit=20)
        found.append(len(result.hits))
        assert result.freshness.pending_vectors == 0
        assert memory.status().space == a.space.name
        assert memory.status().building_space == b.space.name
        return real(texts)

    monkeypatch.setattr(embedding, "BATCH_PASSAGES", 2)
    monkeypatch.setattr(embedding, "MAX_BATCH_PASSAGES", 2)
    monkeypatch.setattr(embedding, "BATCH_SECONDS", 1e9)  # a slow machine gets no smaller batches
    monkeypatch.setattr(b, "embed_passages", embed)
    report = memory.sync()
    assert found == [6, 6, 6]
    assert (report.vectors_computed, report.vectors_pending) == (6, 0)
    assert (memory.status().space, memory.status().building_space) == (b.space.name, "")
    assert len(memory.search("heron alder", mode="vector", limit=20).hits) == 6
    assert memory.verify() is None
    check_sound(memory)


def test_interrupted_building_goes_on_where_it_was(
    indexed_with_a: Memory, make_memory: MakeMemory, a: FakeEmbedder, b: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed is not computed again; the old space answers until the last one is there."""
    with monkeypatch.context() as broken:
        break_after(b, broken, 2)
        memory = make_memory(b, old=a)
        report = memory.sync()
        assert [failure.reason for failure in report.failed] == ["the power went"]
        status = memory.status()
        assert (status.space, status.building_space, status.building_pending) == (a.space.name, b.space.name, 4)
        assert report.vectors_pending == 4
        check_sound(memory)
    make_memory(b, old=a).sync()
    assert sorted(b.seen) == sorted(set(b.seen))
    assert len(b.seen) == 6
    assert memory.status().space == b.space.name


def test_note_changed_while_a_space_is_built_gets_vectors_in_both(
    indexed_with_a: Memory,
    make_memory: MakeMemory,
    write: Write,
    a: FakeEmbedder,
    b: FakeEmbedder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The old space keeps up with the files as long as it answers."""
    with monkeypatch.context() as broken:
        break_after(b, broken, 2)
        memory = make_memory(b, old=a)
        memory.sync()
        write("new.md", "The stork nests on the chimney.\n")
        result = memory.search("stork chimney", mode="vector", limit=1)
        assert [hit.path for hit in result.hits] == ["new.md"]
        assert (memory.status().space, memory.status().building_pending) == (a.space.name, 5)
    memory.sync()
    assert (memory.status().space, memory.status().pending_vectors) == (b.space.name, 0)
    check_sound(memory)


def test_going_back_half_way_drops_what_was_begun(
    indexed_with_a: Memory, make_memory: MakeMemory, a: FakeEmbedder, b: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old model is configured again: it never stopped answering, and embeds nothing."""
    break_after(b, monkeypatch, 2)
    make_memory(b, old=a).sync()
    seen = len(a.seen)
    memory = make_memory(a)
    report = memory.sync()
    assert (len(a.seen), report.vectors_pending, report.failed) == (seen, 0, ())
    assert (memory.status().space, memory.status().building_space) == (a.space.name, "")
    assert memory.verify() is None
    check_sound(memory)


def test_switching_back_to_a_model_embeds_nothing(
    indexed_with_a: Memory, make_memory: MakeMemory, a: FakeEmbedder, b: FakeEmbedder
) -> None:
    """Its vectors stay in the user's cache."""
    make_memory(b, old=a).sync()
    seen = len(a.seen)
    memory = make_memory(a, old=b)
    report = memory.sync()
    assert (report.vectors_computed, report.vectors_reused, len(a.seen)) == (0, 6, seen)
    assert memory.status().space == a.space.name
    assert memory.verify() is None
    check_sound(memory)


def test_third_model_in_mid_building_replaces_the_second(
    indexed_with_a: Memory, make_memory: MakeMemory, a: FakeEmbedder, b: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one space is built at a time."""
    break_after(b, monkeypatch, 2)
    make_memory(b, old=a).sync()
    memory = make_memory(FakeEmbedder("c"), old=a)
    memory.sync()
    assert (memory.status().space, memory.status().building_space) == (FakeEmbedder("c").space.name, "")
    check_sound(memory)


def test_old_model_that_is_not_to_be_had_leaves_searches_by_words(
    indexed_with_a: Memory, make_memory: MakeMemory, b: FakeEmbedder
) -> None:
    """A question in one space is never compared with passages of another."""
    memory = make_memory(b)
    result = memory.search("heron alder")
    assert len(result.hits) == 6
    assert result.mode == "keyword"
    assert any("now unavailable" in warning for warning in result.warnings)
    memory.sync()
    assert memory.search("heron alder").mode == "hybrid"


def test_answer_says_that_another_model_than_the_configured_one_gave_it(make_memory: MakeMemory, write: Write) -> None:
    """Until sync has built the new space, the old one answers, and no answer hides it."""
    write("a.md", "The heron nests.\n")
    first = FakeEmbedder("a")
    make_memory(first).sync()
    second = make_memory(FakeEmbedder("b"), old=first)
    warnings = second.search("heron").warnings
    assert "searches use a until memsync sync has built the vectors of b" in warnings
    second.sync()
    assert second.search("heron").warnings == ()


@pytest.mark.parametrize("count", [20, 1_500])
def test_copied_root_is_searched_by_meaning_at_once(
    memory: Memory, make_memory: MakeMemory, root: Path, write: Write, count: int
) -> None:
    """The cache has its vectors, so the first search takes them and computes none."""
    for number in range(count // 20):
        write(f"{number}.md", "\n\n".join(f"# {number} {part}\n\nbird {number} {part}" for part in range(20)))
    memory.sync()
    shutil.copytree(root, copy := root.parent / "copy")
    embedder = FakeEmbedder()
    copied = make_memory(embedder, own_settings=load_settings(root=copy, environ={}, cwd=copy))
    result = copied.search("bird 0 7", mode="vector")
    assert (result.mode, result.freshness.pending_vectors, embedder.seen) == ("vector", 0, [])
