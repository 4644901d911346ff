"""No text is embedded twice on one machine: all memory roots share vectors, and a broken cache costs no answer."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest

from memsync.daemon.isolated import IsolatedEmbedder
from memsync.embed.cache import cache_database as cache_database
from memsync.embed.cache.cache import SqliteVectorCache
from memsync.embed.cache.cache_database import VectorDatabase
from memsync.index.sqlite.index import SqliteIndex
from memsync.index.vectors import to_float16
from memsync.memory import Memory, Parts, Through, open_memory
from memsync.model.query import EmbeddingSpace
from memsync.settings.load import load_settings
from memsync.sync import sharing
from memsync.system.user_folders import state_folder
from memsync.wiring import vector_cache_path
from tests.conftest import COUNTER, DEADLINE, FakeEmbedder
from tests.support.index_checks import check_sound, database, orphans

NOTES = 12
LARGE = 1_000_000_000
Open = Callable[..., Memory]


@pytest.fixture
def cache_path() -> Path:
    return vector_cache_path()


@pytest.fixture
def cache(cache_path: Path) -> Iterator[SqliteVectorCache]:
    """Open the user's cache as a process of its own would."""
    with closing(SqliteVectorCache(cache_path, LARGE)) as found:
        yield found


@pytest.fixture
def opened(embedder: FakeEmbedder, cache_path: Path) -> Iterator[Open]:
    """Open a memory root with the fake embedder and the user's cache, unless another or None is given."""
    memories: list[Memory] = []

    def make(root: Path, own: FakeEmbedder = embedder, cache: Any = LARGE) -> Memory:
        settings = load_settings(root=root, environ={}, cwd=root)
        index = SqliteIndex(settings.index_dir / "index.db")
        shared = SqliteVectorCache(cache_path, cache) if isinstance(cache, int) else cache
        memories.append(
            Memory(settings, index, COUNTER, lambda: own, lambda space: own, cache=shared, deadline=DEADLINE)
        )
        return memories[-1]

    yield make
    for memory in memories:
        memory.close()


@pytest.fixture
def notes(root: Path) -> Path:
    """Make a root of twelve notes of one passage each."""
    for number in range(NOTES):
        (root / f"n{number:02}.md").write_text(f"The heron of note {number} nests in alder {number * 7}.\n")
    return root


def copied(notes: Path, name: str = "copy") -> Path:
    return Path(shutil.copytree(notes, notes.with_name(name)))


def counts(memory: Memory) -> tuple[int, int, int]:
    """Sync; return how many vectors were computed and reused, and how many are still missing."""
    report = memory.sync()
    assert report.failed == ()
    return report.vectors_computed, report.vectors_reused, report.vectors_pending


def stored(memory: Memory) -> dict[bytes, bytes]:
    """Return the float16 vectors of an index by content hash."""
    with closing(apsw.Connection(str(database(memory)))) as connection:
        return dict(connection.execute("SELECT hash, value FROM vector JOIN passage ON id = passage"))


def rows(path: Path) -> dict[bytes, bytes]:
    """Return the float16 vectors of the cache by content hash."""
    with closing(apsw.Connection(str(path))) as connection:
        return dict(connection.execute("SELECT hash, value FROM vector"))


# --------------------------------------------------------------------------------- nothing is embedded twice


def test_copy_of_the_notes_embeds_nothing(notes: Path, opened: Open, embedder: FakeEmbedder) -> None:
    """A second clone has an index of its own, and every vector from the first."""
    assert counts(opened(notes)) == (NOTES, 0, 0)
    seen = len(embedder.seen)
    memory = opened(copied(notes))
    assert counts(memory) == (0, NOTES, 0)
    assert len(embedder.seen) == seen
    assert memory.verify() is None
    check_sound(memory)


@pytest.mark.parametrize("damage", [b"", b"this is no database\n" * 500])
def test_index_that_is_lost_or_damaged_embeds_nothing(notes: Path, opened: Open, damage: bytes) -> None:
    """Not even when nothing at all can be read of it."""
    memory = opened(notes)
    memory.sync()
    path = database(memory)
    memory.close()
    for name in ("index.db", "index.db-wal"):
        path.with_name(name).unlink(missing_ok=True)
    if damage:
        path.write_bytes(damage)
    again = opened(notes)
    report = again.sync()
    assert (report.vectors_computed, report.vectors_reused, report.vectors_pending) == (0, NOTES, 0)
    assert again.verify() is None


