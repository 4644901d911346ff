"""Sync: the index follows the files, and a text is embedded once in its life."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from memsync.memory import Memory
from memsync.model.vocabulary import NotePath
from memsync.notes.parse import NoteReader
from memsync.sync import indexer, workers
from tests.conftest import FakeEmbedder, MakeMemory, Patch, Write
from tests.support.backends import only_sqlite
from tests.support.index_checks import check_sound, dump

ONE = "# Birds\n\nThe heron nests in the alder.\n\n## Food\n\nIt eats eels and frogs.\n"
TWO = "# Boats\n\nThe ketch lies in the harbour.\n"


def git(folder: Path, *arguments: str) -> None:
    """Run git as nobody in particular."""
    who = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def new_texts(memory: Memory, embedder: FakeEmbedder) -> list[str]:
    """Sync and return what was embedded for it."""
    before = len(embedder.seen)
    memory.sync()
    return embedder.seen[before:]


@pytest.mark.smoke
def test_report_counts_what_was_added_changed_deleted_and_left_alone(memory: Memory, write: Write) -> None:
    """Each file is counted once, by what happened to it."""
    for name, text in [("a.md", ONE), ("b.md", TWO), ("c.md", "Old.\n"), ("d.md", "Same.\n")]:
        write(name, text)
    first = memory.sync()
    assert (first.added, first.changed, first.deleted, first.unchanged) == (4, 0, 0, 0)
    assert first.vectors_computed == memory.status().passages
    write("b.md", "Changed.\n")
    write("e.md", "New.\n")
    (memory.settings.root / "c.md").unlink()
    second = memory.sync()
    assert (second.added, second.changed, second.deleted, second.unchanged) == (1, 1, 1, 2)
    assert (second.vectors_computed, second.vectors_pending, second.failed) == (2, 0, ())


def test_sync_of_unchanged_files_changes_nothing(memory: Memory, write: Write, embedder: FakeEmbedder) -> None:
    """Touched or not: equal bytes are neither indexed nor embedded again."""
    write("a.md", ONE)
    memory.sync()
    before = dump(memory)
    os.utime(memory.settings.root / "a.md", (1, 1))
    assert new_texts(memory, embedder) == []
    assert dump(memory) == before


def test_rename_and_copy_embed_nothing(memory: Memory, write: Write, root: Path, embedder: FakeEmbedder) -> None:
    """A passage is its text; where it stands, and how often, is another matter."""
    write("a.md", ONE)
    memory.sync()
    (root / "a.md").rename(root / "renamed.md")
    assert new_texts(memory, embedder) == []
    assert [hit.path for hit in memory.search("heron", mode="keyword").hits] == ["renamed.md"]
    shutil.copy(root / "renamed.md", root / "copy.md")
    assert new_texts(memory, embedder) == []
    (hit,) = memory.search("heron", mode="keyword").hits
    assert {place.partition(":")[0] for place in (hit.citation, *hit.also)} == {"renamed.md", "copy.md"}


def test_lines_inserted_above_embed_only_themselves(memory: Memory, write: Write, embedder: FakeEmbedder) -> None:
    """What moved down is known by its text and found at its new line."""
    write("a.md", ONE)
    memory.sync()
    write("a.md", "# Stones\n\nBasalt is dark.\n\n" + ONE)
    texts = new_texts(memory, embedder)
    assert texts
    assert all("Basalt" in text for text in texts)
    assert [hit.citation for hit in memory.search("frogs", limit=1, mode="keyword").hits] == ["a.md:9-11"]


@only_sqlite
def test_git_checkout_back_and_forth_embeds_nothing_twice(
    memory: Memory, write: Write, root: Path, embedder: FakeEmbedder
) -> None:
    """The vectors of a branch that was left stay in the cache."""
    git(root, "init")
    for name in ("a.md", "b.md", "sub/c.md"):
        write(name, ONE + f"\n## Only in {name}\n\nWord{name[-4]}.\n")
    git(root, "add", ".")
    git(root, "commit", "-m", "main")
    memory.sync()
    git(root, "checkout", "-b", "other")
    write("a.md", TWO)
    (root / "b.md").unlink()
    git(root, "commit", "-a", "-m", "other")
    texts = new_texts(memory, embedder)
    assert texts
    assert all("ketch" in text for text in texts)
    on_other = dump(memory)
    git(root, "checkout", "main")
    assert new_texts(memory, embedder) == []
    git(root, "checkout", "other")
    assert new_texts(memory, embedder) == []
    assert dump(memory) == on_other
    assert len(embedder.seen) == len(set(embedder.seen))


def test_same_size_edit_with_mtime_restored_is_noticed(memory: Memory, write: Write, monkeypatch: Patch) -> None:
    """An old mtime and an equal size hide nothing: the ctime tells."""
    path = write("a.md", "The store is SQLite.\n")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    with monkeypatch.context() as later:  # stamps that are trusted, not read again for their youth
        later.setattr("memsync.notes.files.clock.time_ns", lambda: path.stat().st_ctime_ns + 60_000_000_000)
        memory.sync()
    path.write_text("The store is Pascal.\n")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert [hit.text for hit in memory.search("Pascal").hits] == ["The store is Pascal."]
    assert memory.search("SQLite", mode="keyword").hits == ()


def test_emptied_root_empties_the_index(memory: Memory, write: Write, root: Path) -> None:
    """The same folder without its notes: they were deleted by somebody."""
    write("a.md", ONE)
    write("b.md", TWO)
    memory.sync()
    for name in ("a.md", "b.md"):
        (root / name).unlink()
    assert memory.sync().deleted == 2
    assert memory.status().notes == 0
    check_sound(memory)


def test_progress_tells_of_notes_and_vectors(memory: Memory, write: Write) -> None:
    """Each stage ends with all of its work done."""
    write("a.md", ONE)
    write("b.md", TWO)
    calls: list[tuple[str, int, int]] = []
    report = memory.sync(progress=lambda *call: calls.append(call))
    assert ("reading notes", 2, 2) in calls
    assert calls[-1] == ("computing vectors", report.vectors_computed, report.vectors_computed)


def test_two_open_memories_see_each_others_work(make_memory: MakeMemory, write: Write, embedder: FakeEmbedder) -> None:
    """What one process indexed, another neither indexes nor embeds again."""
    first, second = make_memory(), make_memory()
    write("a.md", ONE)
    first.sync()
    seen = len(embedder.seen)
    report = second.sync()
    assert (report.added, report.changed, report.unchanged) == (0, 0, 1)
    assert len(embedder.seen) == seen
    assert [hit.path for hit in second.search("heron", mode="keyword").hits] == ["a.md"]


def test_small_notes_do_not_wait_for_a_large_one(memory: Memory, write: Write, monkeypatch: Patch) -> None:
    """What takes long to parse comes last, and what was read before it is committed first."""
    write("a-large.md", "The heron nests.\n\n" * 90)
    write("b-small.md", "The quokka smiles.\n")
    seen: list[list[str]] = []
    read = NoteReader.read

    def reading(reader: NoteReader, path: NotePath, content: bytes) -> Any:
        if path == "a-large.md" and not seen:
            seen.append([hit.path for hit in memory.search("quokka", mode="keyword", fresh="none").hits])
        return read(reader, path, content)

    monkeypatch.setattr(workers, "LARGE_BYTES", 10**9)  # so that this process reads it
    monkeypatch.setattr(indexer, "LARGE_BYTES", 1_000)
    monkeypatch.setattr(NoteReader, "read", reading)
    memory.sync()
    assert seen == [["b-small.md"]]
