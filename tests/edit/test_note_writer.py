"""A note is appended to in one write or swapped whole: old or new, whatever else happens to the file meanwhile."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest

from memsync.edit import append as append_module
from memsync.edit import note_file
from memsync.edit.addition import Addition
from memsync.edit.note_paths import move, note_path
from memsync.edit.note_writer import NoteWriter
from memsync.errors import FilesystemError, UsageError, WriteRefused
from memsync.model.vocabulary import NotePath
from memsync.system import renames
from memsync.system.state_file import state_of_root

LOG = NotePath("daily/2026-11-21.md")
NEXT = Addition("- next")


@pytest.fixture
def writer(root: Path, tmp_path: Path) -> NoteWriter:
    return NoteWriter(root, state_of_root(tmp_path / "keep"))


def put(root: Path, content: bytes, path: str = LOG) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (b"- one\n", b"- one\n- next\n", 2),
        (b"- one", b"- one\n- next\n", 2),
        (b"- one\r\n- two", b"- one\r\n- two\r\n- next\r\n", 3),
        (b"words\n", b"words\n\n- next\n", 3),
        (b"words\n\n", b"words\n\n- next\n", 3),
        (b"- one\n  more\n", b"- one\n  more\n- next\n", 3),
        (b"", b"- next\n", 1),
        (b"```\ncode\n", b"```\ncode\n```\n\n- next\n", 5),
        (b"<!-- draft\n", b"<!-- draft\n-->\n\n- next\n", 4),
        (b"caf\xe9\n", b"caf\xe9\n\n- next\n", 3),
    ],
)
def test_append_is_joined_as_a_person_would(
    writer: NoteWriter, root: Path, before: bytes, after: bytes, line: int
) -> None:
    """On a line of its own, ended as the note's lines are, out of what is left open; twice gives two of it."""
    file = put(root, before)
    assert writer.append(LOG, NEXT).line == line
    assert file.read_bytes() == after
    newline = b"\r\n" if b"\r\n" in before else b"\n"
    assert writer.append(LOG, NEXT).line == line + 1
    assert file.read_bytes() == after + b"- next" + newline


@pytest.mark.smoke
def test_new_note_is_made_with_its_head_and_its_folders(writer: NoteWriter, root: Path) -> None:
    """As one file that is whole from the first moment on."""
    done = writer.append(NotePath("a/b/c.md"), NEXT, head="# C\n")
    assert (root / "a/b/c.md").read_text() == "# C\n\n- next\n"
    assert done.line == 3
    assert os.listdir(root / "a/b") == ["c.md"]


def test_mode_is_kept_and_nothing_is_left_beside_a_swapped_note(writer: NoteWriter, root: Path) -> None:
    """A private note stays private."""
    file = put(root, b"one\r\ntwo \xff\r\n")
    file.chmod(0o640)
    done = writer.rewrite(LOG, lambda text: text.replace("two", "three"))
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"one\r\nthree \xff\r\n", 0o640)
    assert done.line == 2
    assert os.listdir(file.parent) == [file.name]


ACL = struct.pack("<I" + "HHI" * 5, 2, 1, 6, 2**32 - 1, 2, 4, 1234, 4, 4, 2**32 - 1, 16, 4, 2**32 - 1, 32, 0, 2**32 - 1)
"""Version 2: the owner may read and write, the user 1234 and the group may read."""


@pytest.mark.skipif(not hasattr(os, "listxattr"), reason="Python reaches extended attributes on Linux only")
def test_extended_attributes_and_acl_are_kept(writer: NoteWriter, root: Path) -> None:
    """A rewrite makes a new file: it is as private as the old one, and has the same labels."""
    file = put(root, b"one\n")
    attributes = {"user.label": b"secret", "system.posix_acl_access": ACL}
    try:
        for name, value in attributes.items():
            os.setxattr(file, name, value)
    except OSError:
        pytest.skip("this file system has no extended attributes")
    mode = file.stat().st_mode
    writer.rewrite(LOG, lambda text: text + "two\n")
    assert {name: os.getxattr(file, name) for name in os.listxattr(file)} == attributes
    assert file.stat().st_mode == mode
    os.removexattr(file, "system.posix_acl_access")
    os.setxattr(file.parent, "system.posix_acl_default", ACL)  # of new files, but this is no new one
    writer.rewrite(LOG, lambda text: text + "three\n")
    assert os.listxattr(file) == ["user.label"]


