"""The lock that keeps a memory root to one daemon, and functions that find out which process holds it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import sys
import time
from contextlib import closing, suppress
from typing import Any

from memsync import __version__
from memsync.client import wire
from memsync.errors import DaemonError, DaemonRunning, FilesystemError
from memsync.settings.load import Settings
from memsync.system.user_folders import own_folder

POLL_SECONDS = 0.02
LOOK_SECONDS = 0.5
"""How long to wait for a lock without a known holder: a process that checks for a daemon holds it for a moment."""

# The first fields of `struct flock`. Linux: type, whence, start, length, process.
# macOS and the BSDs: start, length, process, type, whence.
_FLOCK, _FLOCK_PROCESS, _WRITE_LOCK = (
    ("hhqqi4x", 4, (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    if sys.platform == "linux"
    else ("qqihh", 2, (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET))
)
_LOCAL_PEERPID = 2
"""LOCAL_PEERPID, a socket option of macOS that Python has no name for."""


class DaemonLock:
    """A kernel lock on daemon.lock in the index folder; the content of the file is only for people.

    It consists of two locks: flock() decides which process is the daemon, and a record lock lets the kernel name that
    process. A process loses its record lock when it closes any descriptor of the file, so it must not open it twice.
    """

    def __init__(self, settings: Settings) -> None:
        """Take the lock. Raises DaemonRunning, which names the process that has it, and FilesystemError."""
        self._path = settings.index_dir / "daemon.lock"
        self._socket_path = wire.socket_path(settings.index_name)
        self._root = str(settings.root)
        self._descriptor = self._taken()

    def is_in_place(self) -> bool:
        """Return whether the locked file is still at its path; True if that cannot be found out."""
        try:
            return os.stat(self._path).st_ino == os.fstat(self._descriptor).st_ino
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def take_again(self) -> None:
        """Lock the file that is at the path now, or a new one. Raises DaemonRunning if another daemon was faster."""
        descriptor = self._taken()
        os.close(self._descriptor)
        self._descriptor = descriptor

    def close(self) -> None:
        """Release the lock; the empty file remains."""
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
            with suppress(OSError):  # without record locks, the socket names the process
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            content = {"process": os.getpid(), "version": __version__, "root": self._root}
            with suppress(OSError):  # on a full disk the file stays empty, but the lock is held
                os.pwrite(descriptor, json.dumps(content).encode(), 0)
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
                process = f"process {holder.get('process', '?')} (memsync {holder.get('version', '?')})"
                hint = "Stop it with: memsync stop"
                raise DaemonRunning(f"{process} already serves {self._root}", hint=hint) from None


def daemon_lock(settings: Settings) -> closing[DaemonLock]:
    """Take the daemon's lock, to hold it during a `with` block. Raises DaemonRunning, which names its holder."""
    return closing(DaemonLock(settings))


def running(settings: Settings) -> dict[str, Any] | None:
    """Return what is known of the daemon of this index; None if nobody holds its lock.

    `process` comes from the kernel; `version` and `root` come from the lock file, if the daemon could write it.
    """
    try:
        descriptor = os.open(settings.index_dir / "daemon.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(descriptor, wire.socket_path(settings.index_name))
    finally:
        os.close(descriptor)
    return None


def serving(settings: Settings, wait_seconds: float) -> dict[str, Any] | None:
    """Wait until the daemon of this index accepts connections; return what is known of it, None if none runs.

    Raises DaemonError if it does not accept connections within `wait_seconds`.
    """
    path = wire.socket_path(settings.index_name)
    limit = time.monotonic() + wait_seconds
    while (daemon := running(settings)) is not None:
        if "process" in daemon and _socket_owner(path) is not None:
            return daemon
        if time.monotonic() >= limit:
            raise DaemonError(
                f"process {daemon.get('process', '?')} is the daemon but does not answer within {wait_seconds:g} s",
                hint="See: memsync logs",
            )
        time.sleep(POLL_SECONDS)
    return None


def _holder(descriptor: int, socket_path: str) -> dict[str, Any]:
    """Return what is known of the process that holds the lock.

    The file may be empty (a full disk), damaged or old, and must not direct a signal to the wrong process. So the
    kernel names the process, and the file counts only if it names the same one.
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
    """Return the process that holds the record lock; None if there is none that this process can see."""
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(_FLOCK, *_WRITE_LOCK))
    except OSError:
        return None
    process: int = struct.unpack(_FLOCK, answer)[_FLOCK_PROCESS]
    return process if process > 0 else None


def _socket_owner(path: str) -> int | None:
    """Return the process that listens on a socket; None if none does."""
    level, name = (socket.SOL_SOCKET, socket.SO_PEERCRED) if sys.platform == "linux" else (0, _LOCAL_PEERPID)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
            process: int = struct.unpack_from("i", probe.getsockopt(level, name, 12))[0]
        except OSError:
            return None
    return process if process > 0 else None
