"""What a monitor wants to know of a memory, as one document, and as events while a page is open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from memsync import __version__
from memsync.errors import MemsyncError
from memsync.features.indexing import INDEX_FAILURE
from memsync.features.indexing import status as status_operation
from memsync.model.status import Status
from memsync.model.text import json_line, printable
from memsync.model.vocabulary import WatcherState
from memsync.web.problems import Refusal
from memsync.web.site import Site

STATUSES = {"ok": 200, "stale": 200, "degraded": 503, "failing": 503}
"""How a memory is, and the status of the answer that says so.

ok: the index has every change. stale: it lacks some, or no daemon keeps it current; a search still reads changed files
itself. degraded: a part has a fault, and searches are answered. failing: they may not be.
"""
SERIOUS = ("index", "root", "settings")
"""The names of the daemon's faults with which searches may fail."""
MAX_LISTENERS = 16
POLL_SECONDS = 1.0
ALIVE_SECONDS = 15.0
"""After how long without a change a listener gets a comment, so that a lost connection is noticed."""
_NO_STATUS: dict[str, Any] = {
    "scanned_at": "", "index_age_seconds": None, "watcher": "", "reason": "", "pending_text": 0, "pending_vectors": 0,
}  # fmt: skip
HEALTH = {
    "type": "object",
    "properties": {
        "status": {"enum": list(STATUSES)},
        "version": {"type": "string"},
        "scanned_at": {"type": "string"},
        "index_age_seconds": {"type": ["number", "null"]},
        "watcher": {"type": "string"},
        "reason": {"type": "string"},
        "pending_text": {"type": "integer"},
        "pending_vectors": {"type": "integer"},
        "faults": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["status", "version", *_NO_STATUS, "faults"],
}
"""The JSON Schema of the document."""


async def health(site: Site) -> dict[str, Any]:
    """Return how the memory of a site is now."""
    try:
        return health_of(await site.run(status_operation), datetime.now(UTC))
    except MemsyncError as error:
        return _document("failing", _NO_STATUS, [error.sentences()])


def health_of(status: Status, now: datetime) -> dict[str, Any]:
    """Return how a memory with this status is, at the moment `now`."""
    daemon = status.daemon
    failures = [f"{failure.path}: {failure.reason}" for failure in status.failures]
    errors = daemon.errors if daemon is not None else ()
    if any(error.startswith(f"{name}: ") for error in errors for name in SERIOUS) or any(
        failure.path == INDEX_FAILURE for failure in status.failures
    ):
        state = "failing"
    elif errors or (daemon is not None and daemon.watcher is WatcherState.DEGRADED):
        state = "degraded"
    else:
        is_current = daemon is not None and not (daemon.pending_text or status.pending_vectors or failures)
        state = "ok" if is_current else "stale"
    facts = {
        "scanned_at": status.last_sync,
        "index_age_seconds": round((now - datetime.fromisoformat(status.last_sync)).total_seconds(), 3)
        if status.last_sync
        else None,
        "watcher": daemon.watcher if daemon is not None else "",
        "reason": daemon.reason if daemon is not None else "no daemon is running",
        "pending_text": daemon.pending_text if daemon is not None else 0,
        "pending_vectors": status.pending_vectors,
    }
    return _document(state, facts, [*errors, *failures])


def _document(state: str, facts: dict[str, Any], faults: list[str]) -> dict[str, Any]:
    facts = {**facts, "reason": printable(facts["reason"])}
    return {"status": state, "version": __version__, **facts, "faults": list(map(printable, faults))}


class Events:
    """The changes of a site's health, for several listeners: one task asks, as long as anybody listens."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._listeners = 0
        self._latest: dict[str, Any] = {}
        self._changed = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None

    async def listen(self) -> AsyncIterator[str]:
        """Return the stream of one listener, as server-sent events. Raises Refusal if there are too many."""
        if self._listeners >= MAX_LISTENERS:
            reason = f"{MAX_LISTENERS} listeners are connected already"
            raise Refusal(503, reason, hint="Close a page.", headers={"Retry-After": "15"})
        return self._stream()

    async def _stream(self) -> AsyncIterator[str]:
        self._listeners += 1
        try:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask())
            seen: dict[str, Any] = {}
            while True:
                changed = self._changed
                if _lasting(self._latest) != _lasting(seen):
                    seen = self._latest
                    yield f"data: {json_line(json.dumps(seen, ensure_ascii=False))}\n\n"
                try:
                    await asyncio.wait_for(changed.wait(), ALIVE_SECONDS)
                except TimeoutError:
                    yield ": nothing has changed\n\n"
        finally:
            self._listeners -= 1

    async def _ask(self) -> None:
        while self._listeners:
            latest = await health(self._site)
            if _lasting(latest) != _lasting(self._latest):
                changed, self._changed = self._changed, asyncio.Event()
                self._latest = latest
                changed.set()
            await asyncio.sleep(POLL_SECONDS)


def _lasting(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without what changes as time passes."""
    return {name: value for name, value in document.items() if name != "index_age_seconds"}
