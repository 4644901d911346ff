"""Reads, appends to, creates and replaces one file. A crash leaves either the old or the new content, never a mix."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import signal
import stat
from collections.abc import Container, Iterator
from contextlib import contextmanager, nullcontext, suppress

from memsync.edit.note_paths import cannot_write
from memsync.errors import WriteRefused
from memsync.model.vocabulary import NotePath
from memsync.notes.files import MAX_NOTE_BYTES, MAX_NOTE_LINES
from memsync.system import clock
from memsync.system.renames import exchange, rename_new

_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_BLOCK_BYTES = 1 << 20
_ASIDE = re.compile(r"\.memsync-\d+-[0-9a-f]+\.tmp")
LEFTOVER_SECONDS = 86_400


def open_to_append(folder: int, path: NotePath) -> int | None:
    """Open a file to read it and to write at its end; return None if it does not exist."""
    with suppress(FileNotFoundError):
        return _open(folder, path, path.rpartition("/")[2], os.O_RDWR | os.O_APPEND)
    return None


@contextmanager
def opened(folder: int, path: NotePath, name: str) -> Iterator[int]:
    """Open a file for reading. Raises FileNotFoundError, WriteRefused, FilesystemError."""
    descriptor = _open(folder, path, name, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open(folder: int, path: NotePath, name: str, mode: int) -> int:
    try:
        return os.open(name, mode | _FLAGS, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise WriteRefused(f"{path} is a symbolic link", hint="Name a note that is a file itself.") from error
        if error.errno in (errno.EISDIR, errno.ENXIO):
            raise WriteRefused(f"{path} is not a regular file", hint="Name another note.") from error
        if error.errno == errno.EACCES:
            raise WriteRefused(f"{path} may not be opened: {error.strerror}", hint="Check its permissions.") from error
        raise cannot_write(path, error) from error


def read(descriptor: int, path: NotePath) -> bytes:
    """Return the content of a file. Raises WriteRefused if it is too large to be a note, FilesystemError."""
    content = b""
    try:
        while block := os.pread(descriptor, _BLOCK_BYTES, len(content)):
            content += block
            if len(content) > MAX_NOTE_BYTES:
                raise WriteRefused(f"{path} is too large to be a note", hint="Write to another note.")
    except OSError as error:
        raise cannot_write(path, error) from error
    return content


def append(descriptor: int, path: NotePath, content: bytes, size: int) -> None:
    """Append to a file of `size` bytes and wait for the disk. If the write fails, truncate the file to `size` again.

    Does not truncate if somebody else wrote meanwhile, because that would delete their text. Raises FilesystemError.
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


def check_size(path: NotePath, content: bytes, size: int = 0, lines: int = 0) -> None:
    """Raise WriteRefused if a note of this size and so many lines could not be read with this content as well."""
    if size + len(content) > MAX_NOTE_BYTES or lines + content.count(b"\n") > MAX_NOTE_LINES:
        raise WriteRefused(f"{path} would be too large to be a note", hint="Write to another note.")


def is_there(folder: int, path: NotePath, descriptor: int) -> bool:
    """Tell whether an open file still has its name."""
    try:
        named = os.stat(path.rpartition("/")[2], dir_fd=folder, follow_symlinks=False)
        return os.path.samestat(named, os.fstat(descriptor))
    except OSError:
        return False


def create(folder: int, name: str, content: bytes, *, sync: bool = True) -> None:
    """Create a file with its full content in one step. Raises FileExistsError if it exists, OSError.

    Without `sync` it does not wait for the disk; a caller that creates many files does that once at the end.
    """
    with _written_aside(folder, content, sync=sync) as aside:
        rename_new(folder, aside, name, folder)
        if sync:
            os.fsync(folder)


