"""One sync at a time on one index."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from memsync.errors import IndexBusy
from memsync.system.file_lock import file_lock

POLL_SECONDS = 0.1


def sync_lock(
    folder: Path, wait_seconds: float, on_wait: Callable[[str], None] = lambda holder: None
) -> AbstractContextManager[None]:
    """Hold the lock of the index in `folder`; wait for it at most so long, telling once who has it.

    Raises IndexBusy with the holder's process id, FilesystemError when the lock file cannot be made.
    """
    return file_lock(folder / "sync.lock", wait_seconds, _busy, poll_seconds=POLL_SECONDS, on_wait=on_wait)


def _busy(holder: str) -> IndexBusy:
    return IndexBusy(f"{holder} is syncing this memory root", hint="Wait for it to end, then try again.")
