"""Open a memory: through its daemon if one serves it, otherwise in this process, or in a database without its files."""

from __future__ import annotations

import os
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
    from memsync.memory import MemoryApi


class Opener:
    """Opens a memory for each call, since its daemon and its config.toml may change meanwhile.

    It is the daemon's memory if one serves this root now, otherwise one in this process, which answers one call at a
    time. `settings` returns the memory's settings as they are now; it raises ConfigError, RootError. A memory of a
    database (`stored`) is opened once, because it is only read, and no daemon serves it. The memory of a daemon's own
    process (`own`) answers all calls.
    """

    def __init__(
        self, settings: Callable[[], Settings], *, stored: RegisteredRoot | None = None, own: MemoryApi | None = None
    ) -> None:
        self.settings = settings
        self._stored = stored
        self._own = own
        self._lock = threading.Lock()
        self._here: MemoryApi | None = None
        self._opened_with = ""

    @contextmanager
    def memory(self, notice: Callable[[str], None] = lambda text: None) -> Iterator[MemoryApi]:
        """Yield the memory for one call. Raises MemsyncError.

        Calls `notice` with the reason if a daemon is running but does not serve the memory.
        """
        if self._own is not None:
            yield self._own
            return
        digest = ""
        if self._stored is None:
            settings = self.settings()
            if (remote := served(settings, notice)) is not None:
                self.close()  # the daemon has the model, so this process no longer needs one
                with remote:
                    yield remote
                return
            digest = settings_digest(settings)
        with self._lock:
            yield self._opened(digest)

    def model(self) -> str:
        """Return the model that embeds questions: for a database only that of the user's own settings.

        Raises ConfigError, RootError.
        """
        return str(default_of("embedder.model") if self._stored else self.settings()["embedder.model"])

    def close(self) -> None:
        """Close the memory in this process, unless a call is using it."""
        if self._here is not None and self._lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._lock.release()

    def _drop(self) -> None:
        if self._here is not None:
            self._here.close()
            self._here = None

    def _opened(self, digest: str) -> MemoryApi:
        """Return the memory in this process; `digest` is of the settings that it must have."""
        if digest != self._opened_with:
            self._drop()  # first: the next call must not use it if the new one cannot be opened
        if self._here is None:
            self._here = open_stored(self._stored) if self._stored is not None else connect_here(self.settings())
            self._opened_with = digest
        return self._here


def open_stored(root: RegisteredRoot) -> StoredMemory:
    """Open a registered memory of a database. Raises ConfigError, IndexFailure."""
    from memsync.memories.stored import connect_stored  # here, because only searches of such a memory need it

    return connect_stored(root.dsn, root.memory or root.name, root.source)


class Openers:
    """The openers of registered memories, kept as long as a process asks them; each is made at its first use.

    `own` is that of the current memory, if any, and also serves the entry that has the same folder.
    """

    def __init__(self, own: Opener | None = None) -> None:
        """Read the settings of `own`. Raises ConfigError, RootError."""
        self.own = own
        self.own_root = own.settings().root_name if own is not None else ""
        self._by_root: dict[RegisteredRoot, Opener] = {}

    def of(self, root: RegisteredRoot) -> Opener:
        """Return the opener of a memory."""
        if self.own is not None and root.path and os.path.realpath(root.path) == self.own_root:
            return self.own
        stored = root if root.dsn else None
        return self._by_root.setdefault(root, Opener(lambda: settings_of(root), stored=stored))

    def close(self) -> None:
        """Close every memory in this process."""
        for opener in filter(None, (self.own, *self._by_root.values())):
            opener.close()
