"""OpenAI Agents' sessions, where the framework is installed: `make integrations ARGS=openai-agents`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memsync import Memory
from memsync.errors import NoteError

pytest.importorskip("agents", reason="openai-agents is not installed")
from memsync.integrations.openai_agents import MemsyncSession

ITEMS: list[Any] = [
    {"role": "user", "content": "Which store?"},
    {"type": "function_call", "call_id": "1", "name": "search", "arguments": '{"q": "store"}'},
    {"type": "function_call_output", "call_id": "1", "output": "## user\n```"},
    {"role": "assistant", "content": "SQLite. \ud800"},
]


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Memory]:
    """Yield a memory of its own; these tests run without the project's fixtures, too."""
    (tmp_path / "notes").mkdir()
    with Memory.open(tmp_path / "notes") as memory:
        yield memory


def test_session_is_a_page_that_a_person_edits(notes: Memory) -> None:
    session = MemsyncSession("ada", notes)

    async def run() -> None:
        await session.add_items(ITEMS)
        assert await MemsyncSession("ada", notes).get_items() == ITEMS
        page = notes.settings.root / notes.read_thread("id:openai-agents:ada")[0].path
        page.write_text(page.read_text().replace("Which store?", "Which shop?"))
        assert (await session.get_items())[0] == {"role": "user", "content": "Which shop?"}
        assert await session.get_items(2) == ITEMS[-2:] and await session.get_items(0) == []
        await session.clear_session()
        assert await session.get_items() == [] and await session.pop_item() is None

    asyncio.run(run())


def test_broken_item_is_named_and_stays(notes: Memory) -> None:
    """What a person has broken is not thrown away by a pop."""
    session = MemsyncSession("ada", notes)
    asyncio.run(session.add_items([{"type": "x", "n": 1}]))
    message = notes.read_thread("id:openai-agents:ada")[0]
    page = notes.settings.root / message.path
    page.write_text(page.read_text().replace('"n": 1', '"n": '))
    before = page.read_text()
    with pytest.raises(NoteError, match=f"{message.path}:{message.start_line + 6}: broken JSON"):
        asyncio.run(session.pop_item())
    assert page.read_text() == before


def test_eight_pops_at_once_take_each_item_once(notes: Memory) -> None:
    async def run() -> None:
        sessions = [MemsyncSession("ada", notes) for _ in range(8)]
        await sessions[0].add_items([{"n": number} for number in range(40)])
        taken = await asyncio.gather(*(sessions[number % 8].pop_item() for number in range(40)))
        assert sorted(one["n"] for one in taken) == [*range(40)]
        assert await sessions[0].get_items() == []

    asyncio.run(run())


def test_cancelled_call_leaves_nothing_half_done(notes: Memory) -> None:
    async def run() -> None:
        session = MemsyncSession("ada", notes)
        await session.add_items([{"n": "first"}])
        for number in range(10):
            task = asyncio.ensure_future(session.add_items([{"n": number}, {"n": number}]))
            await asyncio.sleep(random.uniform(0, 0.004))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await session.add_items([{"n": "last"}])
        await asyncio.sleep(0.2)  # what a cancelled call has begun is done to its end
        numbers = [one["n"] for one in await session.get_items()]
        assert all(numbers.count(number) in (0, 2) for number in range(10))

    asyncio.run(run())
