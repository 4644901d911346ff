"""The health of a memory: one document for monitors, and events while a page is open."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from memsync import __version__
from memsync.errors import MemsyncError
from memsync.features.indexing import INDEX_FAILURE
from memsync.features.indexing import status as status_operation
from memsync.model.json import to_json
from memsync.model.status import Status
from memsync.model.text import json_line, printable
from memsync.model.vocabulary import WatcherState
from memsync.system import clock
from memsync.web.problems import Refusal
from memsync.web.site import Site

STATUSES = {"ok": 200, "stale": 200, "degraded": 503, "failing": 503}
"""The states of a memory, and the HTTP status of each.

ok: the index has every change. stale: it lacks some, or no daemon keeps it current; a search still reads changed files
itself. degraded: a part has a fault, and searches are answered. failing: they may not be.
"""
SERIOUS = ("index", "root", "settings")
"""The names of the daemon's faults with which searches may fail."""
MAX_LISTENERS = 16
POLL_SECONDS = 1.0
ALIVE_SECONDS = 15.0
"""After how long without a change a listener gets a comment, so that a lost connection is noticed."""


class MemoryHealth(Struct, frozen=True):
    """The health of a memory. `scanned_at`: when its files were last compared; `reason`: why it is not watched live."""

    status: str
    version: str = __version__
    scanned_at: str = ""
    index_age_seconds: float | None = None
    watcher: str = ""
    reason: str = ""
    pending_text: int = 0
    pending_vectors: int = 0
    faults: tuple[str, ...] = ()


async def health(site: Site) -> MemoryHealth:
    """Return the health of a site's memory now."""
    try:
        return health_of(await site.run(status_operation), clock.utc())
    except MemsyncError as error:
        return MemoryHealth("failing", faults=(printable(error.sentences()),))


def health_of(status: Status, now: datetime) -> MemoryHealth:
    """Return the health that follows from a status, at the moment `now`."""
    daemon = status.daemon
    scanned = datetime.fromisoformat(status.last_sync) if status.last_sync else None
    faults = [*(daemon.errors if daemon else ()), *map(str, status.failures)]
    return MemoryHealth(
        _state(status),
        scanned_at=status.last_sync,
        index_age_seconds=round((now - scanned).total_seconds(), 3) if scanned else None,
        watcher=daemon.watcher if daemon else "",
        reason=printable(daemon.reason) if daemon else "no daemon is running",
        pending_text=daemon.pending_text if daemon else 0,
        pending_vectors=status.pending_vectors,
        faults=tuple(map(printable, faults)),
    )


def _state(status: Status) -> str:
    daemon = status.daemon
    errors = daemon.errors if daemon else ()
    if any(failure.path == INDEX_FAILURE for failure in status.failures) or any(
        error.partition(":")[0] in SERIOUS for error in errors
    ):
        return "failing"
    if errors or (daemon and daemon.watcher is WatcherState.DEGRADED):
        return "degraded"
    lacks = not daemon or daemon.pending_text or status.pending_vectors or status.failures
    return "stale" if lacks else "ok"


class Events:
    """The changes of a site's health, for several listeners."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._listeners = 0

    def enter(self) -> None:
        """Count one more listener, until it calls `leave`. Raises Refusal if there are too many."""
        if self._listeners >= MAX_LISTENERS:
            reason = f"{MAX_LISTENERS} listeners are connected already"
            raise Refusal(503, reason, hint="Close a page.", headers={"Retry-After": "15"})
        self._listeners += 1

    def leave(self) -> None:
        """Count one listener less."""
        self._listeners -= 1

    async def stream(self) -> AsyncIterator[str]:
        """Yield what one listener gets, as server-sent events."""
        yield f"retry: {POLL_SECONDS * 1000:.0f}\n\n"  # how long the browser waits if the server begins anew
        seen, sent_at = None, 0.0
        while True:
            latest = await health(self._site)
            if seen is None or replace(latest, index_age_seconds=seen.index_age_seconds) != seen:
                seen, sent_at = latest, time.monotonic()
                yield f"data: {json_line(json.dumps(to_json(seen), ensure_ascii=False))}\n\n"
            elif time.monotonic() - sent_at >= ALIVE_SECONDS:
                sent_at = time.monotonic()
                yield ": nothing has changed\n\n"
            await asyncio.sleep(POLL_SECONDS)
