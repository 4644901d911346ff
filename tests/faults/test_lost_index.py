"""An index damaged, too new, deleted or replaced: set aside, rebuilt or refused, never a silent empty answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from memsync.errors import EmbedderError, FilesystemError, IndexFailure, IndexTooNew
from memsync.index.sqlite import schema
from memsync.memory import Memory
from memsync.system import clock
from memsync.system.database_files import set_aside
from tests.conftest import FakeEmbedder, MakeMemory, Patch, Write
from tests.support.index_checks import assert_sound, database, dump, open_database
from tests.support.stand_ins import beforehand

PAGE = 4_096


@pytest.fixture
def synced(memory: Memory, write: Write) -> Memory:
    """Thirty notes, indexed."""
    for number in range(30):
        write(
            f"n{number:02}.md",
            f"# Note {number}\n\nThe heron nests in alder {number}. #bird\n\n- one\n- two {number}\n",
        )
    memory.sync()
    return memory


def answer(memory: Memory) -> list[str]:
    return [hit.citation for hit in memory.search("heron alder", mode="keyword", limit=50).hits]


def test_only_the_last_damaged_copies_are_kept(tmp_path: Path) -> None:
    """With their logs; a disk that damages the index every day does not fill up with copies of it."""
    path = tmp_path / "index.db"
    older = [f"index.db.damaged-2026111{day}T100000-1" for day in range(9)]
    for name in (*older, f"{older[0]}-wal", f"{older[8]}-wal", "index.db", "index.db.damaged", "other.db.damaged-1"):
        (tmp_path / name).write_bytes(b"x")
    aside = set_aside(path, path.stat().st_ino)
    assert aside is not None
    kept = {older[7], older[8], f"{older[8]}-wal", aside.name, "index.db.damaged", "other.db.damaged-1"}
    assert {one.name for one in tmp_path.iterdir()} == kept


@pytest.mark.parametrize("content", [b"this is no database\n" * 500, b"SQLite format 3\0" + b"\xff" * 8_000])
def test_garbage_instead_of_a_database_is_set_aside_and_rebuilt(
    synced: Memory, make_memory: MakeMemory, content: bytes
) -> None:
    """The file is kept under another name, the index filled from the notes, and the user told."""
    before = answer(synced)
    path = database(synced)
    synced.close()
    path.write_bytes(content)
    memory = make_memory()
    assert "set aside" in memory.status().failures[0].reason
    result = memory.search("heron alder", mode="keyword", limit=50)
    assert [hit.citation for hit in result.hits] == before
    assert any("set aside" in warning for warning in result.warnings)
    assert memory.sync().warnings == ()  # told once
    (aside,) = path.parent.glob("index.db.damaged-*")
    assert aside.read_bytes() == content
    assert memory.verify() is None
    assert_sound(path)


@pytest.mark.parametrize("kept", [0, 50, PAGE, 5 * PAGE + 17])
def test_truncated_database_answers_in_full_or_says_rebuild(synced: Memory, make_memory: MakeMemory, kept: int) -> None:
    """Cut at any place: either the same answer as before or an error that says what to do, which then helps."""
    before = answer(synced)
    path = database(synced)
    synced.close()
    os.truncate(path, kept)
    memory = make_memory()
    try:
        assert answer(memory) == before
    except IndexFailure as error:
        assert "memsync index rebuild" in error.hint
        memory.rebuild()
    assert answer(memory) == before
    assert memory.verify() is None
    assert_sound(path)


def test_index_of_a_later_version_is_refused_and_left_alone(synced: Memory, make_memory: MakeMemory) -> None:
    """Neither set aside nor written to."""
    path = database(synced)
    synced.close()
    connection = open_database(path)
    connection.pragma("user_version", 999)
    connection.close()
    content = path.read_bytes()
    with pytest.raises(IndexTooNew, match="999") as caught:
        make_memory()
    assert caught.value.hint
    assert path.read_bytes() == content


def test_database_deleted_under_an_open_memory_is_filled_again(synced: Memory, write: Write) -> None:
    """A deleted file would go on answering from beyond; what changed since is in the answer."""
    before = answer(synced)
    database(synced).unlink()
    write("new.md", "The heron fishes.\n")
    result = synced.search("heron alder", mode="keyword", limit=50)
    assert {hit.citation for hit in result.hits} == {*before, "new.md:1"}
    assert any("index was removed" in warning for warning in result.warnings)
    synced.sync()
    assert synced.verify() is None
    assert_sound(database(synced))


USE = """
import sys
from pathlib import Path
from memsync.index.sqlite.index import SqliteIndex

