"""The Claude Agent SDK's sessions, where it is installed: `make integrations ARGS=claude-agent-sdk`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from memsync import Memory

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
from claude_agent_sdk.testing import run_session_store_conformance

from memsync.integrations.claude_agent_sdk import MemsyncSessionStore

KEY: Any = {"project_key": "-home-ada", "session_id": "s"}


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Memory]:
    """Yield a memory of its own; these tests run without the project's fixtures, too."""
    (tmp_path / "notes").mkdir()
    with Memory.open(tmp_path / "notes") as memory:
        yield memory


def entries(*uuids: str) -> list[Any]:
    return [{"type": "user", "uuid": uuid, "n": 1.0} for uuid in uuids]


def test_all_contracts_hold(tmp_path: Path) -> None:
    """The SDK's own 14."""
    opened, numbers = list[Memory](), count()

    def make() -> MemsyncSessionStore:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        opened.append(Memory.open(folder))
        return MemsyncSessionStore(opened[-1])

    asyncio.run(run_session_store_conformance(make))
    for memory in opened:
        memory.close()


def test_batch_that_is_sent_again_is_there_once(notes: Memory) -> None:
    """In the place of its first time, even if others came between."""
    store = MemsyncSessionStore(notes)

    async def run() -> None:
        await store.append(KEY, entries("a", "b"))
        await store.append(KEY, entries("c"))
        await store.append(KEY, entries("a", "b"))
        await store.append(KEY, [{"type": "title"}, {"type": "title"}])
        assert await store.load(KEY) == [*entries("a", "b", "c"), {"type": "title"}, {"type": "title"}]

    asyncio.run(run())


def test_keys_are_exact(notes: Memory) -> None:
    store = MemsyncSessionStore(notes)
    keys: list[Any] = [
        {"project_key": "a", "session_id": "b/c"}, {"project_key": "a/b", "session_id": "c"},
        {"project_key": "a", "session_id": "b", "subpath": "c"}, {"project_key": "A", "session_id": "b"},
        {"project_key": "a", "session_id": "é\u202e"},
    ]  # fmt: skip

    async def run() -> None:
        for number, key in enumerate(keys):
            await store.append(key, entries(str(number)))
        for number, key in enumerate(keys):
            assert await store.load(key) == entries(str(number))
        assert sorted(one["session_id"] for one in await store.list_sessions("a")) == ["b/c", "é\u202e"]
        assert await store.list_subkeys({"project_key": "a", "session_id": "b"}) == ["c"]

    asyncio.run(run())


def test_deleted_session_comes_back(notes: Memory) -> None:
    store = MemsyncSessionStore(notes)
    asyncio.run(store.append(KEY, entries("a")))
    path = notes.read_thread('id:["-home-ada", "s"]')[0].path
    asyncio.run(store.delete(KEY))
    assert asyncio.run(store.load(KEY)) is None
    notes.undo_forget(user=path)
    assert asyncio.run(store.load(KEY)) == entries("a")
    asyncio.run(store.delete(KEY))
    asyncio.run(store.append(KEY, entries("b")))
    assert asyncio.run(store.load(KEY)) == entries("b")
