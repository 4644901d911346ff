"""LangChain: a retriever, a vector store, a byte store and a chat history. Needs `memsync[langchain]`."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Self

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore
from pydantic import Field

from memsync.errors import NoThread
from memsync.integrations.items import item_of, message_of
from memsync.integrations.values import Entry, Values, about, found_for, matches
from memsync.memory import MemoryApi


class MemsyncRetriever(BaseRetriever):
    """Finds passages of all notes. A document's id is the citation; `filters` are those of `Memory.search`."""

    memory: Any
    k: int = 4
    filters: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(self, query: str, *, k: int | None = None, **_: Any) -> list[Document]:
        hits = found_for(self.memory, query, self.k if k is None else k, self.filters)
        return [Document(hit.text, id=hit.citation, metadata={"source": hit.citation, **about(hit)}) for hit in hits]


class MemsyncVectorStore(VectorStore):
    """Documents are notes in by-agents/langchain/documents/, searched by meaning and by word with memsync's own model.

    It gives nobody vectors, so there is no search by vector, and no maximal marginal relevance.
    """

    def __init__(self, memory: MemoryApi, folder: str = "by-agents/langchain/documents") -> None:
        """Take a memory, which the caller closes, and the folder of the documents."""
        self._values = Values(memory, folder)

    @classmethod
    def from_texts(
        cls, texts: list[str], embedding: Embeddings,  # noqa: ARG003 (LangChain's)
        metadatas: list[dict[str, Any]] | None = None,
        *, ids: list[str] | None = None, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Make a store, of `memory` and perhaps `folder`, with these texts. `embedding` is not used."""
        store = cls(**kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(
        self, texts: Iterable[str], metadatas: list[dict[str, Any]] | None = None,
        *, ids: Sequence[str | None] | None = None, **_: Any,
    ) -> list[str]:  # fmt: skip
        """Write texts, also over those with the same ids, and return their ids. Raises MemsyncError."""
        texts = list(texts)
        given = [one or str(uuid.uuid4()) for one in ids or [None] * len(texts)]
        # A list, so that lengths that differ are found before anything is written.
        for key, text, metadata in [*zip(given, texts, metadatas or [{}] * len(texts), strict=True)]:
            self._values.put((key,), {"page_content": text, **({"metadata": metadata} if metadata else {})})
        return given

    def delete(self, ids: list[str] | None = None, **_: Any) -> bool:
        """Delete documents by id, without ids all; missing ones do not matter."""
        for name in [(one,) for one in ids] if ids is not None else [one.name for one in self._values.entries()]:
            self._values.delete(name)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids that there are."""
        return [_of_entry(entry) for one in ids if (entry := self._values.get((one,)))]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the k best documents; `filter` is of their metadata: `{"year": {"$gt": 2020}}`."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Mapping[str, Any] | None = None, **_: Any,  # noqa: A002 (LangChain's)
    ) -> list[tuple[Document, float]]:  # fmt: skip
        """Return the k best documents with their scores: probabilities, the highest first."""
        found = ((_of_entry(entry), score) for score, entry in self._values.search(query))
        return list(islice((one for one in found if matches(one[0].metadata, filter or {})), k))

    _similarity_search_with_relevance_scores = similarity_search_with_score


def _of_entry(entry: Entry) -> Document:
    metadata = entry.value.get("metadata", {})
    return Document(str(entry.value.get("page_content", "")), id=entry.name[-1], metadata=metadata)


class MemsyncByteStore(BaseStore[str, bytes]):
    """Values are notes in by-agents/langchain/values/: UTF-8 as text, other bytes in base64."""

    def __init__(self, memory: MemoryApi, folder: str = "by-agents/langchain/values") -> None:
        """Take a memory, which the caller closes, and the folder of the values."""
        self._values = Values(memory, folder)

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the value of each key, or None."""
        return [_bytes(entry) if (entry := self._values.get((key,))) else None for key in keys]

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """Set values."""
        for key, value in key_value_pairs:
            try:
                self._values.put((key,), {"text": value.decode()})
            except UnicodeDecodeError:
                self._values.put((key,), {"base64": base64.b64encode(value).decode()})

    def mdelete(self, keys: Sequence[str]) -> None:
        """Delete keys; missing ones do not matter."""
        for key in keys:
            self._values.delete((key,))

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Yield the keys that begin with a prefix."""
        return (entry.name[-1] for entry in self._values.entries() if entry.name[-1].startswith(prefix or ""))


def _bytes(entry: Entry) -> bytes:
    text = entry.value.get("text")
    return text.encode() if isinstance(text, str) else base64.b64decode(entry.value.get("base64", ""))


class MemsyncChatHistory(BaseChatMessageHistory):
    """A conversation is the thread `id:langchain:SESSION`: texts are Markdown, what else a message has is JSON."""

    def __init__(self, memory: MemoryApi, session_id: str) -> None:
        """Take a memory, which the caller closes, and the id of a conversation."""
        self._memory, self._thread = memory, f"id:langchain:{session_id}"

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # LangChain declares an attribute
        """The messages, oldest first, as the file has them now."""
        try:
            return [_message(item_of(one)) for one in self._memory.read_thread(self._thread)]
        except NoThread:
            return []

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages in one write."""
        if messages:
            self._memory.append_messages(self._thread, [message_of(_item(one)) for one in messages], index=False)

    def clear(self) -> None:
        """Remove all messages; the note stays."""
        try:
            self._memory.truncate_thread(self._thread, 0, index=False)
        except NoThread:
            return


_CLASSES: dict[str, type[BaseMessage]] = {"user": HumanMessage, "assistant": AIMessage, "system": SystemMessage}
_ROLES = {"human": "user", "ai": "assistant", "system": "system"}


def _item(message: BaseMessage) -> dict[str, Any]:
    """Return a message as an item of a session: text alone as a role and a text, so that a person can edit it."""
    role, content = _ROLES.get(message.type, "tool"), message.content
    if role in _CLASSES and message == _CLASSES[role](content=content) and isinstance(content, str):
        return {"role": role, "content": content}
    return {"role": role, **message_to_dict(message)}


def _message(item: Any) -> BaseMessage:
    if "type" in item:
        return messages_from_dict([item])[0]
    return _CLASSES.get(item["role"], HumanMessage)(content=item["content"])
