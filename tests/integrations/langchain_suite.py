"""LangChain's own standard tests (langchain-tests), with memsync's classes.

pytest -c /dev/null --noconftest --asyncio-mode=auto tests/integrations/langchain_suite.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import (
    BaseStoreAsyncTests,
    BaseStoreSyncTests,
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)

from memsync import Memory
from memsync.integrations.langchain import MemsyncByteStore, MemsyncRetriever, MemsyncVectorStore


@pytest.fixture
def memory() -> Iterator[Memory]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "notes")
        root.mkdir()
        with Memory.open(root) as opened:
            yield opened


class TestRetriever(RetrieversIntegrationTests):
    """LangChain's tests of Retriever."""

    @pytest.fixture(autouse=True)
    def _notes(self, memory: Memory) -> None:
        for number in range(5):
            memory.new_note(f"animals/{number}", f"Heron number {number} nests in the reeds.")
        self.memory = memory

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return MemsyncRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.memory}

    @property
    def retriever_query_example(self) -> str:
        return "where do herons nest"


class TestVectorStore(VectorStoreIntegrationTests):
    """LangChain's tests of VectorStore."""

    @pytest.fixture
    def vectorstore(self, memory: Memory) -> VectorStore:  # type: ignore[override]
        return MemsyncVectorStore(memory)


class TestByteStore(BaseStoreSyncTests[bytes]):
    """LangChain's tests of ByteStore."""

    @pytest.fixture
    def kv_store(self, memory: Memory) -> BaseStore[str, bytes]:  # type: ignore[override]
        return MemsyncByteStore(memory)

    @pytest.fixture
    def three_values(self) -> tuple[bytes, bytes, bytes]:  # type: ignore[override]
        return (b"text\n", b"\xff\x00", b"")


class TestAsyncByteStore(BaseStoreAsyncTests[bytes]):
    """LangChain's tests of AsyncByteStore."""

    @pytest.fixture
    async def kv_store(self, memory: Memory) -> BaseStore[str, bytes]:  # type: ignore[override]
        return MemsyncByteStore(memory)

    @pytest.fixture
    def three_values(self) -> tuple[bytes, bytes, bytes]:  # type: ignore[override]
        return (b"text\n", b"\xff\x00", b"")
