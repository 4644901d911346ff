"""The HNSW index of a large memory: made by a sync, used by searches, and no filter empties an answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memsync.errors import IndexReadOnly
from memsync.index.postgres import hnsw
from memsync.index.postgres import index as index_module
from memsync.index.postgres import reader as reader_module
from memsync.index.postgres.connections import Connections
from memsync.index.postgres.index import Claim, PostgresIndex
from memsync.memory import Memory
from memsync.model.query import SearchRequest
from memsync.settings.load import Settings
from tests.conftest import COUNTER, DEADLINE, FakeEmbedder, Patch, Write
from tests.support.index_checks import check_sound
from tests.support.postgres_server import execute, own_database

NOTES = 150
MANY = 50


@pytest.fixture
def database() -> Iterator[str]:
    """Make a database of its own, because all memories of one share the HNSW index; it uses the index when it can."""
    with own_database("vectors") as dsn:
        for setting in ("enable_seqscan = off", "enable_sort = off", "enable_bitmapscan = off"):
            _alter(dsn, setting)
        yield dsn


def _alter(dsn: str, setting: str) -> None:
    name = execute(dsn, "SELECT current_database()")[0][0]
    execute(dsn, f"ALTER DATABASE {name} SET {setting}")


def scans(dsn: str) -> int:
    """Return how often the HNSW index was used."""
    execute(dsn, "SELECT pg_stat_force_next_flush()")
    return int(str(execute(dsn, "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname LIKE '%hnsw%'")[0][0]))


@pytest.fixture
def memory(database: str, settings: Settings, tmp_path: Path, write: Write, monkeypatch: Patch) -> Iterator[Memory]:
    """Open a memory that counts as large from 50 passages."""
    for module in (index_module, reader_module):
        monkeypatch.setattr(module, "EXACT_PASSAGES", MANY)
    for number in range(NOTES):
        write(
            f"notes/n{number:03}.md", f"The heron number {number} nests in alder {number % 7} at pond {number % 11}.\n"
        )
    write("rare/r.md", "The stork nests on chimney 3.\n")
    embedder = FakeEmbedder(dimension=32)
    (tmp_path / "index").mkdir()
    index = PostgresIndex(database, "large", tmp_path / "index", Claim("mine", "me"), ef_search=200)
    with Memory(settings, index, COUNTER, lambda: embedder, lambda space: embedder, deadline=DEADLINE) as opened:
        yield opened


def indexes(dsn: str) -> list[str]:
    return [str(name) for (name,) in execute(dsn, "SELECT indexname FROM pg_indexes WHERE indexdef LIKE '%hnsw%'")]


def nearest(memory: Memory, text: str) -> list[tuple[str, float]]:
    """Return (path, cosine) of the 20 nearest notes."""
    query = memory.parse(SearchRequest(text))
    vector = FakeEmbedder(dimension=32).embed_query(query.text)
    with memory.index.reading() as reader:
        candidates = reader.vector_candidates(query, vector, 20)
        chunks = reader.chunks([candidate.chunk_id for candidate in candidates])
    return [(chunks[candidate.chunk_id].path, candidate.score) for candidate in candidates]


def test_sync_makes_the_index_and_searches_use_it(memory: Memory, database: str, monkeypatch: Patch) -> None:
    """The nearest are those of a comparison with every vector, which a small memory gets."""
    memory.sync()
    assert indexes(database) == ["embedding_hnsw_32"]
    by_index = nearest(memory, "heron at pond 3")
    assert isinstance(memory.index, PostgresIndex)
    memory.index._connections._close_idle()  # a connection that ends tells the server what it used
    assert scans(database) > 0
    monkeypatch.setattr(reader_module, "EXACT_PASSAGES", 10_000)
    assert [score for _, score in by_index] == [score for _, score in nearest(memory, "heron at pond 3")]
    execute(database, "DROP INDEX embedding_hnsw_32")
    monkeypatch.setattr(reader_module, "EXACT_PASSAGES", MANY)
    assert nearest(memory, "heron at pond 3") == nearest(memory, "heron at pond 3")
    memory.sync()  # also after a sync that ended before it made the index
    assert indexes(database) == ["embedding_hnsw_32"]
    check_sound(memory)


@pytest.mark.parametrize("question", ["heron in:rare/", "heron path:rare/*", "heron in:notes/ path:*n007*"])
def test_no_filter_empties_an_answer(memory: Memory, question: str) -> None:
    """Also one that leaves a single note, far from the question."""
    memory.sync()
    assert len(nearest(memory, question)) == 1


@pytest.mark.parametrize("max_visited", [20_000, 1])
def test_filter_is_answered_in_full(memory: Memory, database: str, write: Write, max_visited: int) -> None:
    """The index is visited further if its first vectors do not pass; if it gives up, all that pass are compared."""
    for number in range(MANY + 20):
        write(f"other/o{number:03}.md", f"The eel {number} swims under keel {number % 5}.\n")
    memory.sync()
    _alter(database, f"hnsw.max_scan_tuples = {max_visited}")
    assert isinstance(memory.index, PostgresIndex)
    memory.index._connections._close_idle()  # new connections have the setting
    memory.index._outside = memory.index._outside._replace(ef_search=10)
    found = nearest(memory, "heron nests in alder in:other/")
    assert len(found) == 20
    assert all(path.startswith("other/") for path, _ in found)


def test_deleted_and_changed_notes_leave_the_index(memory: Memory, root: Path, write: Write) -> None:
    """Vectors follow the text at each sync."""
    memory.sync()
    (root / "rare" / "r.md").unlink()
    write("notes/n003.md", "The stork nests on chimney 3 again.\n")
    memory.sync()
    paths = [path for path, _ in nearest(memory, "stork chimney 3")]
    assert paths[0] == "notes/n003.md"
    assert "rare/r.md" not in paths
    check_sound(memory)


def test_index_is_made_without_help_if_shared_memory_is_short(
    memory: Memory, database: str, monkeypatch: Patch
) -> None:
    """A container has little of it: the second attempt uses one process."""
    attempts: list[int | None] = []
    make = hnsw._make

    def make_or_fail(connections: Connections, dimension: int, count: int, *, workers: int | None) -> None:
        attempts.append(workers)
        if workers is None:
            raise IndexReadOnly("could not resize shared memory segment: No space left on device")
        make(connections, dimension, count, workers=workers)

    monkeypatch.setattr(hnsw, "_make", make_or_fail)
    memory.sync()
    assert attempts == [None, 0]
    assert indexes(database) == ["embedding_hnsw_32"]
