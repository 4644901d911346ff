"""Where a note may be written: beneath the memory root, reached without following a link, by a name that is read."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from memsync.errors import FilesystemError, UsageError, WriteRefused
from memsync.model.text import printable
from memsync.model.vocabulary import NotePath
from memsync.notes.ignore import is_note_name

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_NAME_BYTES = 255
_OTHER_ENDING = re.compile(r"[^.]\.(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{1,10}$")


def note_path(text: str) -> NotePath:
    """Return a path, as a person or an agent writes it, as that of a note; `.md` is added. Raises UsageError."""
    path = text if is_note_name(text.rpartition("/")[2]) else f"{text}.md"
    parts = path.split("/")
    name_hint = "Write it as search results do: notes/topic.md"
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise UsageError(f"{text!r} is not a path beneath the memory root", hint=name_hint)
    if any(part.startswith(".") for part in parts) or not is_note_name(parts[-1]):
        raise UsageError(f"{text!r} is hidden or an editor's leftover, which is never read", hint=name_hint)
    if not path.isprintable() or printable(path) != path:
        raise UsageError(f"{text!r} has a character that cannot be shown", hint=name_hint)
    if any(len(os.fsencode(part)) > _MAX_NAME_BYTES for part in parts):
        raise UsageError(f"{text[:80]!r}… has a name of over {_MAX_NAME_BYTES} bytes", hint="Write a shorter one.")
    return NotePath(path)


def new_note_path(text: str) -> NotePath:
    """Return the path of a note that is to be made, as `note_path`, if a scan would find it. Raises UsageError.

    A name with another file's ending is refused: who writes `list.txt` does not ask for `list.txt.md`.
    """
    folder, slash, name = text.rpartition("/")
    if not text.strip():
        raise UsageError("a note needs a name", hint="Write it as notes/topic.md")
    if not name:
        raise UsageError(f"{text!r} is a folder", hint="Name a note in it: notes/topic.md")
    if name in (".", ".."):
        raise UsageError(f"{text!r} is not a path beneath the memory root", hint="Write it as notes/topic.md")
    if not is_note_name(name) and _OTHER_ENDING.search(name) and not name.startswith("."):
        stem = name.rpartition(".")[0]
        raise UsageError(
            f"Not a Markdown note: {text!r}", hint=f"Write {folder}{slash}{stem}.md, or {folder}{slash}{name}.md"
        )
    path = note_path(text)
    if not path.rpartition("/")[2].rpartition(".")[0].strip():
        raise UsageError(f"{text!r} names no note", hint="Write it as notes/topic.md")
    return path


def numbered(path: NotePath) -> Iterator[NotePath]:
    """Yield a path, and then the same with a number: a.md, a-2.md, a-3.md."""
    stem, dot, suffix = path.rpartition(".")
    yield path
    for number in count(2):
        yield NotePath(f"{stem}-{number}{dot}{suffix}")


@contextmanager
def folder_of(root: Path, path: NotePath, *, create: bool = False) -> Iterator[int]:
    """Yield a descriptor of the folder that `path` lies in, made with those above it if it is to be.

    Raises FileNotFoundError, WriteRefused where a link or a file is in the way, or the path leads elsewhere,
    FilesystemError.
    """
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise WriteRefused(f"{path} is not a path beneath the memory root", hint="Name a note as search results do.")
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise FilesystemError(
            f"the memory root {root} cannot be opened: {error.strerror}", hint="Check that it is there."
        ) from error
    try:
        folders = path.split("/")[:-1]
        for depth, part in enumerate(folders, 1):
            if create:
                _make(folder, part, path)
            inner = _enter(folder, part, "/".join(folders[:depth]), path)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _make(folder: int, name: str, path: NotePath) -> None:
    try:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
            os.fsync(folder)
    except OSError as error:
        raise cannot_write(path, error) from error


def _enter(folder: int, name: str, place: str, path: NotePath) -> int:
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            reason = f"{path} is not written: {place} on the way to it is a symbolic link or no folder"
            raise WriteRefused(reason, hint="Name a note that lies in the memory root itself.") from error
        raise cannot_write(path, error) from error


def check_writable(path: NotePath, found: os.stat_result) -> None:
    """Refuse what only looks like a note of this memory root. Raises WriteRefused."""
    if not stat.S_ISREG(found.st_mode):
        raise WriteRefused(f"{path} is not a regular file", hint="Name another note.")
    if found.st_nlink > 1:
        raise WriteRefused(
            f"{path} is not written: it has {found.st_nlink} names (hard links), maybe outside the memory root",
            hint="Make it a file of its own: copy it and move the copy to its name.",
        )


def cannot_write(path: str, error: OSError) -> FilesystemError:
    """Return the error for a note that the system does not let us write."""
    hint = "Free some space." if error.errno in (errno.ENOSPC, errno.EDQUOT) else "Check its permissions."
    return FilesystemError(f"{path} cannot be written: {error.strerror}", hint=hint)
