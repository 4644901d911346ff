"""Sync when files, folders or the clock do not behave: nothing is lost, everything is said."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsync.errors import NoteError, RootError
from memsync.memory import Memory
from memsync.model.vocabulary import NotePath
from memsync.notes.files import NoteFiles
from tests.conftest import Patch, Write
from tests.support.stand_ins import beforehand

BINARY = b"\x7fELF\x00\x01\x02\x03" * 400


def reads(monkeypatch: Patch, before: Callable[[str], None]) -> list[str]:
    """Call `before` with each path that is read, and return the list in which they are noted."""
    noted: list[str] = []
    beforehand(monkeypatch, NoteFiles, "read", lambda _, path: noted.append(path))
    beforehand(monkeypatch, NoteFiles, "read", lambda _, path: before(path))
    return noted


def test_unreadable_note_is_reported_and_stays_findable(memory: Memory, write: Write, monkeypatch: Patch) -> None:
    """Unreadable is not deleted: the last indexed state answers until the file can be read again."""
    write("a.md", "The heron nests in the alder.\n")
    write("b.md", "The ketch lies in the harbour.\n")
    memory.sync()
    write("a.md", "The stork nests on the chimney.\n")

    def deny(path: str) -> None:
        if path == "a.md":
            raise NoteError("a.md cannot be read: Permission denied")

    with monkeypatch.context() as denied:
        reads(denied, deny)
        report = memory.sync()
        assert [(failure.path, failure.reason) for failure in report.failed] == [
            ("a.md", "a.md cannot be read: Permission denied")
        ]
        assert (report.deleted, memory.status().notes) == (0, 2)
        result = memory.search("harbour")
        assert [hit.path for hit in result.hits][:1] == ["b.md"]
        assert any("Permission denied" in warning for warning in result.warnings)


def test_unreadable_folder_keeps_its_notes(memory: Memory, write: Write, monkeypatch: Patch) -> None:
    """A folder that cannot be listed is reported; what is known of its notes is kept."""
    write("sub/a.md", "The heron nests in the alder.\n")
    write("b.md", "Other.\n")
    memory.sync()

    def refuse(path: str) -> None:
        if path.rstrip("/").endswith("sub"):
            raise PermissionError(13, "Permission denied")

    beforehand(monkeypatch, os, "scandir", refuse)
    report = memory.sync()
    assert [failure.path for failure in report.failed] == ["sub/"]
    assert (report.deleted, memory.status().notes) == (0, 2)


def test_failed_file_is_tried_again_only_when_it_changes(memory: Memory, write: Write, monkeypatch: Patch) -> None:
    """The failure is told at every sync, the file read once a state; another process goes by the same memory."""
    write("image.md", BINARY)
    write("a.md", "Text.\n")
    assert [failure.path for failure in memory.sync().failed] == ["image.md"]
    noted = reads(monkeypatch, lambda path: None)
    assert [failure.path for failure in memory.sync().failed] == ["image.md"]
    assert [failure.path for failure in memory.status().failures] == ["image.md"]
    assert "image.md" not in noted
    write("image.md", "Now it is text about herons.\n")
    assert memory.sync().failed == ()
    assert noted.count("image.md") == 1
    assert memory.status().failures == ()


def test_failure_of_a_file_that_is_gone_is_forgotten(memory: Memory, write: Write) -> None:
    """What does not exist any more cannot be repaired."""
    write("image.md", BINARY).unlink()
    write("image.md", BINARY)
    memory.sync()
    (memory.settings.root / "image.md").unlink()
    assert memory.sync().failed == ()
    assert memory.status().failures == ()


def test_missing_root_is_an_error_and_deletes_nothing(memory: Memory, write: Write, root: Path) -> None:
    """A root that was renamed or unmounted says so; once back it is as it was."""
    write("a.md", "The heron nests in the alder.\n")
    memory.sync()
    away = root.rename(root.with_name("away"))
    for ask in (memory.sync, lambda: memory.search("heron"), memory.rebuild):
        with pytest.raises(RootError, match="does not exist"):
            ask()
    assert memory.status().notes == 1
    away.rename(root)
    assert [hit.path for hit in memory.search("heron").hits] == ["a.md"]


def test_file_that_changes_between_reading_and_commit_is_planned_again(
    memory: Memory, write: Write, monkeypatch: Patch
) -> None:
    """The stamp is checked inside the commit: what was read and is no longer true is not committed."""
    write("a.md", "The heron nests in the alder.\n")
    write("b.md", "Other, and longer than what that bird does.\n")
    changed: list[str] = []

    def change(_: NoteFiles, path: NotePath) -> None:
        if path == "a.md" and not changed:
            changed.append(path)
            write("a.md", "The stork nests on the chimney.\n")

    beforehand(monkeypatch, NoteFiles, "identity", change)
    noted = reads(monkeypatch, lambda path: None)
    report = memory.sync()
    assert report.added == 2
    assert noted[:4] == ["a.md", "b.md", "b.md", "a.md"]  # modified come before added
    assert memory.search("heron", mode="keyword").hits == ()
    assert [hit.text for hit in memory.search("stork", mode="keyword").hits] == ["The stork nests on the chimney."]


def test_file_that_vanishes_before_it_is_read_is_no_failure(
    memory: Memory, write: Write, root: Path, monkeypatch: Patch
) -> None:
    """Listed, then gone: the next look sees it is not there."""
    write("a.md", "Here.\n")
    write("b.md", "Gone.\n")
    reads(monkeypatch, lambda path: (root / "b.md").unlink(missing_ok=True))
    report = memory.sync()
    assert (report.added, report.failed, memory.status().notes) == (1, (), 1)


def test_file_that_comes_back_before_its_deletion_is_committed_stays(
    memory: Memory, write: Write, root: Path, monkeypatch: Patch
) -> None:
    """An editor that removes and writes anew: never a moment in which the note is gone from search."""
    write("a.md", "The heron nests in the alder.\n")
    memory.sync()
    (root / "a.md").unlink()
    beforehand(monkeypatch, NoteFiles, "identity", lambda *_: write("a.md", "The heron nests in the alder.\n"))
    report = memory.sync()
    assert (report.deleted, memory.status().notes) == (0, 1)


@pytest.mark.parametrize("year", [2262, 2999, 1600])
def test_file_of_a_day_that_no_database_holds_is_a_note_like_any(memory: Memory, write: Write, year: int) -> None:
    """Nanoseconds end in 2262; what is dated later is found, and changes are seen."""
    path = write("far.md", "A zebra.\n")
    moment = datetime(year, 12, 1, tzinfo=UTC).timestamp()
    os.utime(path, (moment, moment))
    assert [hit.path for hit in memory.search("zebra", mode="keyword").hits] == ["far.md"]
    path.write_text("A quagga.\n")
    os.utime(path, (moment, moment))
    assert memory.search("quagga", mode="keyword").hits
    assert memory.prune().due == ()
