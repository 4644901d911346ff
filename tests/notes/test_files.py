"""The walk over a memory root: what is found, what is reported, and what is only unknown."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from memsync.errors import RootError
from memsync.memory import Memory
from memsync.model.vocabulary import NotePath
from memsync.notes.files import FileScan, NoteFiles
from tests.conftest import Patch, Write
from tests.support.stand_ins import beforehand


def scan(root: Path) -> FileScan:
    return NoteFiles(root).scan()


def test_walk_finds_every_note_at_every_depth(root: Path, write: Write) -> None:
    """Paths are relative to the root, with forward slashes; a folder may be named like a note."""
    deep = "/".join(["d"] * 60)
    for name in ("a.md", "b/c.md", f"{deep}/e.md", "folder.md/f.md"):
        write(name, "text")
    assert sorted(scan(root).files) == sorted(["a.md", "b/c.md", f"{deep}/e.md", "folder.md/f.md"])


def test_identity_is_what_stat_says(root: Path, write: Write) -> None:
    """Size, mtime, ctime and inode; the scan and a single look agree."""
    info = write("a.md", "text").stat()
    identity = (4, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)
    assert scan(root).files == {"a.md": identity}
    assert NoteFiles(root).identity(NotePath("a.md")) == identity


@pytest.mark.parametrize("path", ["gone.md", "folder", "link.md", "nul\0.md", "x" * 300])
def test_what_is_no_regular_file_has_no_identity(path: str, root: Path, write: Write) -> None:
    """Gone, a folder, a link, or no name at all."""
    write("folder/a.md", "text")
    (root / "link.md").symlink_to("folder/a.md")
    assert NoteFiles(root).identity(NotePath(path)) is None


@pytest.mark.parametrize("change", ["none", "touched", "new", "gone", "excluded", "folder gone", "link", "moved"])
def test_a_scan_that_knows_the_files_finds_the_same_as_one_that_does_not(change: str, root: Path, write: Write) -> None:
    """Files that are as known are only counted, but each change among them is still found."""
    for name in ("a.md", "b/c.md", "b/d.md"):
        write(name, "text")
    known = scan(root).files
    a, c, d = root / "a.md", root / "b/c.md", root / "b/d.md"
    changes: dict[str, Sequence[Callable[[], object]]] = {
        "none": (),
        "touched": (lambda: write("b/c.md", "other text"),),
        "new": (lambda: write("b/e.md", "text"), c.unlink),
        "gone": (a.unlink,),
        "excluded": (lambda: write("b/.gitignore", "c.md"),),
        "folder gone": (lambda: c.parent.rename(root / ".b"),),
        "link": (a.unlink, lambda: a.symlink_to("b/c.md")),
        "moved": (lambda: c.rename(d),),
    }
    for make in changes[change]:
        make()
    found, anew = NoteFiles(root).scan(known=known), scan(root)
    assert (found.files, found.links, found.left_out) == (anew.files, anew.links, anew.left_out)
    differing = {path for path, identity in anew.files.items() if known.get(path) != identity}
    assert set(found.changed) == (set(anew.files) if known.keys() - anew.files.keys() else differing)


# ---------------------------------------------------------------------------------------------- names

NAMES = [
    "caf\u00e9.md", "cafe\u0301.md", "Note.md", "note.md", "two words.md", " lead and trail .md", "new\nline.md",
    "tab\t.md", "quote\"'.md", "back\\slash.md", "-dash.md", "😀.md", "漢字/größe.md", "*.md", "a" * 252 + ".md",
]  # fmt: skip


def test_odd_names_are_notes_of_their_own(root: Path, write: Write, memory: Memory) -> None:
    """Two forms of one letter, two cases, spaces, line breaks, emoji, 255 bytes: each is found under its own name."""
    for number, name in enumerate(NAMES):
        write(name, f"heron{number}\n")
    if sum(len(names) for _, _, names in os.walk(root)) < len(NAMES):
        pytest.skip("needs a file system that tells case and Unicode forms apart; set TMPDIR to a folder on one")
    assert sorted(scan(root).files) == sorted(NAMES)
    assert memory.sync().failed == ()
    for number, name in enumerate(NAMES):
        assert [hit.path for hit in memory.search(f"heron{number}").hits][:1] == [name]


def test_name_that_is_not_utf8_is_reported(root: Path, write: Write, memory: Memory) -> None:
    """It cannot be stored or shown; the report says which file to rename, all others are indexed."""
    write("a.md", "text")
    (root / os.fsdecode(b"caf\xe9.md")).write_text("text")
    folder = root / os.fsdecode(b"f\xe9")
    folder.mkdir()
    (folder / "b.md").write_text("text")
    report = memory.sync()
    assert sorted(failure.path for failure in report.failed) == ['"caf\\udce9.md"', '"f\\udce9/b.md"']
    assert {failure.reason for failure in report.failed} == {"name is not valid UTF-8: rename the file"}
    assert report.added == 1


# ------------------------------------------------------------------------------------- not regular files


def test_symbolic_links_are_not_followed(root: Path, write: Write, tmp_path: Path) -> None:
    """To a file, to a folder, to the root itself, or to nothing."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("text")
    write("a.md", "text")
    (root / "file.md").symlink_to(outside / "secret.md")
    (root / "inside.md").symlink_to("a.md")
    (root / "folder").symlink_to(outside)
    (root / "folder.md").symlink_to(outside)
    (root / "loop").symlink_to(root)
    (root / "dangling.md").symlink_to("gone.md")
    found = scan(root)
    assert (list(found.files), found.failures) == (["a.md"], [])


