"""Keeps daemons away from an index while this process moves or deletes it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from memsync.client import connection
from memsync.errors import DaemonNotRunning, DaemonUnavailable, FilesystemError, IndexBusy, MemsyncError
from memsync.system.file_lock import POLL_SECONDS, acquire
from memsync.system.user_folders import socket_path

WAIT_SECONDS = 10.0


@contextmanager
def without_daemon(index_dir: str, busy: Callable[[], MemsyncError], *, create: bool = False) -> Iterator[bool]:
    """Hold the daemon's lock of an index; ask a daemon that has it to end. Yields whether one was asked.

    A daemon that does not listen yet, or just now, is asked as soon as it does. Raises `busy()` if the daemon does not
    end in WAIT_SECONDS. `create` is as for `held`.
    """
    path, limit, was_asked = f"{index_dir}/daemon.lock", time.monotonic() + WAIT_SECONDS, False
    with ExitStack() as locks:
        while True:
            try:
                locks.enter_context(held(path, lambda: IndexBusy("a daemon has the lock"), 0.0, create=create))
                break
            except IndexBusy:
                if time.monotonic() >= limit:
                    raise busy() from None
            was_asked = was_asked or _is_asked_to_end(socket_path(index_dir))
            time.sleep(POLL_SECONDS)
        yield was_asked


def _is_asked_to_end(socket_path: str) -> bool:
    """Ask the daemon at a socket to end; return False if none listens: a process only looked whether one runs."""
    try:
        connection.end(socket_path)
    except DaemonNotRunning:
        return False
    except DaemonUnavailable:  # it may end all the same
        return True
    return True


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
        acquire(descriptor, wait_seconds, lambda holder: busy())
        yield
    finally:
        os.close(descriptor)
