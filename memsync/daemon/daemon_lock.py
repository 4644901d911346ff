"""One daemon a memory root: the lock that a daemon holds for life, and who has it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from memsync import __version__
from memsync.client import wire
from memsync.errors import DaemonError, DaemonRunning, FilesystemError
from memsync.settings.load import Settings
from memsync.system.user_folders import own_folder

POLL_SECONDS = 0.02
LOOK_SECONDS = 0.5
"""How long a lock may be held by somebody who only looks whether a daemon has it."""


# How `struct flock` begins: type, whence, start, length and process on Linux; start, length, process, type, whence on
# macOS and the BSDs.
_FLOCK, _FLOCK_PROCESS, _WRITE_LOCK = (
    ("hhqqi4x", 4, (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    if sys.platform == "linux"
    else ("qqihh", 2, (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET))
)
_LOCAL_PEERPID = 2
"""The option of macOS's sockets, which Python does not name."""


class DaemonLock:
    """A kernel lock on a file in the index's folder; what stands in the file is only for people.

    Two locks, in fact: flock() decides who is the daemon, and a record lock lets the kernel name its process. The
    record lock is gone once this process closes any other descriptor of the file, so nothing else here may open it.
    """

    def __init__(self, settings: Settings) -> None:
        """Take the lock. Raises DaemonRunning with who has it, FilesystemError."""
        self._path = settings.index_dir / "daemon.lock"
        self._socket_path = wire.socket_path(str(settings.index_dir))
        self._root = str(settings.root)
        self._descriptor = self._taken()

    def is_in_place(self) -> bool:
        """Tell whether the file that is locked is still where others look for it; True where that cannot be told."""
        try:
            return os.stat(self._path).st_ino == os.fstat(self._descriptor).st_ino
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def take_again(self) -> None:
        """Lock the file that stands there now, or a new one. Raises DaemonRunning when another daemon was quicker."""
        descriptor = self._taken()
        os.close(self._descriptor)
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go of the lock; the file stays behind."""
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)

    def _taken(self) -> int:
        try:
            own_folder(self._path.parent)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise FilesystemError(
                f"{self._path} cannot be created: {error.strerror}", hint="Check its folder."
            ) from error
        try:
            self._lock(descriptor)
            with suppress(OSError):  # where record locks are not to be had, the socket tells the process
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            about = {"process": os.getpid(), "version": __version__, "root": self._root}
            with suppress(OSError):  # a full disk takes no name, but the lock is held all the same
                os.pwrite(descriptor, json.dumps(about).encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _lock(self, descriptor: int) -> None:
        limit = time.monotonic() + LOOK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                holder = _holder(descriptor, self._socket_path)
                if not holder and time.monotonic() < limit:
                    time.sleep(POLL_SECONDS)
                    continue
                who = f"process {holder.get('process', '?')} (memsync {holder.get('version', '?')})"
                hint = "Stop it with: memsync stop"
                raise DaemonRunning(f"{who} serves {self._root} already", hint=hint) from None


@contextmanager
def daemon_lock(settings: Settings) -> Iterator[DaemonLock]:
    """Hold the lock that only one daemon can. Raises DaemonRunning with who has it."""
    lock = DaemonLock(settings)
    try:
        yield lock
    finally:
        lock.release()


def running(settings: Settings) -> dict[str, Any] | None:
    """Return what is known of the daemon of this index, or None when there is none: the lock decides.

    `process` is what the kernel says; `version` and `root` are what it wrote about itself, if that could be written.
    """
    try:
        descriptor = os.open(settings.index_dir / "daemon.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(descriptor, wire.socket_path(str(settings.index_dir)))
    finally:
        os.close(descriptor)
    return None


def serving(settings: Settings, wait_seconds: float) -> dict[str, Any] | None:
    """Return what is known of the daemon of this index, once it takes connections; None when there is none.

    Raises DaemonError when it does not within so many seconds.
    """
    path = wire.socket_path(str(settings.index_dir))
    limit = time.monotonic() + wait_seconds
    while (found := running(settings)) is not None:
        if "process" in found and _takes_connections(path):
            return found
        if time.monotonic() >= limit:
            raise DaemonError(
                f"process {found.get('process', '?')} is the daemon and does not answer within {wait_seconds:g} s",
                hint="See: memsync logs",
            )
        time.sleep(POLL_SECONDS)
    return None


def _takes_connections(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def _holder(descriptor: int, socket_path: str) -> dict[str, Any]:
    """Return what is known of the process that holds the lock.

    The file may be empty (the disk was full), or damaged, or old: a signal must not go to a process because of it. So
    the kernel names the process, and the rest of the file counts only if it is of that process.
    """
    process = _lock_owner(descriptor) or _socket_owner(socket_path)
    if process is None:
        return {}
    with suppress(ValueError):
        written = json.loads(os.pread(descriptor, 1000, 0))
        if isinstance(written, dict) and written.get("process") == process:
            return written
    return {"process": process}


def _lock_owner(descriptor: int) -> int | None:
    """Return the process with the record lock; None when nobody has it, or a process that cannot be seen from here."""
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(_FLOCK, *_WRITE_LOCK))
    except OSError:
        return None
    process: int = struct.unpack(_FLOCK, answer)[_FLOCK_PROCESS]
    return process if process > 0 else None


def _socket_owner(path: str) -> int | None:
    """Return the process that listens on a socket; None when none does."""
    level, name = (socket.SOL_SOCKET, socket.SO_PEERCRED) if sys.platform == "linux" else (0, _LOCAL_PEERPID)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
            process: int = struct.unpack_from("i", probe.getsockopt(level, name, 12))[0]
        except OSError:
            return None
    return process if process > 0 else None
