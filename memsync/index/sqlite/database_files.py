"""The files of a database in their folder: made, set aside, removed, replaced, and never mixed with another's.

SQLite keeps files of its own beside a database, found by name alone. Next to another database each would be its ruin: a
log or journal is played back into whatever it is found beside. So a name is changed only once the change before it is
on the disk: file systems are free to reorder what was not synced, and the power may fail in between.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memsync.errors import FilesystemError
from memsync.system.user_folders import own_folder

SIDE_FILES = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database, by what its name adds."""
KEPT_COPIES = 3
"""How many damaged copies of a database stay on the disk, for inspection; older ones are removed."""


def create_private(path: Path) -> None:
    """Make an empty database file and its folder, both the user's alone, where there is none.

    A file that is there is left alone: closing it would drop the locks that SQLite holds on it in this process.
    Raises FilesystemError.
    """
    with _told(f"index {path} cannot be opened for writing", "Set index.dir in config.toml to a folder you can write."):
        own_folder(path.parent)
        if not path.exists():
            _create(path)
        elif not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, "no permission, or a read-only disk")


def _create(path: Path) -> None:
    """Make an empty file; one process at a time, or the second would remove the log of the first."""
    folder = _open_folder(path.parent)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(folder, fcntl.LOCK_EX)
        if not path.exists():  # deleted, perhaps: its log, still in use perhaps, would be taken for the new one's
            remove_side_files(path)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    finally:
        os.close(folder)


def set_aside(path: Path, *, kept: int = KEPT_COPIES) -> Path:
    """Rename a damaged database and its log out of the way, and return the new name. Raises FilesystemError.

    The last `kept` damaged copies stay.
    """
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}")
    with _told(f"{path} is damaged and cannot be renamed", "Check the permissions of its folder."):
        for suffix in ("", *SIDE_FILES):
            with suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
        _sync_folder(path.parent)
    _remove_old_copies(path, kept)
    return aside


def _remove_old_copies(path: Path, kept: int) -> None:
    """Remove all but the last damaged copies of a database: a failing disk would fill up with them."""
    copies = sorted(one for one in path.parent.glob(f"{path.name}.damaged-*") if not one.name.endswith(SIDE_FILES))
    for copy in copies[:-kept]:
        for suffix in (*SIDE_FILES, ""):
            with suppress(OSError):
                Path(f"{copy}{suffix}").unlink()


def remove(path: Path) -> None:
    """Remove a database with all that is beside it. Raises FilesystemError."""
    with _told(f"{path} cannot be removed", "Check its folder's permissions and the disk."):
        path.unlink(missing_ok=True)
        remove_side_files(path)


def remove_side_files(path: Path) -> None:
    """Remove what SQLite keeps beside a database, for good before this returns."""
    found = False
    for suffix in SIDE_FILES:
        try:
            Path(f"{path}{suffix}").unlink()
            found = True
        except FileNotFoundError:
            continue
    if found:
        _sync_folder(path.parent)


def replace(path: Path, by: Path) -> None:
    """Put a closed database in the place of another, whose log must be empty. Raises FilesystemError."""
    with _told(f"index {path} cannot be replaced", "Check its folder's permissions and the disk."):
        remove_side_files(path)
        by.replace(path)
        _sync_folder(path.parent)


@contextmanager
def _told(message: str, hint: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FilesystemError(f"{message}: {error.strerror}", hint=hint) from error


def _sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on the disk, where its file system can tell."""
    descriptor = _open_folder(folder)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _open_folder(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