def swap(folder: int, path: NotePath, old: bytes, new: bytes, status: os.stat_result) -> bool:
    """Replace a file's content `old` by `new`; return False if the file has another content, or may get it.

    That is so if a program holds it open for writing (a logger): it would go on writing to the old file, which has no
    name any more. The new file gets the old one's mode, extended attributes and ACL, and its owner if permitted. Both
    files exchange names in one step. If the file changed just before that, the exchange is undone. Raises
    FilesystemError.
    """
    name = path.rpartition("/")[2]
    try:
        clear_leftovers(folder, LEFTOVER_SECONDS)
        with _written_aside(folder, new, status) as aside:
            with opened(folder, path, name) as before, opened(folder, path, aside) as after:
                _copy_attributes(before, after)
            if not _holds(folder, path, name, old):
                return False
            if not exchange(folder, aside, name):  # unsupported here: a change since the check above is overwritten
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


def remove(folder: int, path: NotePath, name: str, content: bytes) -> bool:
    """Delete a file; return False if it no longer has this content. Raises FileNotFoundError, FilesystemError.

    The file first gets a hidden name: a version that another program saves at this moment is put back.
    """
    aside = _hidden_name()
    try:
        rename_new(folder, name, aside, folder)
        is_expected = False
        try:
            is_expected = _holds(folder, path, aside, content)
        finally:
            if not is_expected:
                rename_new(folder, aside, name, folder)
        if not is_expected:
            return False
        os.unlink(aside, dir_fd=folder)
        os.fsync(folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise cannot_write(path, error) from error
    return True


def _copy_attributes(before: int, after: int) -> None:
    """Give a file the extended attributes of another and no others; on Linux they include its ACL. Raises OSError."""
    if hasattr(os, "listxattr"):
        attributes = os.listxattr(before)
        for name in {*attributes, *os.listxattr(after)}:
            # Only the system may set some: it labels the new file itself.
            with suppress(OSError) if name.startswith(("security.", "trusted.")) else nullcontext():
                if name in attributes:
                    os.setxattr(after, name, os.getxattr(before, name))
                else:  # a default ACL of the folder
                    os.removexattr(after, name)
        os.fsync(after)


def _hidden_name() -> str:
    return f".memsync-{os.getpid()}-{clock.time_ns():x}.tmp"


def _holds(folder: int, path: NotePath, name: str, content: bytes) -> bool:
    """Tell whether a file has this content, and no program that has it open can change that."""
    with opened(folder, path, name) as descriptor:
        return not _is_open_to_write(descriptor) and read(descriptor, path) == content


def _is_open_to_write(descriptor: int) -> bool:
    """Tell whether a program has a file open for writing; False where the kernel does not tell.

    Linux grants a read lease on a file only if nobody has it open for writing, and only to the file's owner.
    """
    if hasattr(fcntl, "F_SETLEASE"):
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)  # a program may open it now: SIGIO would end us
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except BlockingIOError:
            return True
        except OSError:
            pass
    return False


@contextmanager
def _written_aside(
    folder: int, content: bytes, like: os.stat_result | None = None, *, sync: bool = True
) -> Iterator[str]:
    """Write content to a hidden file and yield its name; afterwards delete the file if it still exists."""
    aside = _hidden_name()
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


def clear_leftovers(folder: int, seconds: float, kept: Container[str] = ()) -> None:
    """Delete hidden files that killed writers left at least `seconds` ago. The caller holds the writers' lock.

    With `kept`, also deletes younger ones that are empty or whose SHA-256 is in it: memsync has a copy. Any other may
    be the only copy of what an editor saved just before the kill. A writer on another machine has another lock. It
    fails if its file is deleted, and its note stays as it was.
    """
    limit = clock.file_seconds() - seconds
    for name in os.listdir(folder):
        if _ASIDE.fullmatch(name):
            with suppress(OSError, WriteRefused), opened(folder, NotePath(name), name) as descriptor:
                status = os.fstat(descriptor)
                is_kept = bool(kept) and _digest(descriptor, name) in kept
                if status.st_ctime <= limit or is_kept or (kept and not status.st_size):
                    os.unlink(name, dir_fd=folder)


def _digest(descriptor: int, name: str) -> str:
    return hashlib.sha256(read(descriptor, NotePath(name))).hexdigest()
