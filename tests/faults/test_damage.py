"""An index whose file is damaged: begun anew with the vectors that can be read, wherever the damage is met."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw
import numpy as np
import pytest

from memsync.doctor import check_all
from memsync.errors import EmbedderError, IndexDamaged, MemsyncError, UnknownModel
from memsync.index.sqlite import schema
from memsync.index.sqlite.index import SqliteIndex
from memsync.memory import Memory
from memsync.model.answer import SearchResult
from memsync.settings.load import Settings
from memsync.sync.embedding import BATCH_PASSAGES
from memsync.system.user_folders import own_folder
from tests.conftest import FakeEmbedder, MakeMemory, Write
from tests.support.index_checks import assert_sound, database, dump, open_database, value
from tests.support.sampling import sampled

PAGE = 4_096
PARTS = 4
FILLERS = (bytes(PAGE), bytes(range(256)) * (PAGE // 256))


@pytest.fixture
def synced(memory: Memory, write: Write) -> Memory:
    """Index notes of several kinds, their front matter large enough to fill pages."""
    for number in range(12):
        head = f"---\ntitle: Note {number}\nabout: {'long ' * 300}\n---\n"
        write(
            f"n{number:02}.md", f"{head}# Note {number}\n\nThe heron nests in alder {number}. #bird\n\n- two {number}\n"
        )
    write(
        "threads/t.md",
        "".join(f"## user @ 2026-11-21 10:{n}\n\nWhere is heron {n}? [[n01]]\n\n" for n in range(10, 30)),
    )
    memory.sync()
    return memory


def found(memory: Memory) -> SearchResult:
    return memory.search("heron alder", limit=100, min_score=0)


def cited(memory: Memory) -> list[str]:
    return sorted(hit.citation for hit in found(memory).hits)


def owners(path: Path) -> dict[int, str]:
    """Return which table or index each page belongs to."""
    connection = apsw.Connection(str(path))
    try:
        return {page: name for name, page in connection.execute("SELECT name, pageno FROM dbstat")}
    finally:
        connection.close()


def vectors_by_page(path: Path) -> dict[int, int]:
    """Return how many vectors lie on each leaf of their table."""
    connection = apsw.Connection(str(path))
    try:
        statement = "SELECT pageno, ncell FROM dbstat WHERE name = 'vector' AND pagetype = 'leaf'"
        return dict(connection.execute(statement))
    finally:
        connection.close()


def put_back(path: Path, content: bytes) -> None:
    shutil.rmtree(path.parent)
    own_folder(path.parent)
    path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize("part", sampled(range(PARTS), 1))
def test_any_page_may_be_lost(part: int, synced: Memory, make_memory: MakeMemory) -> None:
    """The answer is that of before, or says what was done and is whole after one sync; intact vectors are kept."""
    before, path = cited(synced), database(synced)
    words_only = sorted(hit.citation for hit in synced.search("heron alder", mode="keyword", limit=100).hits)
    passages = synced.status().passages
    synced.close()
    sound, owner, leaves = path.read_bytes(), owners(path), vectors_by_page(path)
    assert sum(leaves.values()) == passages
    for page in range(part, len(sound) // PAGE, PARTS):
        name = owner.get(page + 1, "")
        may_be_lost = passages if name == "sqlite_schema" else leaves.get(page + 1, passages if name == "vector" else 0)
        filler = FILLERS[page // PARTS % 2]
        put_back(path, sound[: page * PAGE] + filler + sound[(page + 1) * PAGE :])
        embedder = FakeEmbedder()
        with make_memory(embedder) as memory:
            result = found(memory)
            hits = sorted(hit.citation for hit in result.hits)
            if hits != before:
                assert set(words_only) <= set(hits), (page, name)
                assert any("set aside" in warning for warning in result.warnings), (page, name)
            memory.sync()
        with make_memory(embedder) as memory:
            if is_damaged(memory):
                assert memory.sync().failed == (), (page, name)
            assert memory.verify() is None, (page, name)
            assert cited(memory) == before, (page, name)
            assert len(embedder.seen) <= may_be_lost, (page, name)
        assert_sound(path)


def is_damaged(memory: Memory) -> bool:
    """Tell whether `verify` finds damage, which no sync has met; by then the index was begun anew."""
    try:
        assert memory.verify() is None
    except IndexDamaged as damage:
        assert "set aside" in damage.message
        assert damage.hint
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled(range(4), 1))
def test_flipped_bytes_never_end_in_another_error_than_ours(seed: int, synced: Memory, make_memory: MakeMemory) -> None:
    """SQLite keeps no checksums: what flips unseen is found by verify, and rebuild mends it."""
    choose = random.Random(seed)
    before, path = cited(synced), database(synced)
    synced.close()
    sound = path.read_bytes()
    for _ in range(5):
        content = bytearray(sound)
        for place in choose.choices(range(100, len(content)), k=choose.choice((1, 2, 8))):
            content[place] ^= choose.randrange(1, 256)
        put_back(path, bytes(content))
        with make_memory(FakeEmbedder()) as memory:
            for call in (lambda: found(memory), memory.sync, memory.status, memory.verify, memory.threads):
                try:
                    call()
                except MemsyncError as error:
                    assert error.hint
            memory.rebuild()
            assert cited(memory) == before
            assert memory.verify() is None


@pytest.mark.parametrize("content", [b"", bytes(100_000), b"\xff" * 40_000], ids=["empty", "zeroes", "garbage"])
def test_log_that_is_lost_costs_nothing_that_the_files_have(
    content: bytes, synced: Memory, make_memory: MakeMemory, write: Write
) -> None:
    """What had not reached the database is read from the files again."""
    write("new.md", "The heron fishes by the alder.\n")
    synced.sync()
    before, path = cited(synced), database(synced)
    copy = path.read_bytes()
    synced.close()
    put_back(path, copy)
    path.with_name("index.db-wal").write_bytes(content)
    memory = make_memory()
    memory.sync()
    assert cited(memory) == before
    assert memory.verify() is None


@pytest.mark.parametrize("call", [Memory.prune, Memory.sync, Memory.verify, Memory.rebuild, Memory.threads])
def test_row_that_holds_something_else_than_its_table_may_is_damage(
    call: Callable[[Memory], object], synced: Memory, make_memory: MakeMemory
) -> None:
    """Also where it is only made use of after it was read: the index is begun anew, and the next call is answered."""
    before, path = cited(synced), database(synced)
    synced.close()
    with_loose_types = "UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '') WHERE name = 'note'"
    with_strict_types = "UPDATE sqlite_schema SET sql = ? WHERE name = 'note'"
    connection = open_database(path)
    connection.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1)
    made = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'note'").get
    for statement in (with_loose_types, "PRAGMA writable_schema = reset"):
        schema.run_all(connection, statement)
    connection.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1)
    connection.execute("UPDATE note SET path = x'6e' WHERE path = 'n03.md'")
    connection.execute(with_strict_types, (made,))
    connection.close()
    memory = make_memory()
    with suppress(IndexDamaged):
        call(memory)
    memory.sync()
    assert cited(memory) == before
    assert memory.verify() is None


def test_kind_that_memsync_does_not_know_is_damage(synced: Memory) -> None:
    """Not an error of Python: the index is begun anew."""
    run(synced, "UPDATE note SET kind = 'nope' WHERE path = 'n03.md'")
    with pytest.raises(IndexDamaged, match="unknown kind"), synced.index.reading() as reader:
        reader.notes()


@pytest.mark.parametrize("statement", ["UPDATE note SET front_matter = '{'", "UPDATE chunk SET attributes = '{'"])
def test_search_by_a_field_heals_an_index_whose_fields_cannot_be_read(statement: str, synced: Memory) -> None:
    """SQLite reads these fields itself, and its error is that of a wrong statement."""
    run(synced, statement)
    assert "fields that cannot be read" in " ".join(synced.search("heron", where=("mood=joy",)).warnings)


@pytest.mark.parametrize("call", [Memory.sync, Memory.rebuild])
def test_description_of_a_space_that_is_no_text_is_healed_with_its_vectors(
    call: Callable[[Memory], object], synced: Memory, make_memory: MakeMemory, embedder: FakeEmbedder
) -> None:
    """One flipped byte makes it so: the description has a copy, so nothing is embedded again."""
    before, embedded = cited(synced), len(embedder.seen)
    run(synced, "UPDATE space SET description = CAST(x'ff' || substr(description, 2) AS TEXT)")
    synced.close()
    memory = make_memory()
    with suppress(IndexDamaged):
        call(memory)
    memory.sync()
    assert cited(memory) == before
    assert len(embedder.seen) == embedded
    assert memory.verify() is None


@pytest.mark.parametrize("version", [-1, 0, 1, 2, 3, 4])
def test_index_of_another_version_is_made_anew_with_its_vectors(
    version: int, synced: Memory, make_memory: MakeMemory, embedder: FakeEmbedder
) -> None:
    """That of an earlier memsync is not damaged, so no copy of it is kept; what was done is said."""
    before, path = cited(synced), database(synced)
    run(synced, f"PRAGMA user_version = {version}")
    synced.close()
    embedded = len(embedder.seen)
    memory = make_memory()
    report = memory.sync()
    assert any("earlier version" in warning for warning in report.warnings) == (version > 0)
    assert report.failed == () or version < 1
    assert cited(memory) == before
    assert len(embedder.seen) == embedded
    assert len(list(path.parent.glob("index.db.damaged-*[0-9]"))) == (version < 1)
    assert memory.verify() is None


def run(memory: Memory, *statements: str) -> None:
    connection = open_database(database(memory))
    for statement in statements:
        for _ in connection.execute(statement):
            pass
    connection.close()


CHUNKS = "SELECT c.id FROM chunk c JOIN note n ON n.id = c.note WHERE n.path = 'n03.md'"
CHUNK = f"({CHUNKS} AND c.ordinal = 1)"
ROW = f"({CHUNK})"
INSERT = "INSERT INTO chunk_fts (rowid, body, heading, context, cjk)"


@pytest.mark.parametrize(
    "statements",
    [
        [f"DELETE FROM chunk_fts WHERE rowid = {ROW}"],
        [f"DELETE FROM chunk_fts WHERE rowid = {ROW}", f"{INSERT} VALUES ({ROW}, 'heron', '', '', '')"],
        [f"UPDATE chunk_fts_docsize SET sz = x'01010101' WHERE id = {ROW}"],
        [f"DELETE FROM tag WHERE chunk IN ({CHUNKS})"],
        [f"UPDATE chunk SET heading_path = '[\"Another\"]' WHERE id = {CHUNK}"],
        ["UPDATE note SET pinned = 1 WHERE path = 'n03.md'"],
        ["UPDATE message SET role = 'n03.md' WHERE ordinal = 3"],
    ],
    ids=range(7),
)
def test_verify_names_the_note_whose_rows_are_others_than_its_files_give(statements: list[str], synced: Memory) -> None:
    """Words, their number, tags, headings, fields and messages: whatever a search reads; a rebuild mends it."""
    run(synced, *statements)
    difference = synced.verify()
    assert difference is not None
    assert "n03.md" in difference.indexed + difference.rebuilt
    synced.rebuild()
    assert synced.verify() is None


def test_verify_names_a_word_that_is_in_another_chunk_than_its_note_gives(synced: Memory, write: Write) -> None:
    """Each column has as many words as before, so that nothing but the lists of the words differs."""
    write("w.md", "Alders stand here.\n")
    synced.sync()
    row = "(SELECT c.id FROM chunk c JOIN note n ON n.id = c.note WHERE n.path = 'w.md')"
    sizes = bytes(value(database(synced), f"SELECT sz FROM chunk_fts_docsize WHERE id = {row}"))  # type: ignore[call-overload]  # because SQLite gives any type
    columns = ", ".join(f"'{' '.join(['heron'] * size)}'" for size in sizes[:4])
    run(synced, f"DELETE FROM chunk_fts WHERE rowid = {row}", f"{INSERT} VALUES ({row}, {columns})")
    difference = synced.verify()
    assert difference is not None
    assert difference.mended
    assert difference.indexed.startswith('["word", ')
    assert synced.verify() is None


def answers(memory: Memory) -> list[list[str]]:
    """Return what searches by words, by meaning and by both find."""
    searches = (memory.search("heron alder unique7", mode=mode, limit=100) for mode in ("keyword", "vector", "hybrid"))
    return [[hit.citation for hit in result.hits] for result in searches]


UNSEEN = {
    "way to the words": ["DELETE FROM chunk_fts_idx"],
    "way to the words goes elsewhere": ["UPDATE chunk_fts_idx SET term = CAST(x'ff' || term AS BLOB) WHERE pgno > 0"],
    "bits of the vectors": ["UPDATE vec_1_chunks SET validity = zeroblob(length(validity))"],
    "all bits of the vectors": ["UPDATE vec_1_chunks SET validity = replace(hex(validity), '0', 'f')"],
    "chunks of the vectors": ["DELETE FROM vec_1_chunks"],
    "space in no known state": ["UPDATE space SET state = 'other'"],
    "space of another dimension": ["UPDATE space SET dimension = 8"],
}
SEEN_BY_VERIFY = {
    "sizes": ["UPDATE chunk_fts_docsize SET sz = x'00'"],
    "words": [
        "CREATE TEMP TABLE old AS SELECT id FROM chunk_fts_docsize",
        "DELETE FROM chunk_fts WHERE rowid IN (SELECT id FROM old)",
        f"{INSERT} SELECT id, 'other words', '', '', '' FROM old",
    ],
    "words of no note": [f"{INSERT} VALUES (99999, 'heron', '', '', '')"],
    "numbers of the vectors": [
        "UPDATE vec_1_chunks SET rowids = substr(rowids, 9, 8) || substr(rowids, 1, 8) || substr(rowids, 17)"
    ],
    "vectors": [
        "UPDATE vec_1_vector_chunks00 SET vectors = x'7f817f817f817f817f817f817f817f817f817f81' || substr(vectors, 21)"
    ],
}


@pytest.mark.parametrize("statements", (UNSEEN | SEEN_BY_VERIFY).values(), ids=(UNSEEN | SEEN_BY_VERIFY).keys())
def test_what_a_search_would_not_find_is_found_by_verify_and_mended(
    statements: list[str], synced: Memory, write: Write, make_memory: MakeMemory
) -> None:
    """`verify` looks up words and vectors the way a search does; after one sync the answers are as before."""
    write("u.md", "The unique7 stands here alone.\n")
    synced.sync()
    before = answers(synced)
    run(synced, *statements)
    damaged = make_memory()
    assert not is_equal(damaged)
    assert damaged.sync().failed == ()
    assert answers(damaged) == before
    assert is_equal(damaged)
    assert is_equal(make_memory())
    assert_sound(database(damaged))


def test_nested_reading_goes_on_when_another_thread_begins_the_index_anew(synced: Memory) -> None:
    """The view that a thread has lasts as long as it is in use, and the next one is of the new file."""
    index = synced.index
    assert isinstance(index, SqliteIndex)
    with index.reading() as outer:
        before = outer.counts().notes
        healing = threading.Thread(target=lambda: index.heal(IndexDamaged("lost"), index._inode))
        healing.start()
        healing.join()
        with index.reading() as inner:
            assert inner.counts().notes == before
        assert outer.counts().notes == before
    with index.reading() as fresh:
        assert fresh.counts().notes == 0


@pytest.mark.parametrize(
    "error", [None, apsw.exception_for(apsw.SQLITE_IOERR_FSTAT)], ids=["log of the other", "error"]
)
def test_reader_that_opens_the_index_while_another_process_replaces_it_opens_it_again(
    error: Exception | None, synced: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite opens a file and its log by name, one after the other: the second may be that of another index."""
    index = synced.index
    assert isinstance(index, SqliteIndex)
    connect = schema.connect

    def connect_and_replace(path: Path, *, readonly: bool = False) -> apsw.Connection:
        monkeypatch.setattr(schema, "connect", connect)
        connection = connect(path, readonly=readonly)
        other = SqliteIndex(path)
        other.heal(IndexDamaged("lost"), index._inode)
        other.close()
        if error:
            connection.close()
            raise error
        return connection

    def count() -> None:
        monkeypatch.setattr(schema, "connect", connect_and_replace)
        with index.reading() as reader:
            counted.append(reader.counts().notes)

    counted: list[int] = []
    thread = threading.Thread(target=count)
    thread.start()
    thread.join()
    assert counted == [0]