def test_search_takes_what_one_edit_left_behind_from_the_cache(
    notes: Path, opened: Open, embedder: FakeEmbedder
) -> None:
    """A text that another root has embedded is found by meaning at once, without the model."""
    other = copied(notes)
    (other / "new.md").write_text("The stork nests on the chimney.\n")
    opened(other).sync()
    memory = opened(notes)
    memory.sync()
    seen = len(embedder.seen)
    shutil.copy(other / "new.md", notes / "new.md")
    result = memory.search("stork chimney", mode="vector", limit=50)
    assert "new.md" in {hit.path for hit in result.hits}
    assert (len(embedder.seen), result.freshness.pending_vectors) == (seen, 0)


class Spy:
    """Stands in for the cache and keeps what it is given; `at` is called whenever it is asked for something."""

    def __init__(self, at: Callable[[], None] = lambda: None, name: str = "spy") -> None:
        self.name = name
        self.vectors: dict[bytes, bytes] = {}
        self.asked = 0
        self.is_over = False
        self.at = at

    def identity(self) -> str:
        return self.name

    def get(self, space: EmbeddingSpace, hashes: Sequence[bytes]) -> Mapping[bytes, bytes]:
        self.at()
        self.asked += 1
        return {digest: self.vectors[digest] for digest in hashes if digest in self.vectors}

    def put(self, space: EmbeddingSpace, vectors: Sequence[tuple[bytes, Any]]) -> bool:
        self.at()
        for digest, vector in vectors:
            self.vectors[digest] = vector if isinstance(vector, bytes) else to_float16(vector, space.dimension)
        return True

    def trim(self) -> None:
        self.at()

    def take_warnings(self) -> list[str]:
        return []

    def close(self) -> None:
        """Nothing is open."""


