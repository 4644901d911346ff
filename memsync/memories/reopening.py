"""Open the memories that a process asks again and again: its own, and registered ones."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from memsync.client.wire import settings_digest
from memsync.memory import Memory, MemoryApi, Through, daemon_of, open_memory
from memsync.settings.load import Settings, default_of, settings_of
from memsync.settings.roots import RegisteredRoot

if TYPE_CHECKING:
    from memsync.memories.stored import StoredMemory


class Opener:
    """Opens a memory for each call, since its daemon and its config.toml may change meanwhile.

    It is the daemon's memory if one serves it now, otherwise one in this process, which answers one call at a time. A
    memory of a database is opened once, because it is only read, and no daemon serves it. `own` returns the settings of
    the process's own memory as they are now, or is that memory, which then answers all calls; without it there are only
    registered memories. Safe to use from several threads.
    """

    def __init__(self, own: Callable[[], Settings] | MemoryApi | None = None) -> None:
        """Read the settings of `own`. Raises ConfigError, RootError."""
        self._own = own
        settings = own.settings if isinstance(own, Memory) else own() if callable(own) else None
        self._own_root = settings.root_name if settings is not None else ""
        self._here: dict[RegisteredRoot | None, _OpenHere] = {}

    @property
    def has_own(self) -> bool:
        """Whether the process has a memory of its own."""
        return self._own is not None

    def is_own(self, root: RegisteredRoot) -> bool:
        """Tell whether a registered memory is the process's own."""
        return bool(self._own_root and root.path) and os.path.realpath(root.path) == self._own_root

    @contextmanager
    def memory(
        self, root: RegisteredRoot | None = None, notice: Callable[[str], None] = lambda text: None
    ) -> Iterator[MemoryApi]:
        """Yield a registered memory, or without `root` the own one, for one call. Raises MemsyncError.

        Calls `notice` with the reason if a daemon is running but does not serve the memory.
        """
        root = None if root is None or self.is_own(root) else root
        if root is None and isinstance(self._own, MemoryApi):
            yield self._own
            return
        here = self._here.setdefault(root, _OpenHere())
        settings = None if root is not None and root.dsn else self._settings(root)
        if settings is not None and (remote := daemon_of(settings, notice)) is not None:
            here.close()  # the daemon has the model, so this process no longer needs one
            with remote:
                yield remote
            return
        with here.lock:
            yield here.memory(settings or root)

    def model(self, root: RegisteredRoot) -> str:
        """Return the model that embeds questions: for a database only that of the user's own settings.

        Raises ConfigError, RootError.
        """
        return str(default_of("embedder.model") if root.dsn else self._settings(root)["embedder.model"])

    def close(self) -> None:
        """Close every memory in this process that no call is using."""
        for here in list(self._here.values()):
            here.close()

    def _settings(self, root: RegisteredRoot | None) -> Settings:
        if root is not None and not self.is_own(root):
            return settings_of(root)
        if isinstance(self._own, Memory):
            return self._own.settings
        assert callable(self._own)
        return self._own()


class _OpenHere:
    """A memory that is open in this process. A call that uses it holds `lock`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._memory: MemoryApi | None = None
        self._opened_with = ""

    def memory(self, opened_as: Settings | RegisteredRoot | None) -> MemoryApi:
        """Return the memory with these settings, or that of a database. Raises MemsyncError."""
        digest = settings_digest(opened_as) if isinstance(opened_as, Settings) else ""
        if digest != self._opened_with:
            self._drop()  # first: the next call must not use it if the new one cannot be opened
        if self._memory is None:
            assert opened_as is not None
            self._memory = (
                open_memory(opened_as, Through.HERE) if isinstance(opened_as, Settings) else open_stored(opened_as)
            )
            self._opened_with = digest
        return self._memory

    def close(self) -> None:
        """Close the memory, unless a call is using it."""
        if self._memory is not None and self.lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self.lock.release()

    def _drop(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None


def open_stored(root: RegisteredRoot) -> StoredMemory:
    """Open a registered memory of a database, which no daemon serves. Raises ConfigError, IndexFailure."""
    from memsync.memories.stored import connect_stored  # here, because only searches of such a memory need it

    return connect_stored(root.dsn, root.memory or root.name, root.source)