LOST = {
    "chunks of the vectors": "DELETE FROM vec_1_chunks",
    "passages": "DELETE FROM passage",
    "numbers of the words": "DELETE FROM chunk_fts_docsize",
}


@pytest.mark.parametrize("mode", ["keyword", "vector", "hybrid"])
@pytest.mark.parametrize("statement", LOST.values(), ids=LOST.keys())
def test_no_answer_is_empty_because_a_table_is(
    statement: str, mode: str, synced: Memory, write: Write, make_memory: MakeMemory
) -> None:
    """Before a search says that there is nothing, and before words answer alone, rows are counted, and it is healed."""
    write("u.md", "The unique7 stands here alone.\n")
    synced.sync()
    before = answers(synced)
    run(synced, "PRAGMA foreign_keys = off", statement)
    memory = make_memory()
    found = memory.search("unique7", mode=mode, limit=100)
    assert "u.md" in {hit.path for hit in found.hits}
    memory.sync()
    assert answers(memory) == before


def test_vector_that_is_searched_and_cannot_be_ranked_is_damage(synced: Memory, make_memory: MakeMemory) -> None:
    """Its text would be missing among the nearest in silence."""
    before = answers(synced)
    run(synced, "DELETE FROM vector")
    memory = make_memory()
    warnings = memory.search("heron", mode="vector").warnings
    assert any("damaged" in warning for warning in warnings)
    memory.sync()
    assert answers(memory) == before


