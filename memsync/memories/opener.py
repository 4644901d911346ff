"""Open a memory: through its daemon if one serves it, otherwise in this process, or in a database without its files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from memsync.client.wire import settings_digest
from memsync.memory import connect_here, served
from memsync.settings.load import Settings, default_of, settings_of
from memsync.settings.roots import RegisteredRoot

if TYPE_CHECKING:
    from memsync.memories.stored import StoredMemory
    from memsync.memory import MemoryApi, RemoteMemory


class Opener:
    """Opens a memory for each call, since its daemon and its config.toml may change meanwhile.

    It is the daemon's memory if one serves this root now, otherwise one in this process, which answers one call at a
    time. `settings` returns the memory's settings as they are now; it raises ConfigError, RootError.
    """

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._here: MemoryApi | None = None
        self._opened_with = ""

    @contextmanager
    def memory(self, notice: Callable[[str], None] = lambda text: None) -> Iterator[MemoryApi]:
        """Yield the memory for one call. Raises MemsyncError.

        Calls `notice` with the reason if a daemon is running but does not serve the memory.
        """
        remote = self._served(notice)
        if remote is not None:
            self.close()  # the daemon has the model, so this process no longer needs one
            with remote:
                yield remote
            return
        with self._lock:
            yield self._opened()

    def model(self) -> str:
        """Return the model that the memory's settings name. Raises ConfigError, RootError."""
        return str(self.settings()["embedder.model"])

    def close(self) -> None:
        """Close the memory in this process, unless a call is using it."""
        if self._here is not None and self._lock.acquire(blocking=False):
            try:
                if self._here is not None:
                    self._here.close()
                    self._here = None
            finally:
                self._lock.release()

    def _served(self, notice: Callable[[str], None]) -> RemoteMemory | None:
        return served(self.settings(), notice)

    def _opened(self) -> MemoryApi:
        settings = self.settings()
        digest = settings_digest(settings)
        if self._here is None or digest != self._opened_with:
            if self._here is not None:
                self._here.close()
                self._here = None  # otherwise the next call would use it if the new one cannot be opened
            self._here, self._opened_with = connect_here(settings), digest
        return self._here


class StoredOpener(Opener):
    """Opens a memory of a database, once: it is only read. No daemon serves it."""

    def __init__(self, root: RegisteredRoot) -> None:
        super().__init__(lambda: settings_of(root))
        self._root = root

    def model(self) -> str:
        """Return the model of the user's own settings: no other one embeds a question for a database."""
        return str(default_of("embedder.model"))

    def _served(self, notice: Callable[[str], None]) -> None:  # noqa: ARG002 (because Opener has it)
        return None

    def _opened(self) -> MemoryApi:
        if self._here is None:
            self._here = open_stored(self._root)
        return self._here


def open_stored(root: RegisteredRoot) -> StoredMemory:
    """Open a registered memory of a database. Raises ConfigError, IndexFailure."""
    from memsync.memories.stored import connect_stored  # here, because only searches of such a memory need it

    return connect_stored(root.dsn, root.memory or root.name, root.source)


class Openers:
    """The openers of registered memories, kept as long as a process asks them; each is made at its first use."""

    def __init__(self) -> None:
        self._by_root: dict[RegisteredRoot, Opener] = {}

    def of(self, root: RegisteredRoot) -> Opener:
        """Return the opener of a memory."""
        if root not in self._by_root:
            opener = StoredOpener(root) if root.dsn else Opener(lambda: settings_of(root))
            self._by_root.setdefault(root, opener)
        return self._by_root[root]

    def close(self) -> None:
        """Close every memory in this process."""
        for opener in list(self._by_root.values()):
            opener.close()
