"""A large index is searched by the signs of its vectors: nearly as exactly as by themselves, in their present state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import numpy as np
import pytest
from numpy.typing import NDArray

from memsync.index.sqlite import schema
from memsync.index.sqlite.queries import VECTOR_CHUNKS
from memsync.index.sqlite.signs import LEAST_CHOSEN, SignsCache
from memsync.index.vectors import to_float16, to_int8
from memsync.memory import Memory
from memsync.model.vocabulary import Mode
from tests.conftest import Patch, Write

DIMENSION = 72  # no whole words of 64 bits
COUNT = 2 * LEAST_CHOSEN


@pytest.fixture(scope="module")
def vectors() -> NDArray[np.float32]:
    """Make unit vectors around a few hundred centres, as texts of some subjects are."""
    chance = np.random.default_rng(7)
    centres = chance.normal(size=(300, DIMENSION))
    spread = chance.normal(size=(COUNT, DIMENSION)) + centres[chance.integers(0, 300, COUNT)]
    unit: NDArray[np.float32] = (spread / np.linalg.norm(spread, axis=1, keepdims=True)).astype(np.float32)
    return unit


@pytest.fixture
def table(tmp_path: Path, vectors: NDArray[np.float32]) -> Iterator[apsw.Connection]:
    """Open a database with a vec0 table of these vectors, numbered from 1."""
    connection = schema.connect(tmp_path / "index.db")
    connection.execute(f"CREATE VIRTUAL TABLE vec_1 USING vec0 (embedding int8[{DIMENSION}])")
    with connection:
        for number, vector in enumerate(vectors, 1):
            put(connection, number, vector)
    yield connection
    connection.close()


def put(connection: apsw.Connection, number: int, vector: NDArray[np.float32]) -> None:
    connection.execute("INSERT INTO vec_1 (rowid, embedding) VALUES (?, vec_int8(?))", (number, int8(vector)))


def int8(vector: NDArray[np.float32]) -> bytes:
    return to_int8(to_float16(vector, DIMENSION))


def test_signs_choose_the_nearest_vectors(table: apsw.Connection, vectors: NDArray[np.float32]) -> None:
    """Of the nearest ten, at most one of a hundred is missed."""
    signs, questions = SignsCache().of((1,), table.execute(VECTOR_CHUNKS.format(space=1))), vectors[::80]
    chosen = [{*signs.nearest(int8(question))} for question in questions]
    best = [{*np.argsort(-(vectors @ question))[:10] + 1} for question in questions]
    assert {len(found) for found in chosen} == {LEAST_CHOSEN}
    assert sum(len(found & near) for found, near in zip(chosen, best, strict=True)) >= 9.9 * len(questions)


def test_another_state_is_read_anew(table: apsw.Connection, vectors: NDArray[np.float32]) -> None:
    """A passage may have the number and the place of a deleted one, but another vector."""
    kept, question = SignsCache(), int8(vectors[4])

    def chosen(state: int) -> list[int]:
        return kept.of((state,), table.execute(VECTOR_CHUNKS.format(space=1))).nearest(question)

    assert 5 in chosen(1)
    table.execute("DELETE FROM vec_1 WHERE rowid = 5")
    put(table, 5, -vectors[4])
    assert 5 in chosen(1)
    assert 5 not in chosen(2)


def test_search_by_signs_finds_what_vec0_finds(memory: Memory, write: Write, monkeypatch: Patch) -> None:
    """A small index has all its vectors ranked exactly."""
    for number in range(30):
        write(f"{number}.md", f"# Bird {number}\n\nThe heron number {number} nests in alder {number % 7}.\n")
    memory.sync()

    def found() -> list[tuple[str, float]]:
        hits = memory.search("heron in an alder", mode=Mode.VECTOR, limit=20).hits
        return [(hit.path, hit.score) for hit in hits]

    for change in ("", "30.md", "3.md"):
        if change:
            write(change, "# Another\n\nA tern dives into the pond.\n")
        with monkeypatch.context() as patched:
            patched.setattr("memsync.index.sqlite.reader.LEAST_CHUNKS", 0)
            by_signs = found()
        assert by_signs == found()