@pytest.mark.parametrize("table", ["vector", "vec_1_vector_chunks00"])
def test_vector_that_is_another_than_its_int8_form_comes_from_the_cache_again(
    table: str, synced: Memory, make_memory: MakeMemory
) -> None:
    """A sign that flips leaves the length as it was: neither of the two forms is believed."""
    connection = open_database(database(synced))
    column, kind = ("value", np.float16) if table == "vector" else ("vectors", np.int8)
    row, blob = next(iter(connection.execute(f"SELECT rowid, {column} FROM {table} ORDER BY rowid LIMIT 1")))
    numbers = np.frombuffer(blob, dtype=kind).copy()
    numbers[np.argmax(numbers)] *= -1
    connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (numbers.tobytes(), row))
    connection.close()
    embedder = FakeEmbedder()
    memory = make_memory(embedder)
    assert not is_equal(memory)
    assert memory.sync().failed == ()
    assert embedder.seen == []
    assert is_equal(memory)
    assert memory.verify(recompute=True) is None


def is_equal(memory: Memory) -> bool:
    """Tell whether `verify` exits with 0; what it found was mended otherwise."""
    try:
        difference = memory.verify()
    except IndexDamaged as damage:
        assert "set aside" in damage.message
        return False
    assert difference is None or difference.mended
    return difference is None


