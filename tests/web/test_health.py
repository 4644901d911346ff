"""Health: one document for a monitor, and its changes as events for a page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import replace as with_other
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from starlette.testclient import TestClient

from memsync import __version__
from memsync.errors import IndexDamaged
from memsync.features.indexing import INDEX_FAILURE
from memsync.memory import Memory
from memsync.model.status import DaemonStatus, Failure, Status
from memsync.model.vocabulary import WatcherState
from memsync.web import health as health_module
from memsync.web.access import TOKEN
from memsync.web.app import make_app
from memsync.web.health import MAX_LISTENERS, STATUSES, Events, health_of
from memsync.web.site import Site
from tests.web.conftest import URL, Failing

NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
DAEMON = DaemonStatus(1, "0.1.0", "", "", WatcherState.LIVE, "", "2026-11-25T11:59:50+00:00", 0, True, 1)


@pytest.fixture
def status(memory: Memory) -> Status:
    """Return the status of a memory that a daemon keeps current, ten seconds after it compared the files."""
    return replace(memory.status(), last_sync="2026-11-25T11:59:50+00:00", daemon=DAEMON)


def test_current_index_is_ok(status: Status) -> None:
    """With the age of the index."""
    found = health_of(status, NOW)
    assert (found.status, found.index_age_seconds, found.watcher, found.faults) == ("ok", 10.0, "live", ())


@pytest.mark.parametrize(
    ("daemon", "more", "state"),
    [
        ({"pending_text": 3}, {}, "stale"),
        ({}, {"pending_vectors": 2}, "stale"),
        ({}, {"failures": (Failure("a.md", "not readable"),)}, "stale"),
        ({"watcher": WatcherState.POLLING, "reason": "nfs does not report changes"}, {}, "ok"),
        ({"watcher": WatcherState.DEGRADED, "reason": "it died"}, {}, "degraded"),
        ({"errors": ("curator: out of credit",)}, {}, "degraded"),
        ({"errors": ("index: the disk is full",)}, {}, "failing"),
        ({"errors": ("root: it is missing",), "watcher": WatcherState.DEGRADED}, {}, "failing"),
        ({}, {"failures": (Failure(INDEX_FAILURE, "it cannot be written"),)}, "failing"),
    ],
)
def test_state_follows_from_the_status(
    daemon: dict[str, Any], more: dict[str, Any], state: str, status: Status
) -> None:
    """What is missing for a moment is stale; what somebody must repair is degraded or failing."""
    found = health_of(replace(status, daemon=replace(DAEMON, **daemon), **more), NOW)
    assert found.status == state
    assert len(found.faults) == len(daemon.get("errors", ())) + len(more.get("failures", ()))


def test_memory_without_a_daemon_is_stale(client: TestClient) -> None:
    """Nothing keeps it current; each search still looks at the files."""
    answer = client.get("/health")
    document = answer.json()
    assert (answer.status_code, document["status"], document["version"]) == (200, "stale", __version__)
    assert document["reason"] == "no daemon is running" and document["index_age_seconds"] >= 0


def test_memory_that_cannot_be_asked_is_failing(client: TestClient, site: Site) -> None:
    """The answer is still a document of health, with a status that a monitor understands."""
    broken = Failing(IndexDamaged("the index is damaged", hint="It is rebuilt."))
    app = make_app(with_other(site, open=lambda: nullcontext(broken)))
    with TestClient(app, base_url=URL, headers=dict(client.headers)) as other:
        answer = other.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (STATUSES["failing"], "failing") == (503, "failing")
    assert answer.json()["faults"] == ["the index is damaged. It is rebuilt."]


async def next_document(stream: AsyncIterator[str]) -> Any:
    """Return the next document of a stream, without what is before it."""
    while (text := await anext(stream)).startswith((":", "retry: ")):
        pass
    assert text.startswith("data: ") and text.endswith("\n\n")
    return json.loads(text.removeprefix("data: "))


def test_listener_gets_the_document_and_each_change(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The age alone is no change; a later listener first gets how the memory is then."""
    states = iter(["ok", "ok", "stale", "degraded"])
    asked = 0

    async def counted(_: Site) -> health_module.MemoryHealth:
        nonlocal asked
        asked += 1
        return health_module.MemoryHealth(next(states, "failing"), index_age_seconds=float(asked))

    async def listen() -> list[str]:
        events = Events(site)
        first = events.stream()
        found = [(await next_document(first))["status"] for _ in range(3)]
        return [*found, (await next_document(events.stream()))["status"]]

    monkeypatch.setattr(health_module, "health", counted)
    monkeypatch.setattr(health_module, "POLL_SECONDS", 0.001)
    assert asyncio.run(listen()) == ["ok", "stale", "degraded", "failing"]


def test_silence_has_comments(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """So both ends notice a lost connection."""

    async def listen() -> list[str]:
        stream = Events(site).stream()
        return [(await anext(stream))[:1] for _ in range(4)]

    monkeypatch.setattr(health_module, "ALIVE_SECONDS", 0.01)
    monkeypatch.setattr(health_module, "POLL_SECONDS", 0.001)
    assert asyncio.run(listen()) == ["r", "d", ":", ":"]


def test_one_listener_too_many_is_told_when_to_come_back(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if all come at once; and one that leaves makes room, whether or not it got anything."""
    app, token = make_app(site), (site.settings.keep_dir / TOKEN).read_text()
    headers = [(b"host", f"127.0.0.1:{site.port}".encode()), (b"authorization", f"Bearer {token}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/events", "query_string": b"", "headers": headers}
    statuses = list[int]()

    async def listen(gone: asyncio.Event) -> None:
        async def receive() -> dict[str, str]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(part: Any) -> None:
            if part["type"] == "http.response.start":
                statuses.append(part["status"])
                await asyncio.sleep(0)

        await app(dict(scope), receive, send)

    async def all_at_once() -> None:
        for _ in range(2):
            gone = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                for _ in range(2 * MAX_LISTENERS):
                    group.create_task(listen(gone))
                await asyncio.sleep(0.1)
                gone.set()

    monkeypatch.setattr(health_module, "POLL_SECONDS", 0.001)
    asyncio.run(all_at_once())
    assert sorted(statuses) == sorted([200, 503] * MAX_LISTENERS * 2)
