"""What each framework's documentation promises of the class that an adapter gives it. Skipped without the framework."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memsync import Memory
from memsync.errors import NoteError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return an empty folder of notes; these tests run without the project's fixtures, too."""
    (tmp_path / "notes").mkdir()
    return tmp_path / "notes"


@pytest.fixture
def memory(root: Path) -> Iterator[Memory]:
    """Yield its memory, with the real model."""
    with Memory.open(root) as memory:
        yield memory


def page(root: Path, folder: str) -> Path:
    """Return the only note of a folder."""
    (note,) = (root / folder).rglob("*.md")
    return note


def edit(note: Path, old: str, new: str) -> None:
    """Change a note as a person does in an editor."""
    assert old in note.read_text()
    note.write_text(note.read_text().replace(old, new))


def test_langgraph_item_is_a_page(memory: Memory, root: Path) -> None:
    """An edit by hand is seen by get and by search; a call that is cancelled is done to its end."""
    pytest.importorskip("langgraph.store.base")
    from memsync.integrations.langgraph import MemsyncStore

    store = MemsyncStore(memory)
    store.put(("users", "ada"), "food", {"text": "likes olives"})
    edit(page(root, "by-agents/langgraph/users/ada"), "likes", "hates")
    item = store.get(("users", "ada"), "food")
    assert item is not None and item.value == {"text": "hates olives"} and item.created_at.tzinfo
    assert [one.value for one in store.search((), query="olives")] == [{"text": "hates olives"}]
    assert store.list_namespaces(max_depth=1) == [("users",)]
    with pytest.raises(NotImplementedError):
        store.put(("users",), "x", {"text": "a"}, ttl=5)

    async def cancelled() -> None:
        call = asyncio.create_task(store.aput(("users", "ada"), "late", {"text": "late"}))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cancelled())  # which waits for its threads
    assert store.get(("users", "ada"), "late") is not None


def test_deepagents_keeps_its_files_in_the_store(memory: Memory, root: Path) -> None:
    """Its StoreBackend over LangGraph's store: so it needs no adapter of its own."""
    pytest.importorskip("deepagents")
    from deepagents.backends.store import StoreBackend

    from memsync.integrations.langgraph import MemsyncStore

    backend = StoreBackend(store=MemsyncStore(memory, "by-agents/deepagents"), namespace=lambda _: ("files",))
    assert backend.write("/plans/boat.md", "# Boat\n\nSell it.\n").error is None
    edit(page(root, "by-agents/deepagents/files"), "Sell it.", "Keep it.")
    assert backend.edit("/plans/boat.md", "Keep it.", "Keep it, and paint it.").error is None
    read = backend.read("/plans/boat.md")
    assert read.file_data is not None and "paint it" in read.file_data["content"]
    assert [one["path"] for one in backend.ls("/plans").entries or []] == ["/plans/boat.md"]
    assert [one["line"] for one in backend.grep("paint").matches or []] == [3]
    assert [one["path"] for one in backend.glob("**/*.md", "/").matches or []] == ["/plans/boat.md"]


def test_langchain_history_is_a_thread(memory: Memory, root: Path) -> None:
    """Each kind of message comes back equal; text is plain, and its edits count; broken JSON is an error."""
    pytest.importorskip("langchain_core")
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

    from memsync.integrations.langchain import MemsyncChatHistory

    history = MemsyncChatHistory(memory, "s/1")
    history.clear()
    assert history.messages == []
    call: dict[str, Any] = {"name": "look", "args": {"at": "a"}, "id": "1"}
    messages: list[BaseMessage] = [
        SystemMessage("Be brief."), HumanMessage("Hello\n\n## user\n\n```"), AIMessage("", tool_calls=[call]),
        ToolMessage("b", tool_call_id="1"), HumanMessage("```json\n1"), AIMessage("x", id="7"), HumanMessage(""),
        HumanMessage([{"type": "text", "text": "in \ud800 parts"}]),
    ]  # fmt: skip
    history.add_messages(messages)
    history.add_messages([])
    assert MemsyncChatHistory(memory, "s/1").messages == messages
    note = page(root, "threads")
    edit(note, "Be brief.", "Be kind.")
    assert history.messages[0] == SystemMessage("Be kind.")
    edit(note, '"type": "tool"', '"type: "tool"')
    with pytest.raises(NoteError, match=rf"threads/{re.escape(note.name)}:\d+: broken JSON"):
        _ = history.messages
    history.clear()
    assert history.messages == []