@pytest.mark.parametrize("statements", UNSEEN.values(), ids=UNSEEN.keys())
def test_sync_and_doctor_find_that_searches_cannot_get_at_rows(
    statements: list[str], synced: Memory, make_memory: MakeMemory, settings: Settings
) -> None:
    """They count what a search enters by, which is cheap, and begin the index anew."""
    before = answers(synced)
    run(synced, *statements)
    (failure,) = make_memory().sync().failed
    assert "set aside" in failure.reason
    assert answers(make_memory()) == before
    run(synced, *statements)
    (index,) = (check for check in check_all(settings) if check.name == "index")
    assert not index.ok
    assert "set aside" in index.finding


@pytest.mark.parametrize(("table", "row"), [("chunk_fts", 2), ("vec_1", 2)])
def test_sync_finds_that_rows_are_missing_and_puts_them_back(
    table: str, row: int, synced: Memory, embedder: FakeEmbedder, make_memory: MakeMemory
) -> None:
    """Counting is cheap; the report says what was found, so that the command exits with 1, and nothing is embedded."""
    before, embedded = dump(synced), len(embedder.seen)
    run(synced, f"DELETE FROM {table} WHERE rowid = {row}")
    memory = make_memory()
    (failure,) = memory.sync().failed
    assert "set aside" in failure.reason
    assert (dump(memory), len(embedder.seen)) == (before, embedded)
    assert memory.sync().failed == ()


