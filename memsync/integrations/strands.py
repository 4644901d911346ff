"""Strands: a memory store that finds passages of all notes, `MemoryStore`. Needs `memsync[strands]`."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from strands.memory.types import MemoryEntry, MemoryStore, Metadata, SearchOptions

from memsync.integrations.values import Values, about, found_for
from memsync.memory import MemoryApi
from memsync.model.text import shortened

MAX_NAME_CHARS = 60


class MemsyncMemoryStore(MemoryStore):
    """Searches the memory; what an agent adds is a note in by-agents/strands/, once for each text."""

    def __init__(
        self, memory: MemoryApi, name: str = "memsync", *, description: str = "Notes of the user and their agents",
        max_search_results: int = 10, writable: bool = True, folder: str = "by-agents/strands", **filters: Any,
    ) -> None:  # fmt: skip
        """Take a memory, which the caller closes, the store's own settings, and filters of `Memory.search`."""
        self.name, self.description, self.max_search_results = name, description, max_search_results
        self.writable, self.extraction = writable, None
        self._memory, self._filters, self._values = memory, filters, Values(memory, folder)

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Return the passages that match best, each with its citation."""
        limit = (options or {}).get("max_search_results", self.max_search_results or 10)
        hits = await asyncio.to_thread(found_for, self._memory, query, limit, self._filters)
        return [MemoryEntry(hit.text, metadata=about(hit)) for hit in hits]

    async def add(self, content: str, metadata: Metadata | None = None) -> None:
        """Write a text as a note, called by its first words."""
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        name = f"{shortened(' '.join(content.split()), MAX_NAME_CHARS)} {digest}"
        value = {"text": content, **({"metadata": metadata} if metadata else {})}
        await asyncio.to_thread(self._values.put, (name,), value)
