"""What every test may use: a memory root in a temporary folder, a quick embedder, and the real data folder if named."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

from memsync.embedders.minilm import WordPieceCounter
from memsync.indexes.sqlite.index import SqliteIndex
from memsync.memory import Memory
from memsync.model import EmbeddingSpace, Note, NotePath
from memsync.notes.chunk import ChunkLimits
from memsync.notes.reader import NoteReader
from memsync.notes.rules import PathRules
from memsync.settings import DEFAULT_KINDS, DEFAULT_TIERS, Settings, load_settings
from tests.daemon_process import Cli

hypothesis.settings.register_profile("repeatable", deadline=None, max_examples=150, derandomize=True)
hypothesis.settings.load_profile("repeatable")

COUNTER = WordPieceCounter()
LIMITS = ChunkLimits(max_tokens=254, small_tokens=120, run_tokens=400, window_entries=5, window_stride=2)
RULES = PathRules(DEFAULT_KINDS, DEFAULT_TIERS)

Parse = Callable[..., Note]


class FakeEmbedder:
    """Stands in for a model, which is slow: a vector is a function of the words of a text and of nothing else.

    `seen` lists every passage it was asked to embed; `fail` makes it raise what it holds.
    """

    def __init__(self, name: str = "fake", dimension: int = 16) -> None:
        self.space = EmbeddingSpace("fake", name, "1", dimension)
        self.seen: list[str] = []
        self.fail: Exception | None = None

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Any]:
        pause()
        if self.fail is not None:
            raise self.fail
        self.seen += texts
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> Any:
        if self.fail is not None:
            raise self.fail
        return self._vector(text)

    def unload(self) -> None:
        """Nothing is loaded."""

    def close(self) -> None:
        """Nothing is open."""

    def _vector(self, text: str) -> Any:
        vector = np.full(self.space.dimension, 0.01, dtype=np.float32)
        for word in text.lower().split():
            digest = hashlib.sha256(f"{self.space.model}{word}".encode()).digest()
            vector[digest[0] % self.space.dimension] += 1.0
        return (vector / np.linalg.norm(vector)).astype(np.float32)


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every test from the user's own config, state and environment."""
    for name in [name for name in os.environ if name.startswith(("MEMSYNC_", "OPENAI_")) and name != "BENCH_DATA"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty memory root."""
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


@pytest.fixture
def write(root: Path) -> Callable[[str, str | bytes], Path]:
    """Write one file beneath the root, folders included, and return its path."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


@pytest.fixture
def embedder() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
def settings(root: Path) -> Settings:
    return load_settings(root=root, environ={}, cwd=root)


@pytest.fixture
def make_memory(settings: Settings, embedder: FakeEmbedder) -> Iterator[Callable[..., Memory]]:
    """Open the root with the fake embedder; called again it is a second process's view of the same index."""
    opened: list[Memory] = []

    def make(
        own: FakeEmbedder = embedder, old: FakeEmbedder | None = None, own_settings: Settings = settings
    ) -> Memory:
        index = SqliteIndex(own_settings.index_dir / "index.db")
        memory = Memory(own_settings, index, COUNTER, lambda: own, lambda space: old or own)
        opened.append(memory)
        return memory

    yield make
    for memory in opened:
        memory.close()


@pytest.fixture
def memory(make_memory: Callable[..., Memory]) -> Memory:
    return make_memory()


@pytest.fixture
def reader() -> NoteReader:
    """The note reader with default settings."""
    return NoteReader(COUNTER.count, RULES, LIMITS, 2_000_000)


@pytest.fixture
def parse(reader: NoteReader) -> Parse:
    def parse_text(text: str, path: str = "note.md") -> Note:
        return reader.read(NotePath(path), text.encode())[0]

    return parse_text


@pytest.fixture(scope="session")
def bench_data() -> Path:
    """The folder of real data; tests that need it are skipped with this reason where it is absent."""
    named = os.environ.get("BENCH_DATA", "")
    if not named or not Path(named).is_dir():
        pytest.skip("BENCH_DATA names no data folder")
    return Path(named)


@pytest.fixture
def cli(root: Path) -> Iterator[Cli]:
    """Run memsync on the root, each call a process of its own; daemons that are left over are ended."""
    found = Cli(root)
    yield found
    found.close()