@pytest.mark.parametrize("mode", [0o444, 0o400, 0o000])
def test_read_only_note_is_refused(writer: NoteWriter, root: Path, mode: int) -> None:
    """By an append, a rewrite and a move, for root too, which the system lets write."""
    file = put(root, b"one\n")
    file.chmod(mode)
    for change in (
        lambda: writer.append(LOG, NEXT),
        lambda: writer.rewrite(LOG, str.upper),
        lambda: move(root, LOG, NotePath("archive/a.md")),
    ):
        with pytest.raises(WriteRefused):
            change()
    file.chmod(0o644)
    assert file.read_bytes() == b"one\n"
    assert list(root.rglob("*.md")) == [file]


def test_what_a_killed_writer_left_aside_is_removed_later(
    writer: NoteWriter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at once, and nothing else that is hidden."""
    file = put(root, b"one\n")
    for name in (".memsync-1-18ea.tmp", ".memsync-notes"):
        file.with_name(name).write_text("two\n")
    writer.rewrite(LOG, lambda text: text + "three\n")
    assert len(os.listdir(file.parent)) == 3
    monkeypatch.setattr(note_file, "LEFTOVER_SECONDS", -1)
    writer.rewrite(LOG, lambda text: text + "four\n")
    assert sorted(os.listdir(file.parent)) == [".memsync-notes", file.name]


def test_rewrite_is_asked_again_when_the_note_changed_meanwhile(writer: NoteWriter, root: Path) -> None:
    """The edit is made of what is there then, and nobody's line is lost."""
    file = put(root, b"one\n")
    seen: list[str] = []

    def edit(text: str) -> str:
        seen.append(text)
        if len(seen) == 1:
            file.write_text("one\ntwo\n")
        return text.replace("one", "1")

    writer.rewrite(LOG, edit)
    assert seen == ["one\n", "one\ntwo\n"]
    assert file.read_text() == "1\ntwo\n"


def test_version_that_came_in_the_last_moment_is_put_back(
    writer: NoteWriter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the last look and the swap, too: the two files are exchanged, looked at, and exchanged back."""
    file = put(root, b"one\n")
    real = renames.exchange
    rushed: list[str] = []

    def exchange(folder: int, one: str, other: str) -> bool:
        if not rushed:
            rushed.append(one)
            file.write_text("one\ntwo\n")
        return real(folder, one, other)

    monkeypatch.setattr("memsync.edit.note_file.exchange", exchange)
    writer.rewrite(LOG, lambda text: text.replace("one", "1"))
    assert file.read_text() == "1\ntwo\n"
    assert os.listdir(file.parent) == [file.name]


def test_append_to_a_file_that_loses_its_name_goes_to_the_one_that_got_it(
    writer: NoteWriter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor saves by renaming while the text is written: it stands in the file that is there now."""
    file = put(root, b"- one\n")
    real = note_file.append
    rushed: list[int] = []

    def append(descriptor: int, path: NotePath, content: bytes, size: int) -> None:
        if not rushed:
            rushed.append(size)
            put(root, b"- one, edited\n", "daily/.save.tmp").rename(file)
        real(descriptor, path, content, size)

    monkeypatch.setattr(note_file, "append", append)
    writer.append(LOG, NEXT)
    assert file.read_text() == "- one, edited\n- next\n"


# ------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"<<<<<<< HEAD\none\n=======\ntwo\n>>>>>>> other\n", "conflict markers"),
        ("one\n".encode("utf-16"), "UTF-16"),
        (bytes(range(32)) * 20, "not a text file"),
    ],
)
def test_what_must_not_be_written_is_refused_and_left(
    writer: NoteWriter, root: Path, content: bytes, reason: str
) -> None:
    """Neither appended to nor swapped."""
    file = put(root, content)
    with pytest.raises(WriteRefused, match=reason):
        writer.append(LOG, NEXT)
    with pytest.raises(WriteRefused, match=reason):
        writer.rewrite(LOG, lambda text: text + "x")
    assert file.read_bytes() == content


