"""Vectors: what is no vector is refused, a failing model stops nothing but itself, and the shortlist loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memsync.errors import EmbedderError
from memsync.index.sqlite.index import VEC0_CHUNK_ROWS, SqliteIndex
from memsync.index.vectors import cosines, to_float16, to_int8
from memsync.memory import Memory
from memsync.model.note import Chunk, FileStamp
from memsync.model.query import Query
from memsync.model.vocabulary import NotePath
from memsync.notes.parse import NoteReader
from tests.conftest import FakeEmbedder, Write
from tests.support.backends import only_sqlite
from tests.support.index_checks import check_sound, database, dump, open_database, value

GOOD = np.full(16, 0.25, dtype=np.float32)
UNUSABLE = {
    "not a number": np.where(np.arange(16) == 3, np.nan, GOOD).astype(np.float32),
    "infinite": np.where(np.arange(16) == 3, np.inf, GOOD).astype(np.float32),
    "zero": np.zeros(16, dtype=np.float32),
    "too short": GOOD[:8],
    "too long": np.full(17, 0.25, dtype=np.float32),
    "a matrix": GOOD.reshape(1, 16),
}


class BrokenEmbedder(FakeEmbedder):
    """Gives `vector` for every text that mentions herons."""

    def __init__(self, vector: Any) -> None:
        super().__init__()
        self.vector = vector

    def _vector(self, text: str) -> Any:
        return self.vector if "heron" in text else super()._vector(text)


@pytest.mark.parametrize("vector", UNUSABLE.values(), ids=UNUSABLE)
@only_sqlite
def test_unusable_vector_is_refused_reported_and_left_pending(
    make_memory: Callable[..., Memory], write: Write, vector: Any
) -> None:
    """vec0 would store NaN and zero and rank them first: refused; the words go on being found."""
    memory = make_memory(BrokenEmbedder(vector))
    write("a.md", "The heron nests in the alder.\n")
    report = memory.sync()
    assert (report.vectors_computed, report.vectors_pending) == (0, 1)
    assert [failure.path for failure in report.failed] == ["(model)"]
    result = memory.search("alder")
    assert [hit.path for hit in result.hits] == ["a.md"]
    assert any("not searchable by meaning yet" in warning for warning in result.warnings)
    assert value(database(memory), "SELECT count(*) FROM vector") == 0
    check_sound(memory)


@pytest.mark.parametrize("vector", UNUSABLE.values(), ids=UNUSABLE)
def test_unusable_vector_of_a_question_leaves_the_search_by_words(
    make_memory: Callable[..., Memory], write: Write, vector: Any
) -> None:
    """The model fails at the question only: answered by words, and said."""
    memory = make_memory(BrokenEmbedder(vector))
    write("a.md", "The grey stork nests.\n")
    memory.sync()
    result = memory.search("stork heron")
    assert [hit.path for hit in result.hits] == ["a.md"]
    assert result.mode == "keyword"
    assert any("searched by words alone" in warning for warning in result.warnings)


def test_failing_model_is_reported_and_tried_again_at_the_next_sync(
    memory: Memory, write: Write, embedder: FakeEmbedder
) -> None:
    """Text is committed without it; once it answers again nothing is missing."""
    write("a.md", "The heron nests in the alder.\n")
    embedder.fail = EmbedderError("the model does not answer", hint="Start it.")
    report = memory.sync()
    assert report.vectors_pending == 1
    assert [failure.reason for failure in report.failed] == ["the model does not answer. Start it."]
    assert [hit.path for hit in memory.search("heron").hits] == ["a.md"]
    embedder.fail = None
    report = memory.sync()
    assert (report.vectors_computed, report.vectors_pending, report.failed) == (1, 0, ())
    assert [hit.path for hit in memory.search("heron", mode="vector").hits] == ["a.md"]


def test_model_that_fails_after_a_first_success_keeps_old_vectors_answering(
    memory: Memory, write: Write, embedder: FakeEmbedder
) -> None:
    """A change made while the model is down is found by words, the rest as before."""
    write("a.md", "The heron nests in the alder.\n")
    memory.sync()
    write("b.md", "The stork nests on the chimney.\n")
    embedder.fail = EmbedderError("down")
    result = memory.search("stork")
    assert [hit.path for hit in result.hits] == ["b.md"]
    assert any(warning.startswith("down") for warning in result.warnings)
    assert memory.status().pending_vectors == 1


@only_sqlite
def test_putting_a_vector_twice_changes_nothing(memory: Memory, write: Write, embedder: FakeEmbedder) -> None:
    """Two processes may embed the same passage: the second finds it done."""
    write("a.md", "The heron nests in the alder.\n")
    memory.syncer.refresh()
    index = memory.index
    with index.writing() as writer:
        writer.prepare_space(embedder.space)
    with index.reading() as reader:
        waiting = reader.pending_passages(embedder.space, [1])
    vectors = embedder.embed_passages(["The heron nests in the alder."])
    for _ in range(2):
        with index.writing() as writer:
            writer.put_vectors(embedder.space, list(zip(waiting, vectors, strict=True)))
    assert memory.status().pending_vectors == 0
    assert value(database(memory), "SELECT count(*) FROM vector") == 1
    check_sound(memory)


def random_vectors(count: int, dimension: int) -> Any:
    chance = np.random.default_rng(20261121)
    matrix = chance.standard_normal((count, dimension)).astype(np.float32)
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


def test_int8_shortlist_ranked_by_float16_agrees_with_exact_cosine(tmp_path: Path, reader: NoteReader) -> None:
    """Of the true 20 nearest among 3,000 random unit vectors at least 99 in 100 are found, with their true cosines."""
    vectors = random_vectors(3_000, 64)
    index = SqliteIndex(tmp_path / "index.db")
    embedder = FakeEmbedder(dimension=64)
    note, chunks = reader.read(NotePath("a.md"), b"one\n")
    stamp = FileStamp(4, 1, 1, 1, b"", 2)
    many = [
        Chunk(number, 0, 1, 1, f"passage {number}", "word", entries=chunks[0].entries)
        for number in range(len(vectors))
    ]  # fmt: skip
    with index.writing() as writer:
        writer.put_note(index.prepare(note, many), stamp, "test")
        writer.prepare_space(embedder.space)
        waiting = writer.pending_passages(embedder.space, range(1, len(vectors) + 1))
        writer.put_vectors(embedder.space, list(zip(waiting, vectors, strict=True)))
    found = 0
    questions = random_vectors(50, 64)[::-1]
    with index.reading() as view:
        for question in questions:
            exact = vectors @ question
            candidates = view.vector_candidates(Query("q"), question, 20)
            assert [c.score for c in candidates] == sorted((c.score for c in candidates), reverse=True)
            nearest = set(np.argsort(-exact)[:20] + 1)
            found += len(nearest & {candidate.chunk_id for candidate in candidates})
            for candidate in candidates:
                assert candidate.score == pytest.approx(float(exact[candidate.chunk_id - 1]), abs=1e-3)
    index.close()
    assert found / (20 * len(questions)) >= 0.99


def test_int8_is_made_from_float16() -> None:
    """A vector from the cache gives the same bytes as one just computed, clipped where it must be."""
    spike = np.zeros(384, dtype=np.float32)
    spike[0] = 1.0
    assert np.frombuffer(to_int8(to_float16(spike, 384)), dtype=np.int8).max() == 127
    assert cosines([to_float16(spike * 3, 384)], spike) == [pytest.approx(1.0)]
    assert cosines([], spike) == []


@pytest.mark.parametrize("by_daemon", [False, True])
@only_sqlite
def test_vec0_is_compacted_after_churn(memory: Memory, write: Write, by_daemon: bool) -> None:
    """A table of which under half is live is built anew, and answers as before; a daemon does it when it has time."""
    lines = [f"## Section {number}\n\nText number {number} of its own.\n" for number in range(VEC0_CHUNK_ROWS + 9)]
    write("bulk.md", "\n".join(lines))
    write("a.md", "The heron nests in the alder.\n")
    memory.sync()
    rows = "SELECT count(*) FROM vec_1_chunks"
    assert value(database(memory), rows) == 2
    write("bulk.md", "\n".join(lines[::8]))  # some of each chunk of the table stay
    if by_daemon:
        memory.syncer.refresh()
        assert value(database(memory), rows) == 2
        memory.syncer.tidy(bulk=False)
    else:
        memory.sync()
    assert value(database(memory), rows) == 1
    assert memory.search("The heron nests in the alder.", mode="vector").hits[0].path == "a.md"
    assert memory.verify() is None
    check_sound(memory)
    assert [line for line in dump(memory) if line.startswith('["vector"')]


def test_passage_that_got_the_number_of_one_that_has_gone_gets_its_own_vector(
    memory: Memory, write: Write, embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note goes while it is embedded, and SQLite gives its passage's number to the next new one."""
    write("a.md", "The heron nests.\n")
    memory.sync()
    path = write("b.md", "The eel swims far away.\n")
    embed = embedder.embed_passages

    def replaced_meanwhile(texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> Any:
        monkeypatch.setattr(embedder, "embed_passages", embed)
        found = embed(texts, pause)
        path.unlink()
        memory.syncer.refresh()
        write("c.md", "The ketch sails.\n")
        memory.syncer.refresh()
        return found

    monkeypatch.setattr(embedder, "embed_passages", replaced_meanwhile)
    memory.sync()
    memory.sync()
    check_sound(memory)


@only_sqlite
def test_space_that_was_given_up_is_given_back_to_the_disk(memory: Memory, write: Write) -> None:
    """Most of the file is free after a large folder went: it is written anew without that; its notes are as before."""
    write("a.md", "The heron nests.\n")
    memory.sync()
    before = dump(memory)
    with closing(open_database(database(memory))) as other:
        other.execute("CREATE TABLE filler (x)")
        other.execute("INSERT INTO filler VALUES (zeroblob(8000000))")
        other.execute("DROP TABLE filler")
    memory.index.compact(bulk=False)
    assert value(database(memory), "PRAGMA freelist_count") == 0
    assert database(memory).stat().st_size < 2_000_000
    assert dump(memory) == before
    check_sound(memory)