index = SqliteIndex(Path(sys.argv[1]))
for number in range(200):
    with index.writing() as writer:
        writer.set_meta(f"key {number}", "x" * 1_000)
with index.reading() as reader:
    print("open", flush=True)
    sys.stdin.readline()
"""


def test_database_deleted_while_another_process_has_it_open_is_begun_anew(
    synced: Memory, make_memory: MakeMemory
) -> None:
    """The log that the other process goes on using is not taken for that of the new database."""
    before = answer(synced)
    path = database(synced)
    synced.close()
    command = [sys.executable, "-c", USE, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        path.unlink()
        memory = make_memory()
        assert answer(memory) == before
        memory.sync()
        other.communicate("\n")
    assert other.returncode == 0
    assert memory.verify() is None
    assert_sound(path)


def test_index_folder_deleted_under_an_open_memory_is_made_again(synced: Memory) -> None:
    """All of the state directory may go at any time."""
    before = answer(synced)
    shutil.rmtree(database(synced).parent)
    assert answer(synced) == before
    assert_sound(database(synced))


def test_database_rebuilt_by_another_process_is_noticed(synced: Memory, make_memory: MakeMemory, write: Write) -> None:
    """The open one follows the path, not the file it once opened."""
    answer(synced)
    write("new.md", "The heron fishes.\n")
    make_memory().rebuild()
    assert "new.md:1" in answer(synced)
    write("newer.md", "The heron sleeps.\n")
    synced.sync()
    assert synced.verify() is None
    assert_sound(database(synced))


def test_thread_that_could_not_open_a_replaced_database_opens_it_later(
    synced: Memory, make_memory: MakeMemory, monkeypatch: Patch
) -> None:
    """As when a daemon has no file descriptor left for a moment: it must not fail until it is restarted."""
    before = answer(synced)
    make_memory().rebuild()

    def refuse(_: Path, *, readonly: bool = False) -> None:
        if readonly:
            raise apsw.CantOpenError("unable to open database file")

    with monkeypatch.context() as patched:
        beforehand(patched, schema, "connect", refuse)
        with pytest.raises(FilesystemError):
            synced.index.reading().__enter__()
    assert answer(synced) == before


def test_replaced_database_with_as_many_commits_is_not_mistaken_for_the_old_one(
    synced: Memory, make_memory: MakeMemory, root: Path, monkeypatch: Patch
) -> None:
    """What was cached of the one that was replaced is not believed of the other, however alike they look."""
    now = clock.time_ns()  # stamps of a minute later are trusted: nothing is read again for its youth
    monkeypatch.setattr("memsync.notes.files.clock.time_ns", lambda: now + 60_000_000_000)
    notes = root / "sub"  # a file keeps its stamp when the folder above it comes and goes
    notes.mkdir()
    shutil.move(root / "n00.md", notes / "n00.md")
    synced.sync()
    before = [answer(synced) for _ in range(3)][-1]
    commits = commits_of(synced)
    notes.rename(root.with_name("away"))
    database(synced).unlink()
    with make_memory() as other:
        other.syncer.refresh()
        while commits_of(other) < commits:
            with other.index.writing():
                pass
        assert commits_of(other) != commits
    root.with_name("away").rename(notes)
    assert answer(synced) == before


def commits_of(memory: Memory) -> int:
    with memory.index.reading() as reader:
        return reader.generation()


def test_rebuild_keeps_vectors_unless_told_not_to(synced: Memory, embedder: FakeEmbedder) -> None:
    """The cache outlives the index; dropped, every text is embedded once more."""
    before, passages, seen = dump(synced), synced.status().passages, len(embedder.seen)
    report = synced.rebuild()
    assert (report.added, report.vectors_reused, len(embedder.seen)) == (30, passages, seen)
    report = synced.rebuild(drop_vectors=True)
    assert (report.vectors_computed, len(embedder.seen)) == (passages, seen + passages)
    assert dump(synced) == before
    assert_sound(database(synced))


def test_what_a_killed_rebuild_left_is_removed_by_the_next(synced: Memory) -> None:
    """Half an index under another name is of no use to anybody."""
    left = database(synced).with_name("index.db.beside")
    left.write_bytes(b"half")
    synced.rebuild()
    assert not left.exists()
    assert not list(left.parent.glob("*beside*"))


def test_rebuild_while_the_model_fails_keeps_the_vectors_there_are(synced: Memory, embedder: FakeEmbedder) -> None:
    """Cached vectors need no model."""
    embedder.fail = EmbedderError("down")
    report = synced.rebuild()
    assert (report.vectors_pending, report.failed) == (0, ())
