"""Opening and reading a note: beneath the root only, regular files only, and only a state that stood still."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from memsync.errors import NoteError, RootError
from memsync.model.vocabulary import NotePath
from memsync.notes import files as files_module
from memsync.notes.files import NoteFiles
from tests.conftest import Patch, Write
from tests.support.stand_ins import beforehand


@pytest.fixture
def files(root: Path) -> NoteFiles:
    return NoteFiles(root)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Return a file outside the root that no path may reach."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.md").write_text("secret")
    return folder / "secret.md"


def test_read_returns_bytes_and_the_stamp_they_were_read_under(files: NoteFiles, write: Write) -> None:
    """The stamp has the content's digest."""
    path = write("folder/a.md", b"text \xff\n")
    content, stamp = files.read(NotePath("folder/a.md"))
    assert content == b"text \xff\n"
    assert stamp.identity == files.identity(NotePath("folder/a.md"))
    assert stamp.digest == hashlib.sha256(path.read_bytes()).digest()
    assert stamp.stamped_ns >= stamp.mtime_ns


def test_empty_file_is_read(files: NoteFiles, write: Write) -> None:
    """A file of no bytes is a note."""
    write("a.md", "")
    assert files.read(NotePath("a.md"))[0] == b""


@pytest.mark.parametrize("path", ["gone.md", "no/folder.md"])
def test_missing_note_is_said_to_be_missing(path: str, files: NoteFiles) -> None:
    """So that the caller can tell it from one that cannot be read."""
    with pytest.raises(FileNotFoundError):
        files.read(NotePath(path))


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.md", "a/../../outside/secret.md", "a/../a.md", "./a.md", "a//a.md", "", ".", "..", "a.md/",
        "a\0.md",
    ],
)  # fmt: skip
def test_path_that_is_not_plainly_beneath_the_root_is_refused(
    path: str, files: NoteFiles, write: Write, secret: Path
) -> None:
    """Dots, empty parts and NUL are no part of a note's name."""
    write("a/a.md", "text")
    write("a.md", "text")
    with pytest.raises(NoteError, match="not a path in"):
        files.read(NotePath(path))


def test_absolute_path_is_refused(files: NoteFiles, secret: Path, write: Write) -> None:
    """Even one that lies beneath the root."""
    for path in (secret, write("a.md", "text")):
        with pytest.raises(NoteError, match="not a path in"):
            files.read(NotePath(str(path)))


@pytest.mark.parametrize("path", ["link.md", "folder/secret.md", "a/folder/secret.md"])
def test_symbolic_link_anywhere_on_the_way_is_refused(
    path: str, root: Path, files: NoteFiles, write: Write, secret: Path
) -> None:
    """The file itself, its folder, or a folder above that."""
    write("a/b.md", "text")
    (root / "link.md").symlink_to(secret)
    (root / "folder").symlink_to(secret.parent)
    (root / "a" / "folder").symlink_to(secret.parent)
    with pytest.raises(NoteError, match="symbolic link"):
        files.read(NotePath(path))