@pytest.mark.parametrize(
    ("failure", "after"),
    [(EmbedderError("down"), 0), (EmbedderError("died"), BATCH_PASSAGES), (KeyboardInterrupt(), BATCH_PASSAGES)],
    ids=["at once", "in the middle", "interrupt"],
)
def test_rebuild_whose_model_fails_leaves_the_old_index(
    failure: BaseException, after: int, synced: Memory, make_memory: MakeMemory, write: Write
) -> None:
    """Some vectors are not enough to replace all of them."""

    class Dying(FakeEmbedder):
        def embed_passages(self, texts: list[str], pause: Callable[[], None] = lambda: None) -> list[object]:  # type: ignore[override]  # because of the short parameters
            if len(self.seen) >= after:
                raise failure
            return super().embed_passages(texts, pause)

    before = dump(synced)
    with pytest.raises(type(failure)):
        make_memory(Dying()).rebuild(drop_vectors=True)
    assert dump(synced) == before
    assert not list(database(synced).parent.glob("*beside*"))


def test_rebuild_for_a_model_that_is_not_to_be_had_keeps_the_space_that_answers(
    synced: Memory, settings: object, embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its vectors are in the cache: without them searches would go by words alone until the other model is there."""
    before = synced.status().space

    def unknown() -> FakeEmbedder:
        raise UnknownModel("no such model", hint="Name another.")

    monkeypatch.setattr(synced.models, "configured", unknown)
    report = synced.rebuild()
    assert [failure.path for failure in report.failed] == ["(model)"]
    assert (synced.status().space, synced.status().pending_vectors) == (before, 0)


def test_comparison_of_all_passages_is_bounded_told_of_and_can_be_interrupted(
    synced: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal passages are found in any case; of more passages than are compared, the longest are."""
    told: list[tuple[str, int, int]] = []
    monkeypatch.setattr("memsync.features.duplicates.MAX_COMPARED", 5)
    found = synced.duplicates(similarity=0.7, progress=lambda *step: told.append(step))
    whole = synced.duplicates(similarity=0.7, compare_all=True)
    assert found.left_out > 0
    assert whole.left_out == 0
    assert len(found.repetitions) < len(whole.repetitions)
    assert told[0] == ("comparing passages", 0, 5)

    def interrupt(what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        synced.duplicates(progress=interrupt)


def test_words_that_another_process_has_merged_are_no_damage(
    synced: Memory, write: Write, make_memory: MakeMemory
) -> None:
    """A connection that searched before does not compare the word index with the segments of that time."""
    other = make_memory()
    synced.search("heron")
    synced.index.check()
    for number in range(3):
        write("a.md", f"The heron nests {number} times.\n")
        other.sync()
        other.index.compact(bulk=True)
        synced.index.check()
    assert synced.index.take_damage() == ""
