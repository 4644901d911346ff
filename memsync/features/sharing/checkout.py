"""Bring the files of a memory root from one commit to another, without overwriting anything that is not committed.

git checks all files, and then writes them: it would lose what an editor saves in between. Here each file is exchanged
with its new version in one step, and only while it has the content that was committed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from memsync.edit import note_file
from memsync.edit.note_paths import folder_of
from memsync.model.vocabulary import NotePath
from memsync.notes.files import MAX_NOTE_BYTES
from memsync.notes.git import Git
from memsync.notes.git_files import GitUnusable
from memsync.notes.revisions import Blob, Revisions

MAX_LISTING_BYTES = 500_000_000
BATCH = 50
"""How many files are in memory at once."""
REGULAR = ("100644", "100755")
_NONE = "000000"


class Changed(NamedTuple):
    """A file that differs between two trees; the name of its content is empty where it is missing."""

    path: str
    before: str
    after: str
    is_executable: bool


def changed(git: Git, before: str, after: str, *, only_regular: bool = False) -> Iterator[Changed]:
    """Yield the files that differ between two trees, with a missing one for a link or a submodule.

    Raises GitUnusable for those unless `only_regular`.
    """
    options = ("-r", "-z", "--no-renames", "--no-ext-diff", before, after)
    entries = iter(os.fsdecode(b"".join(git.stream("diff-tree", *options, max_bytes=MAX_LISTING_BYTES))).split("\0"))
    for entry in filter(None, entries):
        path, (old_mode, mode, old, new, _) = next(entries), entry.removeprefix(":").split(" ")
        if not {old_mode, mode} <= {*REGULAR, _NONE} and not only_regular:
            raise GitUnusable(f"at the address, {path} is a link or a submodule: remove it there")
        before, after = (name if kind in REGULAR else "" for kind, name in ((old_mode, old), (mode, new)))
        yield Changed(path, before, after, REGULAR[1] == (old_mode if mode == _NONE else mode))


def write(revisions: Revisions, git: Git, changes: Sequence[Changed]) -> list[Changed]:
    """Write the files of a later tree; return those that are left because they have not the earlier content.

    Raises GitUnusable, MemsyncError; the caller holds the writers' lock.
    """
    missed: list[Changed] = []
    changes = sorted(changes, key=lambda one: bool(one.after))  # deletions first: a folder may take a file's place
    for start in range(0, len(changes), BATCH):
        batch = changes[start : start + BATCH]
        names = dict.fromkeys(name for one in batch for name in (one.before, one.after) if name)
        sizes = revisions.sizes(git, names)
        if large := next((one.path for one in batch if sizes.get(one.after, 0) > MAX_NOTE_BYTES), ""):
            raise GitUnusable(f"{large} is over {MAX_NOTE_BYTES // 1_000_000} MB there")
        contents = dict(revisions.contents(git, (Blob(name, size) for name, size in sizes.items())))
        missed += [
            one for one in batch if not _written(revisions, git, one, contents.get(one.before), contents.get(one.after))
        ]
    return missed


def content_of(revisions: Revisions, path: str) -> bytes | None:
    """Return the content of a file as it is now; None if there is none. Raises MemsyncError."""
    with suppress(FileNotFoundError), folder_of(revisions.root, NotePath(path)) as folder:
        return _content(folder, NotePath(path), path.rpartition("/")[2])
    return None


def stored(git: Git, path: str, content: bytes, *, is_kept: bool = True) -> str:
    """Return git's name of what it would commit for a file: line ends may differ. Store that unless not `is_kept`."""
    options = ("-w",) * is_kept + ("--stdin", f"--path={path}")
    return git.run(
        "hash-object", *options, given=content.decode("utf-8", "surrogateescape"), at_notes=True
    ).stdout.strip()


def _written(revisions: Revisions, git: Git, one: Changed, before: bytes | None, after: bytes | None) -> bool:
    """Write one file; return False if it has another content than before."""
    root, path, name = revisions.root, NotePath(one.path), one.path.rpartition("/")[2]
    place = root / path
    if after is None and (not os.path.lexists(place) or (place.is_dir() and not place.is_symlink())):
        return True  # it is gone, and perhaps a folder is in its place
    try:
        with folder_of(root, path, create=after is not None) as folder:
            there = _content(folder, path, name)
            if there != after:
                is_as_before = there == before or (there is not None and _is_clean(git, one, there))
                if not (is_as_before and _replaced(folder, path, there, after)):
                    return False
            if after is not None:
                _set_mode(folder, name, is_executable=one.is_executable)
    except (FileExistsError, FileNotFoundError):  # it has just been made, or deleted
        return False
    if after is None:
        with suppress(OSError):
            os.removedirs((root / path).parent)
    return True


def _replaced(folder: int, path: NotePath, before: bytes | None, after: bytes | None) -> bool:
    """Replace a file's content `before` by `after`; return False if it has another one. None means: no file."""
    name = path.rpartition("/")[2]
    if before is None or after is None:
        if before is not None:
            return note_file.remove(folder, path, name, before)
        note_file.create(folder, name, after or b"", sync=False)
        return True
    return note_file.swap(folder, path, before, after, os.stat(name, dir_fd=folder, follow_symlinks=False))


def _content(folder: int, path: NotePath, name: str) -> bytes | None:
    with suppress(FileNotFoundError), note_file.opened(folder, path, name) as descriptor:
        return note_file.read(descriptor, path)
    return None


def _is_clean(git: Git, one: Changed, content: bytes) -> bool:
    """Tell whether git would commit this content as what it has."""
    return bool(one.before) and stored(git, one.path, content, is_kept=False) == one.before


def _set_mode(folder: int, name: str, *, is_executable: bool) -> None:
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if bool(mode & 0o100) != is_executable:
        with suppress(PermissionError):  # a file system without modes
            os.chmod(name, mode | (mode & 0o444) >> 2 if is_executable else mode & ~0o111, dir_fd=folder)
