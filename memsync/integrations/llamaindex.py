"""LlamaIndex: a retriever, and a memory block that keeps conversations. Needs `memsync[llamaindex]`."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory.memory import BaseMemoryBlock
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from pydantic import Field

from memsync.integrations.values import about, found_for
from memsync.memory import MemoryApi
from memsync.model.answer import Hit
from memsync.model.conversation import NewMessage


class MemsyncRetriever(BaseRetriever):
    """Finds passages of all notes. A node's id is the citation."""

    def __init__(self, memory: MemoryApi, similarity_top_k: int = 4, **filters: Any) -> None:
        """Take a memory, which the caller closes, how many nodes to return, and filters of `Memory.search`."""
        super().__init__()
        self._memory, self._limit, self._filters = memory, similarity_top_k, filters

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = found_for(self._memory, query_bundle.query_str, self._limit, self._filters)
        return [NodeWithScore(node=_node(hit), score=hit.score) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(hit: Hit) -> TextNode:
    return TextNode(id_=hit.citation, text=hit.text, metadata=about(hit))


class MemsyncMemoryBlock(BaseMemoryBlock[str]):
    """Keeps what leaves the short-term memory in the thread `id:llamaindex:SESSION`, and quotes passages of all notes.

    It gets a text of at most `tokens` tokens for the last message of the conversation.
    """

    name: str = "memsync"
    memory: Any
    tokens: int = 500
    filters: dict[str, Any] = Field(default_factory=dict)

    async def _aget(self, messages: list[ChatMessage] | None = None, **_: Any) -> str:
        query = next((one.content for one in reversed(messages or []) if one.content), "")
        hits = await asyncio.to_thread(found_for, self.memory, query, None, {"tokens": self.tokens, **self.filters})
        return "\n\n".join(f"{hit.citation}\n{hit.text}" for hit in hits)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        sessions: dict[str, list[NewMessage]] = {}
        for one in messages:
            if one.content:
                session = str(one.additional_kwargs.get("session_id") or self.name)
                sessions.setdefault(session, []).append(NewMessage(one.role.value, one.content))
        for session, new in sessions.items():
            await asyncio.to_thread(self.memory.append_messages, f"id:llamaindex:{session}", new, index=False)