def link_note(file: Path) -> None:
    file.with_name("other.md").write_text("x\n")
    file.symlink_to("other.md")


def link_folder(file: Path) -> None:
    elsewhere = file.parent.with_name("elsewhere")
    elsewhere.mkdir()
    (elsewhere / file.name).write_text("x\n")
    file.parent.rmdir()
    file.parent.symlink_to(elsewhere)


def hard_link(file: Path) -> None:
    file.write_text("x\n")
    os.link(file, file.with_name("other.md"))


def pipe(file: Path) -> None:
    os.mkfifo(file)


@pytest.mark.parametrize("make", [link_note, link_folder, hard_link, pipe, Path.mkdir])
def test_what_only_looks_like_a_note_of_this_root_is_refused(
    writer: NoteWriter, root: Path, make: Callable[[Path], None]
) -> None:
    """Links lead elsewhere, and a pipe would wait for ever."""
    (root / "daily").mkdir()
    make(root / LOG)
    with pytest.raises(WriteRefused):
        writer.append(LOG, NEXT)
    with pytest.raises(WriteRefused):
        writer.rewrite(LOG, lambda text: text + "x")
    assert {file.read_text() for file in root.rglob("*.md") if file.is_file()} <= {"x\n"}


@pytest.mark.parametrize(
    "name", ["../x.md", "/etc/x.md", "a/../x", "", "a//b.md", ".hidden.md", "a/.git/x", "x\0y", "x\ny", "é" * 200]
)
def test_path_that_is_no_notes_is_refused(name: str) -> None:
    """Before anything is opened."""
    with pytest.raises(UsageError):
        note_path(name)


@pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="only Linux tells whether a file is open for writing")
def test_note_that_a_program_holds_open_is_not_replaced(
    writer: NoteWriter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A logger would go on writing to the old file, which has no name any more. An append is no replacement."""
    monkeypatch.setattr(append_module, "TRY_SECONDS", 0.1)
    file = put(root, b"- one\n")
    with file.open("a") as logger:
        with pytest.raises(WriteRefused, match="open for writing"):
            writer.rewrite(LOG, str.upper)
        writer.append(LOG, NEXT)
        print("- late", file=logger)
    writer.rewrite(LOG, str.upper)
    assert file.read_text() == "- ONE\n- NEXT\n- LATE\n"
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="only Linux tells whether a file is open for writing")
def test_note_that_a_program_opens_in_the_last_moment_is_put_back(
    writer: NoteWriter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the two files exchange their names: what the program writes is in the note at the end."""
    file = put(root, b"- one\n")
    loggers: list[TextIO] = []
    real = renames.exchange

    def exchange(folder: int, one: str, other: str) -> bool:
        if not loggers:
            loggers.append(file.open("a"))
        elif not loggers[0].closed:  # the exchange back: the program goes on
            done = real(folder, one, other)
            with loggers[0] as logger:
                print("- late", file=logger)
            return done
        return real(folder, one, other)

    monkeypatch.setattr("memsync.edit.note_file.exchange", exchange)
    writer.rewrite(LOG, str.upper)
    assert file.read_text() == "- ONE\n- LATE\n"


# ------------------------------------------------------------------------------------------ full disk


class FullDisk:
    """Stands in for `os` where a disk has room for so many more bytes."""

    def __init__(self, room: int, *, sync_fails: bool = False) -> None:
        self.room = room
        self.sync_fails = sync_fails

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def write(self, descriptor: int, content: bytes) -> int:
        part = bytes(content)[: self.room]
        if not part and content:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= len(part)
        return os.write(descriptor, part)

    def fsync(self, descriptor: int) -> None:
        if self.sync_fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fsync(descriptor)


@pytest.mark.parametrize("there", [True, False], ids=["append", "new note"])
def test_disk_that_fills_up_within_an_append_leaves_the_old_note(
    writer: NoteWriter, root: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """At every byte of it; the text is not looked for afterwards, because whoever wrote it was told."""
    before = b"- one\n"
    if there:
        put(root, before)
    for room in range(len("- next\n")):
        monkeypatch.setattr(note_file, "os", FullDisk(room))
        with pytest.raises(FilesystemError, match="No space left"):
            writer.append(LOG, NEXT)
        assert [file.read_bytes() for file in (root / "daily").iterdir()] == ([before] if there else [])
    monkeypatch.setattr(note_file, "os", FullDisk(100, sync_fails=True))
    with pytest.raises(FilesystemError, match="Input/output"):
        writer.append(LOG, NEXT)
    monkeypatch.undo()
    assert writer.journal.since(0) == []
    writer.append(LOG, NEXT)
    assert (root / LOG).read_bytes() == (before if there else b"") + b"- next\n"


def test_disk_that_fills_up_within_a_rewrite_leaves_the_old_note(
    writer: NoteWriter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every byte of the new version, which is written aside."""
    file = put(root, b"- one\n")
    for room in range(len("- 1\n")):
        monkeypatch.setattr(note_file, "os", FullDisk(room))
        with pytest.raises(FilesystemError, match="No space left"):
            writer.rewrite(LOG, lambda text: text.replace("one", "1"))
        assert [one.read_bytes() for one in (root / "daily").iterdir()] == [b"- one\n"]
    monkeypatch.undo()
    writer.rewrite(LOG, lambda text: text.replace("one", "1"))
    assert file.read_bytes() == b"- 1\n"


def test_full_disk_is_not_cut_back_over_what_another_wrote(
    writer: NoteWriter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's line behind half of ours stays, and so does our half."""
    file = put(root, b"- one\n")

    class Crowded(FullDisk):
        def write(self, descriptor: int, content: bytes) -> int:
            done = super().write(descriptor, content)
            with file.open("ab") as other:
                other.write(b"\n- theirs\n")
            return done

    monkeypatch.setattr(note_file, "os", Crowded(3))
    with pytest.raises(FilesystemError):
        writer.append(LOG, NEXT)
    assert file.read_bytes() == b"- one\n- n\n- theirs\n"


@pytest.mark.parametrize("theirs", [b"- theirs\n", b"- theirs"])
def test_plain_append_of_another_program_between_open_and_write_is_kept(
    writer: NoteWriter, root: Path, monkeypatch: pytest.MonkeyPatch, theirs: bytes
) -> None:
    """`echo >> note` takes no lock: nothing of theirs is lost, and ours is joined to it as it is at the next append."""
    file = put(root, b"- one\n")
    real = note_file.append

    def append_after_them(descriptor: int, path: NotePath, content: bytes, size: int) -> None:
        with file.open("ab") as other:
            other.write(theirs)
        monkeypatch.setattr(note_file, "append", real)
        real(descriptor, path, content, size)

    monkeypatch.setattr(note_file, "append", append_after_them)
    writer.append(LOG, NEXT)
    writer.append(LOG, Addition("- last"))
    assert file.read_bytes() == b"- one\n" + theirs + b"- next\n- last\n"


@pytest.mark.parametrize(("source", "target"), [("x" * 300 + ".md", "b.md"), ("a.md", "y" * 300 + ".md")])
def test_note_that_cannot_be_moved_is_named(root: Path, source: str, target: str) -> None:
    """It stays where it is."""
    (root / "a.md").write_text("heron\n")
    with pytest.raises(FilesystemError) as caught:
        move(root, NotePath(source), NotePath(target))
    assert source in caught.value.message
    assert (root / "a.md").read_text() == "heron\n"
