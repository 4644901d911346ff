"""A session of the OpenAI Agents SDK as a thread: `MemsyncSession("user-1", Memory.open("notes"))`."""

from __future__ import annotations

from typing import Any

from agents.memory.session import SessionABC
from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit

from memsync.asynchronous import AsyncMemory
from memsync.errors import NoThread
from memsync.integrations.items import items_of, message_of
from memsync.memory import Memory, RemoteMemory


class MemsyncSession(SessionABC):
    """The items of one session, in the thread `id:openai-agents:SESSION_ID`. All methods raise MemsyncError."""

    def __init__(
        self,
        session_id: str,
        memory: Memory | RemoteMemory | AsyncMemory,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        """Take a memory, which the caller closes."""
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or SessionSettings())
        self._memory = memory if isinstance(memory, AsyncMemory) else AsyncMemory(memory)
        self._thread = f"id:openai-agents:{session_id}"

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return all items, or the last ones, oldest first."""
        limit = resolve_session_limit(limit, self.session_settings)
        if limit is not None and limit <= 0:
            return []
        try:
            return items_of(await self._memory.read_thread(self._thread, last=limit or 0))
        except NoThread:
            return []

    async def add_items(self, items: list[Any]) -> None:
        """Append items in one write."""
        if items:
            await self._memory.append_messages(self._thread, [message_of(item) for item in items], index=False)

    async def pop_item(self) -> Any:
        """Remove the last item and return it; None if there is none. An item that is no JSON any more stays."""
        try:
            items_of(await self._memory.read_thread(self._thread, last=1))
            return next(iter(items_of(await self._memory.truncate_thread(self._thread, -1, index=False))), None)
        except NoThread:
            return None

    async def clear_session(self) -> None:
        """Remove all items."""
        try:
            await self._memory.truncate_thread(self._thread, 0, index=False)
        except NoThread:
            return