def test_root_may_be_a_symbolic_link(root: Path, write: Write, tmp_path: Path) -> None:
    """The user named it; only links beneath it are not followed."""
    write("a.md", "text")
    (tmp_path / "link").symlink_to(root)
    assert list(scan(tmp_path / "link").files) == ["a.md"]
    assert NoteFiles(tmp_path / "link").read(NotePath("a.md"))[0] == b"text"


def test_fifo_and_socket_named_like_notes_are_no_notes(root: Path, monkeypatch: Patch) -> None:
    """The scan does not open them, so nothing can block."""
    os.mkfifo(root / "fifo.md")
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.md")
        found = scan(root)
    assert (found.files, found.failures) == ({}, [])


# ------------------------------------------------------------------------------------------- unreadable


def refuse(monkeypatch: Patch, name: str, error: int) -> None:
    """Let `scandir` fail for folders of this name; tests may run as root, whom no permission stops."""

    def fail(path: str) -> None:
        if Path(path).name == name:
            raise OSError(error, os.strerror(error))

    beforehand(monkeypatch, os, "scandir", fail)


@pytest.mark.parametrize("error", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_folder_that_cannot_be_read_is_reported_and_unknown(
    error: int, root: Path, write: Write, monkeypatch: Patch
) -> None:
    """Unknown is not gone: what was indexed beneath it stays."""
    for name in ("a.md", "shut/b.md", "shut/in/c.md", "shutter/d.md"):
        write(name, "text")
    refuse(monkeypatch, "shut", error)
    found = scan(root)
    assert sorted(found.files) == ["a.md", "shutter/d.md"]
    assert [failure.path for failure in found.failures] == ["shut/"]
    assert [found.is_unknown(NotePath(path)) for path in ("shut/b.md", "shut/in/c.md", "shutter/d.md")] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("error", [errno.ENOENT, errno.ENOTDIR])
def test_folder_that_vanishes_during_the_walk_is_gone(error: int, root: Path, write: Write, monkeypatch: Patch) -> None:
    """Nothing is to be told of it."""
    write("a.md", "text")
    write("gone/b.md", "text")
    refuse(monkeypatch, "gone", error)
    found = scan(root)
    assert (list(found.files), found.failures, found.unreadable_folders) == (["a.md"], [], [])


class Entry:
    """A directory entry whose `stat` fails."""

    def __init__(self, name: str, error: int) -> None:
        self.name = name
        self._error = error

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        raise OSError(self._error, os.strerror(self._error))


@pytest.mark.parametrize(("error", "reported"), [(errno.EACCES, ["a.md"]), (errno.ENOENT, [])])
def test_file_that_cannot_be_looked_at_is_reported_unless_it_has_gone(
    error: int, reported: list[str], root: Path, monkeypatch: Patch
) -> None:
    """A file that vanishes between listing and stat is no failure."""
    entries: list[Any] = [Entry("a.md", error)]
    monkeypatch.setattr(os, "scandir", lambda path: iter(entries))
    found = scan(root)
    assert found.files == {}
    assert [failure.path for failure in found.failures] == reported
    assert found.is_unknown(NotePath("a.md")) is bool(reported)


@pytest.mark.parametrize(("error", "word"), [(errno.EACCES, "permissions"), (errno.ENOENT, "init")])
def test_root_that_cannot_be_listed_is_an_error(error: int, word: str, root: Path, monkeypatch: Patch) -> None:
    """Never an empty scan, which would look like a deletion of everything."""
    refuse(monkeypatch, root.name, error)
    # `scan` joins the root and an empty folder name, so the path that is listed ends in a slash.
    with pytest.raises(RootError) as raised:
        scan(root)
    assert word in raised.value.hint


def test_root_that_is_a_file_or_missing_has_no_identity(root: Path, write: Write) -> None:
    """Both are errors that say what to do."""
    for path in (write("a.md", "text"), root / "missing"):
        with pytest.raises(RootError) as raised:
            NoteFiles(path).root_identity()
        assert raised.value.hint
