"""Google ADK: what was said in sessions, as a memory, `BaseMemoryService`. Needs `memsync[adk]`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice

from google.adk.events import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai.types import Content, Part

from memsync.integrations.values import Entry, Name, Values
from memsync.memory import MemoryApi


class MemsyncMemoryService(BaseMemoryService):
    """The text of each event is a note in by-agents/adk/APP/USER/; a search sees the notes of that user alone."""

    def __init__(self, memory: MemoryApi, folder: str = "by-agents/adk", limit: int = 10) -> None:
        """Take a memory, which the caller closes, the folder of the events, and how many a search returns at most."""
        self._values, self._limit = Values(memory, folder), limit

    async def add_session_to_memory(self, session: Session) -> None:
        """Write the events of a session that are not there yet. An event that a person has edited stays as it is."""
        await asyncio.to_thread(self._add, (session.app_name, session.user_id), session.events, session.id)

    async def add_events_to_memory(
        self, *, app_name: str, user_id: str, events: Sequence[Event], session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,  # noqa: ARG002 (ADK's)
    ) -> None:  # fmt: skip
        """Write events that are not there yet."""
        await asyncio.to_thread(self._add, (app_name, user_id), events, session_id or "")

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return what was said with this user, the best match first."""
        return await asyncio.to_thread(self._search, (app_name, user_id), query)

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Empty an event. Its note stays, or adding the session again would bring the event back."""
        if memory_id:
            await asyncio.to_thread(self._values.put, (app_name, user_id, memory_id), {"text": ""})

    def _add(self, user: Name, events: Sequence[Event], session: str) -> None:
        for event in events:
            parts = event.content.parts if event.content else None
            text = "\n".join(part.text for part in parts or () if part.text and not part.thought)
            if event.content and text and not self._values.get((*user, event.id)):
                role, time = event.content.role, datetime.fromtimestamp(event.timestamp, UTC).isoformat()
                value = {"text": text, "author": event.author, "role": role, "session": session, "time": time}
                self._values.put((*user, event.id), value)

    def _search(self, user: Name, query: str) -> SearchMemoryResponse:
        found = (entry for score, entry in self._values.search(query, user) if score > 0 and entry.value.get("text"))
        return SearchMemoryResponse(memories=[_memory(entry) for entry in islice(found, self._limit)])


def _memory(entry: Entry) -> MemoryEntry:
    # A person may have written a number.
    value = {key: str(part) for key, part in entry.value.items() if part is not None}
    content = Content(role=value.get("role"), parts=[Part(text=value["text"])])
    return MemoryEntry(id=entry.name[-1], content=content, author=value.get("author"), timestamp=value.get("time"))
