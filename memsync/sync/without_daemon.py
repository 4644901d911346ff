"""Keeps daemons away from an index while this process moves or deletes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from memsync.client import connection, wire
from memsync.errors import DaemonNotRunning, DaemonUnavailable, FilesystemError, IndexBusy, MemsyncError
from memsync.system.file_lock import acquire

WAIT_SECONDS = 10.0
POLL_SECONDS = 0.02


@contextmanager
def without_daemon(index_dir: str, busy: Callable[[], MemsyncError], *, create: bool = False) -> Iterator[bool]:
    """Hold the daemon's lock of an index; ask a daemon that has it to end. Yields whether one was asked.

    Raises `busy()` if the daemon does not end in WAIT_SECONDS. `create` is as for `held`.
    """
    path = f"{index_dir}/daemon.lock"
    was_served = False
    with ExitStack() as locks:
        try:
            locks.enter_context(held(path, _taken, 0.0, create=create))
        except IndexBusy:
            was_served = _is_asked_to_end(wire.socket_path(index_dir))
            locks.enter_context(held(path, busy, WAIT_SECONDS, create=create))
        yield was_served


def _is_asked_to_end(socket_path: str) -> bool:
    """Ask the daemon at a socket to end; return False if none listens: a process only looked whether one runs."""
    try:
        connection.end(socket_path)
    except DaemonNotRunning:
        return False
    except DaemonUnavailable:  # it may end all the same
        return True
    return True


def _taken() -> IndexBusy:
    return IndexBusy("a daemon has the lock")


@contextmanager
def held(path: str, busy: Callable[[], MemsyncError], wait_seconds: float, *, create: bool = False) -> Iterator[None]:
    """Hold a kernel lock on a file. Raises `busy()` if it is not free in `wait_seconds`, FilesystemError.

    Without the file, hold nothing; with `create`, make it, so that no process that begins meanwhile gets the lock.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
    except FileNotFoundError:
        yield
        return
    except OSError as error:
        raise FilesystemError(f"{path} cannot be opened: {error.strerror}", hint="Check its folder.") from error
    try:
        acquire(descriptor, wait_seconds, lambda holder: busy(), POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)
