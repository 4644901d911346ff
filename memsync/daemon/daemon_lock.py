"""The lock that keeps a memory root to one daemon. The kernel knows whether it is held; the socket tells by whom."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from memsync.client.connection import described
from memsync.errors import DaemonError, DaemonRunning, DaemonUnavailable
from memsync.settings.load import Settings
from memsync.system.file_lock import POLL_SECONDS, file_lock
from memsync.system.user_folders import socket_path

NAME = "daemon.lock"
LOOK_SECONDS = 0.5
"""How long to wait for the lock: a process that checks for a daemon holds it for a moment."""


@contextmanager
def daemon_lock(settings: Settings) -> Iterator[Callable[[], bool]]:
    """Hold the daemon's lock; yield a function that returns whether its file is still in the index folder.

    Raises DaemonRunning, which names the process that has the lock, and FilesystemError.
    """
    path = settings.index_dir / NAME

    def taken(holder: str) -> DaemonRunning:  # noqa: ARG001 (because only the socket proves who it is)
        daemon = running(settings) or {}
        who = f"process {daemon['process']}" if daemon else "another process"
        return DaemonRunning(f"{who} already serves {settings.root}", hint="Stop it with: memsync daemon stop")

    with file_lock(path, LOOK_SECONDS, taken):
        inode = os.stat(path).st_ino
        yield lambda: is_in_place(path, inode)


def is_in_place(path: str | os.PathLike[str], inode: int) -> bool:
    """Return whether a path still leads to a file; True if an error of the file system leaves that open."""
    try:
        return os.lstat(path).st_ino == inode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def running(settings: Settings) -> dict[str, Any] | None:
    """Return what is known of the daemon of this index; None if nobody holds its lock.

    The kernel tells the `process` that listens on its socket, and that process its `version` and `root`, unless it
    hangs. Nothing is known of a daemon that does not listen yet. The content of the lock file counts for nothing.
    """
    try:
        descriptor = os.open(settings.index_dir / NAME, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        pass
    finally:
        os.close(descriptor)
    with suppress(DaemonUnavailable):
        return described(socket_path(settings.index_name))
    return {}


def serving(settings: Settings, wait_seconds: float) -> dict[str, Any] | None:
    """Wait until the daemon of this index accepts connections; return what is known of it, None if none runs.

    Raises DaemonError if it does not accept connections within `wait_seconds`.
    """
    limit = time.monotonic() + wait_seconds
    while (daemon := running(settings)) == {}:
        if time.monotonic() >= limit:
            raise DaemonError(
                f"a daemon has the lock of {settings.index_dir} but does not answer within {wait_seconds:g} s",
                hint="See: memsync daemon logs",
            )
        time.sleep(POLL_SECONDS)
    return daemon