def test_folder_swapped_for_a_link_while_opening_does_not_lead_outside(
    root: Path, files: NoteFiles, write: Write, secret: Path, monkeypatch: Patch
) -> None:
    """Each folder is opened by the descriptor of the one before, so a late swap changes nothing."""
    write("folder/secret.md", "mine")
    real = os.open

    def swap_then_open(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        descriptor = real(path, flags, dir_fd=dir_fd)
        if path == "folder":
            (root / "folder").rename(root / "moved")
            (root / "folder").symlink_to(secret.parent)
        return descriptor

    monkeypatch.setattr(os, "open", swap_then_open)
    assert files.read(NotePath("folder/secret.md"))[0] == b"mine"


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_what_is_no_regular_file_is_refused_without_blocking(kind: str, root: Path, files: NoteFiles) -> None:
    """A FIFO without a writer would hang a plain open."""
    if kind == "fifo":
        os.mkfifo(root / "a.md")
    else:
        (root / "a.md").mkdir()
    with pytest.raises(NoteError, match="not a regular file"):
        files.read(NotePath("a.md"))


def test_permission_denied_is_a_note_error(files: NoteFiles, write: Write, monkeypatch: Patch) -> None:
    """The reason names the note, and it is not taken for missing."""
    write("a.md", "text")

    def refuse(path: str, *_: object, **__: object) -> None:
        if path == "a.md":
            raise PermissionError(errno.EACCES, "Permission denied")

    beforehand(monkeypatch, os, "open", refuse)
    with pytest.raises(NoteError, match=r"a\.md cannot be read: Permission denied"):
        files.read(NotePath("a.md"))


def test_name_too_long_for_the_file_system_is_a_note_error(files: NoteFiles) -> None:
    """Whoever asks for it gets an answer, not a crash."""
    with pytest.raises(NoteError, match="cannot be read"):
        files.read(NotePath("x" * 300 + ".md"))


def test_missing_root_is_a_root_error(tmp_path: Path) -> None:
    """Not a missing note."""
    with pytest.raises(RootError):
        NoteFiles(tmp_path / "gone").read(NotePath("a.md"))


def change_while_reading(monkeypatch: Patch, path: Path, times: int) -> None:
    """Append to `path` each of the first `times` times that its end has been read."""
    real, left = os.read, list(range(times))

    def read_then_change(descriptor: int, size: int) -> bytes:
        content = real(descriptor, size)
        if not content and left:
            left.pop()
            with path.open("ab") as stream:
                stream.write(b"more\n")
        return content

    monkeypatch.setattr(os, "read", read_then_change)


def test_file_that_changes_once_while_it_is_read_is_read_again(
    files: NoteFiles, write: Write, monkeypatch: Patch
) -> None:
    """Content and stamp are of one moment."""
    change_while_reading(monkeypatch, write("a.md", "text\n"), 1)
    content, stamp = files.read(NotePath("a.md"))
    assert content == b"text\nmore\n"
    assert (stamp.size, stamp.digest) == (10, hashlib.sha256(content).digest())


def test_file_that_keeps_changing_is_given_up_for_now(files: NoteFiles, write: Write, monkeypatch: Patch) -> None:
    """Half of one state and half of another is never returned."""
    change_while_reading(monkeypatch, write("a.md", "text\n"), 1_000)
    with pytest.raises(NoteError, match="keeps changing"):
        files.read(NotePath("a.md"))


def test_file_replaced_while_it_is_read_gives_the_opened_state(
    files: NoteFiles, write: Write, monkeypatch: Patch
) -> None:
    """An editor's rename leaves the opened file whole; its stamp is not that of the new one, which is read next."""
    path = write("a.md", "old")
    new = write("new.md", "new text")
    real = files.open

    def open_then_replace(name: NotePath) -> int:
        descriptor = real(name)
        new.rename(path)
        return descriptor

    monkeypatch.setattr(files, "open", open_then_replace)
    content, stamp = files.read(NotePath("a.md"))
    assert content == b"old"
    assert stamp.identity != files.identity(NotePath("a.md"))


def test_file_over_the_size_limit_is_refused_unread(files: NoteFiles, write: Write, monkeypatch: Patch) -> None:
    """No one's disk image named x.md fills the memory."""
    monkeypatch.setattr(files_module, "MAX_NOTE_BYTES", 10)
    write("a.md", "x" * 11)
    with pytest.raises(NoteError, match="is over"):
        files.read(NotePath("a.md"))


def test_read_leaves_no_descriptor_open(files: NoteFiles, write: Write, root: Path) -> None:
    """Whatever the outcome: ten thousand notes must not use up the process's files."""
    write("f/a.md", "text")
    (root / "f/link.md").symlink_to("a.md")
    (root / "f/d.md").mkdir()
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    for path in ("f/a.md", "f/link.md", "f/d.md", "f/gone.md", "g/a.md", "../x.md"):
        try:
            files.read(NotePath(path))
        except (NoteError, FileNotFoundError):
            continue
    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before
