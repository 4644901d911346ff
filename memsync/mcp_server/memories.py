"""Choose the memory that answers a call: the daemon's if one serves this root now, otherwise one in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from memsync.client.wire import settings_digest
from memsync.errors import DaemonUnavailable
from memsync.settings.load import Settings
from memsync.wiring import connect_daemon, connect_here

if TYPE_CHECKING:
    from memsync.memory import Memory, MemoryApi


class MemoryOpener:
    """Opens a memory for each call, since the daemon and config.toml may change while a client stays connected.

    `load` returns the current settings. The memory in this process answers one call at a time.
    """

    def __init__(self, load: Callable[[], Settings]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._here: Memory | None = None
        self._settings = ""

    @contextmanager
    def memory(self) -> Iterator[MemoryApi]:
        """Yield the memory for one call. Raises MemsyncError."""
        settings = self._load()
        if settings["daemon.use"]:
            try:
                remote = connect_daemon(settings)
            except DaemonUnavailable:
                pass
            else:
                self.close()  # the daemon has the model, so this process no longer needs one
                with remote:
                    yield remote
                return
        with self._lock:
            yield self._opened(settings)

    def _opened(self, settings: Settings) -> Memory:
        digest = settings_digest(settings)
        if self._here is None or digest != self._settings:
            if self._here is not None:
                self._here.close()
                self._here = None  # otherwise the next call would use it if the new one cannot be opened
            self._here, self._settings = connect_here(settings), digest
        return self._here

    def close(self) -> None:
        """Close the memory in this process, unless a call is using it."""
        if self._here is not None and self._lock.acquire(blocking=False):
            try:
                if self._here is not None:
                    self._here.close()
                    self._here = None
            finally:
                self._lock.release()