def test_index_from_before_the_cache_fills_it_once(notes: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its next sync gives the cache all vectors, the one after that none; another cache gets them again."""
    monkeypatch.setattr(sharing, "REQUEST_SIZE", 5)
    opened(notes, cache=None).sync()
    spy = Spy()
    memory = opened(notes, cache=spy)
    assert counts(memory) == (0, 0, 0)
    assert spy.vectors == stored(memory)
    spy.vectors.clear()
    memory.sync()
    assert spy.vectors == {}
    new = Spy(name="new")
    opened(notes, cache=new).sync()
    assert new.vectors == stored(memory)


def test_what_was_embedded_while_the_cache_was_locked_is_shared_later(
    notes: Path, opened: Open, cache_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process holds its lock for too long: the sync is complete without a word, and the next one makes up."""
    monkeypatch.setattr("memsync.embed.cache.cache.BUSY_MS", 10)
    memory = opened(notes)
    memory.sync()
    shared = stored(memory)
    (notes / "new.md").write_text("The stork nests.\n")
    with closing(apsw.Connection(str(cache_path))) as holder:
        holder.execute("BEGIN IMMEDIATE")
        report = memory.sync()
        assert (report.vectors_computed, report.failed, report.warnings) == (1, (), ())
        holder.execute("ROLLBACK")
    assert rows(cache_path) == shared
    opened(notes).sync()
    assert rows(cache_path) == stored(memory)
    assert len(stored(memory)) == NOTES + 1


def test_cache_that_gets_all_vectors_again_keeps_those_that_it_has(notes: Path, opened: Open) -> None:
    """Those of the index have no checksum, so one that was damaged on the disk must not become everybody's."""
    spy = Spy()
    memory = opened(notes, cache=spy)
    memory.sync()
    kept, lacking = list(spy.vectors)[:2]
    spy.vectors[kept] = spy.vectors.pop(lacking)
    expected = stored(memory) | {kept: spy.vectors[kept]}
    spy.name = "emptied"
    memory.sync()
    assert spy.vectors == expected


def test_the_cache_is_never_asked_inside_of_a_transaction_of_the_index(notes: Path, opened: Open) -> None:
    """However long the cache takes, another process can write to the index."""
    path: list[Path] = []
    written = 0

    def write_from_elsewhere() -> None:
        nonlocal written
        with closing(apsw.Connection(str(path[0]))) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        written += 1

    memory = opened(notes, cache=Spy(write_from_elsewhere))
    path.append(database(memory))
    memory.sync()
    memory.rebuild()
    (notes / "new.md").write_text("The stork nests.\n")
    memory.search("stork", mode="vector")
    assert written > 6


def test_notes_that_change_while_the_cache_is_asked_get_no_vector_of_another_text(notes: Path, opened: Open) -> None:
    """Another process has replaced every passage by the time the answer comes."""
    spy, other = Spy(), opened(notes, cache=None)
    opened(copied(notes), cache=spy).sync()

    def change() -> None:
        if not spy.is_over:
            spy.is_over = True
            for number, path in enumerate(sorted(notes.iterdir())):
                path.write_text(f"The bittern booms for the {number}th time in reed {number * 5}.\n")
            other.syncer.refresh()

    spy.at = change
    memory = opened(notes, cache=spy)
    memory.sync()
    assert spy.is_over
    assert orphans(database(memory)) == {}
    report = memory.sync()
    assert (report.failed, report.vectors_pending) == ((), 0)
    assert memory.verify(recompute=True) is None


def test_a_change_of_model_does_not_mix_vectors(notes: Path, opened: Open) -> None:
    """Each space has its own vectors; the second root reuses those of its own model alone."""
    opened(notes).sync()
    other = FakeEmbedder("other", dimension=24)
    memory = opened(copied(notes), other)
    assert counts(memory) == (NOTES, 0, 0)
    assert {len(vector) for vector in stored(memory).values()} == {48}
    third = opened(copied(notes, "third"), other)
    assert counts(third) == (0, NOTES, 0)


# ---------------------------------------------------------------------------------------- computed anew


def plant(path: Path, space: EmbeddingSpace, hashes: Sequence[bytes]) -> bytes:
    """Put a wrong vector at each of these hashes, as if the model had given it; return it."""
    wrong = np.zeros(space.dimension, dtype=np.float32)
    wrong[3] = 1.0
    with closing(SqliteVectorCache(path, LARGE)) as planted:
        assert planted.put(space, [(digest, wrong) for digest in hashes])
    return to_float16(wrong, space.dimension)


def test_rebuild_drop_vectors_asks_the_model_and_corrects_the_cache(
    notes: Path, opened: Open, cache_path: Path, embedder: FakeEmbedder
) -> None:
    """What is computed anew takes the place of what the cache has."""
    memory = opened(notes)
    memory.sync()
    right = stored(memory)
    wrong = plant(cache_path, embedder.space, list(right))
    assert set(rows(cache_path).values()) == {wrong}
    report = memory.rebuild(drop_vectors=True)
    assert (report.vectors_computed, report.vectors_reused) == (NOTES, 0)
    assert stored(memory) == right
    assert rows(cache_path) == right


def test_verify_recompute_finds_a_wrong_vector_from_the_cache_and_corrects_both(
    notes: Path, opened: Open, cache_path: Path, embedder: FakeEmbedder
) -> None:
    """The index took it from the cache in good faith; computing it shows the difference."""
    first = opened(notes)
    first.sync()
    right = stored(first)
    plant(cache_path, embedder.space, list(right))
    memory = opened(copied(notes))
    memory.sync()
    assert memory.verify() is None
    difference = memory.verify(recompute=True)
    assert difference is not None
    assert difference.mended
    assert stored(memory) == right
    assert rows(cache_path) == right


# ------------------------------------------------------------------------------------------- the model


@pytest.mark.parametrize("make", [None, IsolatedEmbedder], ids=["in this process", "in its own"])
def test_model_is_not_loaded_where_the_cache_has_everything(notes: Path, make: Any) -> None:
    """The built-in model, in this process and as the daemon runs it."""
    with open_memory(load_settings(root=notes, environ={}, cwd=notes), Through.HERE) as memory:
        memory.sync()
    root = copied(notes)
    settings = load_settings(root=root, environ={}, cwd=root)
    memory = open_memory(settings, Through.HERE, parts=Parts(make) if make is not None else Parts())
    with memory:
        embedder: Any = memory.models.configured()
        memory.models.unload()
        report = memory.syncer.embed_in_background()
        memory.syncer.refresh()
        report = memory.syncer.embed_in_background()
        assert (report.computed, report.reused, report.pending) == (0, NOTES, 0)
        assert not memory.models.is_loaded
        assert (embedder._loaded if make is None else embedder._child) is None


# ------------------------------------------------------------------------------------ damage and faults


@pytest.mark.parametrize("content", [b"this is no database\n" * 500, b"SQLite format 3\0" + b"\xff" * 8_000])
def test_damaged_cache_is_set_aside_and_begun_anew_with_a_warning(
    notes: Path, opened: Open, cache_path: Path, content: bytes
) -> None:
    """The sync computes what it needs, says so once, and the new cache serves the next root."""
    opened(notes).sync()
    for path in cache_path.parent.iterdir():
        path.unlink()
    cache_path.write_bytes(content)
    memory = opened(copied(notes))
    report = memory.sync()
    assert (report.vectors_computed, report.failed) == (NOTES, ())
    (warning,) = report.warnings
    assert "was damaged" in warning
    assert "set aside" in warning
    (aside,) = cache_path.parent.glob("vectors.db.damaged-*")
    assert aside.read_bytes() == content
    assert memory.sync().warnings == ()
    assert counts(opened(copied(notes, "third"))) == (0, NOTES, 0)


def test_any_lost_page_of_the_cache_costs_no_sync_and_gives_no_wrong_vector(
    notes: Path, opened: Open, cache_path: Path, embedder: FakeEmbedder, tmp_path: Path
) -> None:
    """Each page in turn is overwritten: what is reused is right, what is lost is computed."""
    first = opened(notes)
    first.sync()
    first.close()
    right = stored(first)
    sound = cache_path.read_bytes()
    page = cache_database.PAGE_BYTES
    for number in range(len(sound) // page):
        for path in cache_path.parent.iterdir():
            path.unlink()
        cache_path.write_bytes(sound[: number * page] + os.urandom(page) + sound[(number + 1) * page :])
        memory = opened(copied(notes, f"copy{number}"))
        report = memory.sync()
        assert (report.vectors_computed + report.vectors_reused, report.failed) == (NOTES, ()), number
        assert stored(memory) == right
        memory.close()


@pytest.mark.parametrize("column", ["hash", "value", "checksum"])
def test_changed_digit_in_the_cache_is_noticed(
    notes: Path, opened: Open, cache_path: Path, embedder: FakeEmbedder, column: str
) -> None:
    """A row that is not as it was written is no vector: it is computed again, and the row is replaced."""
    first = opened(notes)
    first.sync()
    right = stored(first)
    change = (
        "checksum + 1"
        if column == "checksum"
        else f"CAST(substr({column}, 1, 9) || x'33' || substr({column}, 11) AS BLOB)"
    )
    with closing(apsw.Connection(str(cache_path))) as connection:
        connection.execute(f"UPDATE vector SET {column} = {change} WHERE id = 5")
    memory = opened(copied(notes))
    assert counts(memory) == (1, NOTES - 1, 0)
    assert stored(memory) == right
    assert right.items() <= rows(cache_path).items()


def test_vector_that_is_no_unit_vector_is_not_taken(
    notes: Path, opened: Open, cache_path: Path, embedder: FakeEmbedder
) -> None:
    """Whoever wrote it, and however well its checksum fits."""
    first = opened(notes)
    first.sync()
    digests = list(stored(first))
    with closing(VectorDatabase(cache_path, 100)) as direct, direct.writing():
        for digest, bad in zip(digests, (np.nan, np.inf, 0.0, 0.5), strict=False):
            direct.add(embedder.space, [(digest, np.full(16, bad, "<f2").tobytes())])
        direct.add(embedder.space, [(digests[4], b"short")])
    assert counts(opened(copied(notes))) == (5, NOTES - 5, 0)


def test_cache_that_cannot_be_made_costs_a_warning(notes: Path, opened: Open, cache_path: Path) -> None:
    """A file stands where its folder should be."""
    cache_path.parent.parent.mkdir(parents=True, exist_ok=True)
    cache_path.parent.write_text("no folder")
    memory = opened(notes)
    report = memory.sync()
    assert (report.vectors_computed, report.failed) == (NOTES, ())
    (warning,) = report.warnings
    assert "cannot be used" in warning
    assert memory.search("heron", mode="vector").warnings == ()


@pytest.mark.parametrize("error", [apsw.FullError, apsw.ReadOnlyError, apsw.IOError])
def test_cache_that_cannot_be_written_costs_a_warning(
    notes: Path, opened: Open, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """A full or failing disk under the cache: the sync is as it would be without one."""

    def fail(*given: object, **named: object) -> int:
        raise error("no")

    monkeypatch.setattr(VectorDatabase, "add", fail)
    report = opened(notes).sync()
    assert (report.vectors_computed, report.vectors_pending, report.failed, len(report.warnings)) == (NOTES, 0, (), 1)


def test_cache_of_a_later_version_is_left_alone(notes: Path, opened: Open, cache_path: Path) -> None:
    """It may hold what this version would ruin."""
    opened(notes).sync()
    with closing(apsw.Connection(str(cache_path))) as connection:
        connection.pragma("user_version", 2)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    content = cache_path.read_bytes()
    memory = opened(copied(notes))
    report = memory.sync()
    assert (report.vectors_computed, report.failed) == (NOTES, ())
    assert "later version" in report.warnings[0]
    assert cache_path.read_bytes() == content


def test_cache_that_another_process_set_aside_is_followed(notes: Path, opened: Open, cache_path: Path) -> None:
    """What is open is the file that was there; what counts is the one at the path."""
    memory = opened(notes)
    memory.sync()
    for path in list(cache_path.parent.iterdir()):
        path.rename(path.with_name(f"old-{path.name}"))
    (notes / "new.md").write_text("The stork nests.\n")
    memory.sync()
    assert rows(cache_path) == stored(memory)


def test_files_of_the_cache_are_the_users_alone(notes: Path, opened: Open, cache_path: Path) -> None:
    """As everything else in the state folder."""
    opened(notes).sync()
    assert cache_path.is_relative_to(state_folder())
    assert cache_path.parent.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in cache_path.parent.iterdir()} == {0o600}


# ------------------------------------------------------------------------------------------ its bound


def units(count: int, start: int = 0) -> list[tuple[bytes, Any]]:
    """Return so many vectors of 16 dimensions, each with a hash."""
    basis = np.eye(16, dtype=np.float32)
    return [(number.to_bytes(32, "big"), basis[number % 16]) for number in range(start, start + count)]


def test_what_was_stored_first_goes_first(cache_path: Path, embedder: FakeEmbedder) -> None:
    """Below the bound nothing goes."""
    old, new = units(6_000), units(6_000, 6_000)
    with closing(SqliteVectorCache(cache_path, LARGE)) as cache:
        cache.put(embedder.space, old)
        cache.put(embedder.space, new)
        cache.trim()
        assert len(rows(cache_path)) == 12_000
    bound = cache_path.stat().st_size * 3 // 4
    with closing(SqliteVectorCache(cache_path, bound)) as cache:
        cache.trim()
        left = rows(cache_path).keys()
    assert {digest for digest, _ in new} <= left
    assert len(left) < 8_000
    assert cache_path.stat().st_size <= bound


def test_sync_keeps_the_cache_within_its_bound(notes: Path, opened: Open, cache_path: Path) -> None:
    """Trimming belongs to a sync; a search never waits for it."""
    opened(notes).sync()
    with closing(SqliteVectorCache(cache_path, LARGE)) as cache:
        cache.put(FakeEmbedder("other").space, units(20_000))
    size = pages(cache_path)
    memory = opened(notes, cache=size // 2)
    (notes / "new.md").write_text("The stork nests.\n")
    memory.search("stork", mode="vector")
    assert len(rows(cache_path)) > 20_000
    memory.sync()
    assert 0 < pages(cache_path) <= size // 2


def pages(path: Path) -> int:
    """Return the size of a database in bytes, its log included."""
    with closing(apsw.Connection(str(path))) as connection:
        return int(str(connection.pragma("page_count"))) * int(str(connection.pragma("page_size")))