def test_langchain_documents_are_pages(memory: Memory, root: Path) -> None:
    """With metadata that filters, and a retriever that also finds what a person has written."""
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document
    from langchain_core.embeddings import FakeEmbeddings

    from memsync.integrations.langchain import MemsyncByteStore, MemsyncRetriever, MemsyncVectorStore

    (root / "boats.md").write_text("The red boat leaks.\n")
    texts, years = ["red boat", "red car"], [{"year": 2019}, {"year": 2025}]
    store = MemsyncVectorStore.from_texts(texts, FakeEmbeddings(size=1), years, ids=["a", "b"], memory=memory)
    assert store.similarity_search("red boat", filter={"year": {"$gt": 2020}}) == [
        Document("red car", id="b", metadata={"year": 2025})
    ]
    assert [one.id for one in store.as_retriever(search_kwargs={"k": 1}).invoke("boat")] == ["a"]
    scores = [score for _, score in store.similarity_search_with_relevance_scores("boat", k=2)]
    assert scores == sorted(scores, reverse=True) and all(0 <= score <= 1 for score in scores)
    found = MemsyncRetriever(memory=memory, k=1, filters={"by": ("owner",)}).invoke('leaks? kind:x "')
    assert [(one.id, one.page_content) for one in found] == [("boats.md:1", "The red boat leaks.")]
    assert store.delete() and store.get_by_ids(["a", "b"]) == []
    values = MemsyncByteStore(memory)
    values.mset([("a/b", b"\xff\x00"), ("a/c", "é\n".encode())])
    assert values.mget(["a/b", "a/c", "a"]) == [b"\xff\x00", "é\n".encode(), None]


def test_adk_finds_what_a_user_said(memory: Memory, root: Path) -> None:
    """Of that user and app alone; a session that is added again adds what is new, and keeps an edit."""
    pytest.importorskip("google.adk.memory")
    from google.adk.events import Event
    from google.adk.sessions import Session
    from google.genai.types import Content, Part

    from memsync.integrations.adk import MemsyncMemoryService

    def said(identity: str, text: str) -> Event:
        return Event(id=identity, author="user", timestamp=5.0, content=Content(role="user", parts=[Part(text=text)]))

    async def run() -> None:
        service = MemsyncMemoryService(memory)
        silent = Event(id="0", author="model")
        session = Session(id="s", app_name="app", user_id="ada", events=[silent, said("1", "I like olives")])
        await service.add_session_to_memory(session)
        edit(page(root, "by-agents/adk/app/ada"), "like", "hate")
        session.events.append(said("2", "The boat is red"))
        await service.add_session_to_memory(session)
        await service.add_events_to_memory(app_name="app", user_id="bob", events=[said("3", "olives are green")])
        found = await service.search_memory(app_name="app", user_id="ada", query="olives")
        first = found.memories[0]
        assert (first.id, first.author, first.timestamp) == ("1", "user", "1970-01-01T00:00:05+00:00")
        assert first.content.role == "user" and (first.content.parts or [])[0].text == "I hate olives"
        assert {one.id for one in found.memories} <= {"1", "2"}
        await service.delete_memory(app_name="app", user_id="ada", memory_id="1")
        left = await service.search_memory(app_name="app", user_id="ada", query="olives")
        assert "1" not in {one.id for one in left.memories}
        nobody = await service.search_memory(app_name="other", user_id="ada", query="olives")
        assert nobody.memories == []

    asyncio.run(run())


def test_strands_store_searches_and_adds_once(memory: Memory, root: Path) -> None:
    """Through its MemoryManager, which takes stores by their methods."""
    pytest.importorskip("strands.memory")
    from strands.memory import MemoryManager

    from memsync.integrations.strands import MemsyncMemoryStore

    (root / "boats.md").write_text("The red boat leaks.\n")

    async def run() -> None:
        store = MemsyncMemoryStore(memory)
        manager = MemoryManager(stores=[store], add_tool_config=True)
        found = await manager.search("red boat", {"max_search_results": 1})
        assert [(one.content, one.store_name) for one in found] == [("The red boat leaks.", "memsync")]
        assert found[0].metadata and found[0].metadata["citation"] == "boats.md:1"
        for _ in range(2):
            await manager.add("Ada likes olives", {"metadata": {"sure": True}})
        edit(page(root, "by-agents/strands"), "likes", "hates")
        assert (await store.search("olives"))[0].content.startswith("Ada hates olives\n")
        assert await store.search(" ") == []

    asyncio.run(run())


def test_llamaindex_retriever_and_block(memory: Memory, root: Path) -> None:
    """The block takes in what the short-term memory drops, and quotes what fits the last message."""
    pytest.importorskip("llama_index.core")
    from llama_index.core.base.llms.types import ChatMessage

    from memsync.integrations.llamaindex import MemsyncMemoryBlock, MemsyncRetriever

    (root / "boats.md").write_text("The red boat leaks.\n")
    nodes = MemsyncRetriever(memory, similarity_top_k=1).retrieve("which boat leaks")
    assert [(one.node.node_id, one.text) for one in nodes] == [("boats.md:1", "The red boat leaks.")]

    async def run() -> None:
        block = MemsyncMemoryBlock(memory=memory)
        said = [ChatMessage(role=role, content=f"{role} likes olives") for role in ("user", "assistant")]
        await block.aput([*said, ChatMessage(role="user")], from_short_term_memory=True, session_id="s1")
        kept = [(one.role, one.text) for one in memory.read_thread("id:llamaindex:s1")]
        assert kept == [("user", "user likes olives"), ("assistant", "assistant likes olives")]
        quoted = await block.aget([ChatMessage(role="user", content="which boat leaks"), ChatMessage(role="user")])
        assert "boats.md:1\nThe red boat leaks." in quoted
        assert await block.aget([]) == ""

    asyncio.run(run())
