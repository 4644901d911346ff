"""Sessions of the Claude Agent SDK as threads: `ClaudeAgentOptions(session_store=MemsyncSessionStore(memory))`."""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial
from typing import Any

from anyio.to_thread import run_sync  # not asyncio's: the SDK also runs on trio
from claude_agent_sdk import fold_session_summary
from claude_agent_sdk.types import SessionStore

from memsync.errors import NoSuchNote, NoThread
from memsync.integrations.items import items_of, message_of
from memsync.integrations.values import complete
from memsync.memory import Memory, RemoteMemory


class MemsyncSessionStore(SessionStore):
    """Each session, and each subagent's transcript, is a thread. All methods raise MemsyncError.

    Summaries are made of the threads when they are asked for, so that they are true whoever has edited one.
    """

    def __init__(self, memory: Memory | RemoteMemory) -> None:
        """Take a memory, which the caller closes."""
        self._memory = memory

    async def append(self, key: Any, entries: list[Any]) -> None:
        """Append the entries in one write."""
        if entries:
            append = partial(self._memory.append_messages, index=False)
            await run_sync(append, _thread(key), [message_of(one) for one in entries])

    async def load(self, key: Any) -> list[Any] | None:
        """Return the entries, each uuid once, where it came first; None if there are none."""
        try:
            entries = items_of(await run_sync(self._memory.read_thread, _thread(key)))
        except NoThread:
            return None
        once = dict[Any, Any]()
        for number, entry in enumerate(entries):
            uuid = entry.get("uuid") if isinstance(entry, dict) else None
            once.setdefault(uuid if isinstance(uuid, str) else number, entry)
        return [*once.values()] or None

    async def list_sessions(self, project_key: str) -> list[Any]:
        """Return the sessions of a project with the time of their last entry, in ms."""
        known = [(key, thread) for key, thread in await self._threads() if key[0] == project_key and len(key) == 2]
        return [{"session_id": key[1], "mtime": _ms(thread.last_active)} for key, thread in known]

    async def list_session_summaries(self, project_key: str) -> list[Any]:
        """Return the summary of each session of a project."""
        found = []
        for one in await self.list_sessions(project_key):
            key: Any = {"project_key": project_key, "session_id": one["session_id"]}
            if entries := await self.load(key):
                found.append({**fold_session_summary(None, key, entries), "mtime": one["mtime"]})
        return found

    async def delete(self, key: Any) -> None:
        """Delete a session with its subagents', or one of these. `undo_forget` puts them back."""
        wanted = _key(key)
        for known, _ in await self._threads():
            if known[: len(wanted)] == wanted:
                try:
                    await run_sync(self._memory.delete_note, f"id:{json.dumps(known)}")
                except NoSuchNote:
                    continue

    async def list_subkeys(self, key: Any) -> list[str]:
        """Return the subpaths of a session."""
        return [known[2] for known, _ in await self._threads() if len(known) == 3 and known[:2] == _key(key)]

    async def _threads(self) -> list[tuple[list[str], Any]]:
        """Return the key of each thread that this store has made, with the thread."""
        found = []
        for thread in (await run_sync(complete, self._memory, self._memory.threads)).threads:
            try:
                key = json.loads(thread.session)
            except ValueError:
                continue
            if isinstance(key, list) and len(key) in (2, 3) and all(isinstance(part, str) for part in key):
                found.append((key, thread))
        return found


def _key(key: Any) -> list[str]:
    return [key["project_key"], key["session_id"], *filter(None, [key.get("subpath")])]


def _thread(key: Any) -> str:
    return f"id:{json.dumps(_key(key))}"


def _ms(time: str) -> int:
    """Return a time in ms; 0 of a thread whose messages have none, because a person has written them."""
    return int(datetime.fromisoformat(time).timestamp() * 1000) if time else 0
