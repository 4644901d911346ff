"""Create, replace, set aside and remove the files of a database: the index and the vector cache.

SQLite finds a database's log or journal only by its name, and plays it back into the database next to it. Next to
another database it would destroy that. So each change of names is synced to the disk before the next one: otherwise
the file system may reorder them, and the power may fail in between.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memsync.system import clock
from memsync.system.user_folders import filesystem_errors, own_folder, sync_folder

SIDE_FILES = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps next to a database."""
KEPT_COPIES = 3
"""How many damaged copies of a database to keep for inspection; older ones are removed."""


def create_private(path: Path) -> None:
    """Make a missing database file and its folder, both private to the user. Raises FilesystemError.

    An existing file is not opened: closing it would drop the locks that SQLite holds on it in this process.
    """
    with filesystem_errors(f"{path} cannot be opened for writing", "Set XDG_STATE_HOME to a folder you can write."):
        own_folder(path.parent)
        if not path.exists():
            _create(path)
        elif not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, "no permission, or a read-only disk")


def _create(path: Path) -> None:
    """Make an empty file, one process at a time: otherwise the second would remove the log of the first."""
    with locked(path.parent):
        if not path.exists():  # if the file was deleted, SQLite would play its old log back into the new one
            remove_side_files(path)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let only one process at a time create, open or set aside the databases of a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def inode(path: Path) -> int:
    """Return the inode of a file; 0 if there is none. Raises OSError."""
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0


def set_aside(path: Path, damaged: int, *, kept: int = KEPT_COPIES) -> Path | None:
    """Rename a damaged database and its log, and return the new name; None if another file has replaced it.

    `damaged` is the inode of the file. Keeps only the last `kept` damaged copies, so that they do not fill up a failing
    disk. Raises FilesystemError.
    """
    aside = path.with_name(f"{path.name}.damaged-{clock.now():%Y%m%dT%H%M%S}-{os.getpid()}")
    with (
        filesystem_errors(f"{path} is damaged and cannot be renamed", "Check the permissions of its folder."),
        locked(path.parent),
    ):
        if inode(path) != damaged:
            return None
        for suffix in ("", *SIDE_FILES):
            with suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
        sync_folder(path.parent)
    for copy in damaged_copies(path)[:-kept]:
        for suffix in (*SIDE_FILES, ""):
            with suppress(OSError):
                Path(f"{copy}{suffix}").unlink()
    return aside


def damaged_copies(path: Path) -> list[Path]:
    """Return the damaged copies of a database that were set aside, oldest first."""
    found = path.parent.glob(f"{path.name}.damaged-*")
    return sorted(file for file in found if not file.name.endswith(SIDE_FILES))


def remove(path: Path) -> None:
    """Remove a database and its side files. Raises FilesystemError."""
    with filesystem_errors(f"{path} cannot be removed", "Check its folder's permissions and the disk."):
        path.unlink(missing_ok=True)
        remove_side_files(path)


def remove_side_files(path: Path) -> None:
    """Remove the files that SQLite keeps next to a database, and wait until this is on the disk."""
    is_changed = False
    for suffix in SIDE_FILES:
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").unlink()
            is_changed = True
    if is_changed:
        sync_folder(path.parent)


def replace(path: Path, by: Path) -> None:
    """Replace a database, whose log must be empty, by another, closed one. Raises FilesystemError."""
    with filesystem_errors(f"index {path} cannot be replaced", "Check its folder's permissions and the disk."):
        remove_side_files(path)
        by.replace(path)
        sync_folder(path.parent)
