"""One file on disk: read whole, appended to in one write, made or swapped whole. Old or new, never anything else."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from memsync.edit.note_paths import cannot_write
from memsync.edit.swap import exchange, rename_new
from memsync.errors import WriteRefused
from memsync.model.vocabulary import NotePath
from memsync.notes.files import MAX_NOTE_BYTES

_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_BLOCK_BYTES = 1 << 20
_ASIDE = re.compile(r"\.memsync-\d+-[0-9a-f]+\.tmp")
LEFTOVER_SECONDS = 86_400


def open_to_append(folder: int, path: NotePath, name: str) -> int | None:
    """Return a descriptor that reads anywhere and writes at the end; None when there is no such file."""
    try:
        return os.open(name, os.O_RDWR | os.O_APPEND | _FLAGS, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refused(path, error) from error


@contextmanager
def opened(folder: int, path: NotePath, name: str) -> Iterator[int]:
    """Yield a descriptor to read a file by. Raises FileNotFoundError, WriteRefused, FilesystemError."""
    try:
        descriptor = os.open(name, os.O_RDONLY | _FLAGS, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _refused(path, error) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read(descriptor: int, path: NotePath) -> bytes:
    """Return all of a file. Raises WriteRefused for one too large to be a note, FilesystemError."""
    content = b""
    try:
        while block := os.pread(descriptor, _BLOCK_BYTES, len(content)):
            content += block
            if len(content) > MAX_NOTE_BYTES:
                raise WriteRefused(f"{path} is too large to be a note", hint="Begin another one.")
    except OSError as error:
        raise cannot_write(path, error) from error
    return content


def append(descriptor: int, path: NotePath, content: bytes, size: int) -> None:
    """Write at the end of a file of `size` bytes and wait for the disk; cut back to that size what did not fit.

    It is not cut back when somebody else has written since, whose text would go with it. Raises FilesystemError.
    """
    written = 0
    try:
        written = os.write(descriptor, content)
        if written < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    except OSError as error:
        with suppress(OSError):
            if written and os.fstat(descriptor).st_size == size + written:
                os.ftruncate(descriptor, size)
        raise cannot_write(path, error) from error


def is_there(folder: int, name: str, descriptor: int) -> bool:
    """Tell whether an open file still has its name."""
    try:
        found, own = os.stat(name, dir_fd=folder, follow_symlinks=False), os.fstat(descriptor)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)


def create(folder: int, name: str, content: bytes, *, sync: bool = True) -> None:
    """Make a file with all of its content at once. Raises FileExistsError when there is one, OSError.

    Without `sync` the disk is not waited for: whoever makes many files does that once.
    """
    with _written_aside(folder, content, sync=sync) as aside:
        rename_new(folder, aside, name)
        if sync:
            os.fsync(folder)


def swap(folder: int, path: NotePath, name: str, old: bytes, new: bytes, found: os.stat_result) -> bool:
    """Give a file the content `new` if it still has the content `old`; return False if it has not.

    The new file has the old one's mode, and its owner as far as we may give it. Both change names in one step,
    so that a version that came in between is seen then and put back. Raises FilesystemError.
    """
    try:
        _clear_leftovers(folder)
        with _written_aside(folder, new, found) as aside:
            if not _holds(folder, path, name, old):
                return False
            if not exchange(folder, aside, name):  # the system cannot: what comes in between now is overwritten
                os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
            elif not _holds(folder, path, aside, old):
                exchange(folder, aside, name)
                return False
            os.fsync(folder)
            return True
    except FileNotFoundError:
        return False
    except OSError as error:
        raise cannot_write(path, error) from error


def _holds(folder: int, path: NotePath, name: str, content: bytes) -> bool:
    with opened(folder, path, name) as descriptor:
        return read(descriptor, path) == content


@contextmanager
def _written_aside(
    folder: int, content: bytes, like: os.stat_result | None = None, *, sync: bool = True
) -> Iterator[str]:
    """Yield the name of a hidden file with this content on disk; it is removed afterwards if it is still there."""
    aside = f".memsync-{os.getpid()}-{time.time_ns():x}.tmp"
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600 if like else 0o666, dir_fd=folder)
    try:
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            if like is not None:
                with suppress(PermissionError):
                    os.fchown(descriptor, like.st_uid, like.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        yield aside
    finally:
        with suppress(FileNotFoundError):
            os.unlink(aside, dir_fd=folder)


def _clear_leftovers(folder: int) -> None:
    """Remove what writers that were killed have left aside, a day later."""
    limit = time.time() - LEFTOVER_SECONDS
    for name in os.listdir(folder):
        if _ASIDE.fullmatch(name):
            with suppress(OSError):
                if os.stat(name, dir_fd=folder, follow_symlinks=False).st_ctime < limit:
                    os.unlink(name, dir_fd=folder)


def _refused(path: NotePath, error: OSError) -> Exception:
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return WriteRefused(f"{path} is a symbolic link", hint="Name a note that is a file itself.")
    if error.errno in (errno.EISDIR, errno.ENXIO):
        return WriteRefused(f"{path} is not a regular file", hint="Name another note.")
    return cannot_write(path, error)
