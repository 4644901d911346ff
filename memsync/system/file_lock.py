"""A kernel lock on a file. The kernel releases it when its holder ends, even if it is killed."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memsync.errors import MemsyncError
from memsync.system.user_folders import filesystem_errors, own_folder

POLL_SECONDS = 0.02


@contextmanager
def file_lock(
    path: Path,
    wait_seconds: float,
    busy: Callable[[str], MemsyncError],
    *,
    poll_seconds: float = POLL_SECONDS,
    on_wait: Callable[[str], None] = lambda holder: None,
) -> Iterator[None]:
    """Hold the lock on `path`; wait for it up to `wait_seconds`. If it has to wait, it calls `on_wait(holder)` once.

    Raises `busy(holder)` after that time, FilesystemError if the file cannot be created. The file is never deleted:
    only the lock has a meaning.
    """
    with filesystem_errors(f"{path} cannot be created", "Check the folder's permissions."):
        own_folder(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        acquire(descriptor, wait_seconds, busy, poll_seconds, on_wait)
        os.ftruncate(descriptor, 0)
        with suppress(OSError):  # on a full disk the holder's name cannot be written, but the lock is held
            os.pwrite(descriptor, f"process {os.getpid()}".encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def acquire(
    descriptor: int,
    wait_seconds: float,
    busy: Callable[[str], MemsyncError],
    poll_seconds: float = POLL_SECONDS,
    on_wait: Callable[[str], None] = lambda holder: None,
) -> None:
    """Lock an open file as `file_lock` does. The lock ends when the file is closed."""
    deadline = time.monotonic() + wait_seconds
    is_reported = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = os.pread(descriptor, 100, 0).decode("utf-8", "replace") or "another process"
            if time.monotonic() >= deadline:
                raise busy(holder) from None
            if not is_reported:
                on_wait(holder)
                is_reported = True
            time.sleep(poll_seconds)
