"""A search over the sum of its parts: embedding the question, the KNN, the FTS5 query, and the stat walk, each bare."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.indexes import connected, index_dir, opened
from benchmarks.measures import read_questions
from benchmarks.report import Row
from benchmarks.timing import seconds
from benchmarks.unchanged import walk
from memsync.features.evaluation.measures import percentile
from memsync.index.sqlite import queries, schema
from memsync.index.sqlite.fields import any_of
from memsync.index.sqlite.vectors import to_int8
from memsync.memory import Memory
from memsync.model.query import EmbeddingSpace
from memsync.ports import Embedder
from memsync.wiring import make_embedder

ROUNDS = 5
CHUNKS = 100_000


def real(data: Path, state: Path) -> list[Row]:
    """Ask the questions about the RFCs, model warm, five times over."""
    root = data / "rfcs"
    with opened(root, state) as memory:
        memory.sync()
        memory.search("warm up")
        chunks = memory.status().chunks
        embedder = make_embedder("minilm", 0)
        return _compare(memory, embedder, root, state, _questions(data), f"rfcs/ ({chunks:,} chunks)", (1.5, 2.5))


def large(data: Path, state: Path) -> list[Row]:
    """The same on 100,000 chunks: notes of sentences drawn from the RFCs, random vectors."""
    root = state / "large"
    _make_notes(data / "rfcs", root)
    embedder = RandomVectors()
    with connected(root, state, embedder) as memory:
        memory.sync()
        memory.search("warm up")
        chunks = memory.status().chunks
        return _compare(memory, embedder, root, state, _questions(data), f"{chunks:,} chunks", (1.4, 2.0))


def _compare(
    memory: Memory,
    embedder: Embedder,
    root: Path,
    state: Path,
    questions: Sequence[str],
    name: str,
    asked: tuple[float, float],
) -> list[Row]:
    parts = _Parts(index_dir(root, state) / "index.db", embedder, root)
    whole, bare = [], []
    for _ in range(ROUNDS):
        for question in questions:
            words = memory.parse(question).words
            bare.append(seconds(lambda q=question, w=words: parts.run(q, w)))  # type: ignore[misc]  # because: as in cold.py
            whole.append(seconds(lambda q=question: memory.search(q)))  # type: ignore[misc]  # because: as in cold.py
    rows = []
    for share, limit in zip((0.5, 0.95), asked, strict=True):
        ours, theirs = percentile(whole, share), percentile(bare, share)
        figure = f"{ours / theirs:.2f} × ({ours * 1000:.1f} ms over {theirs * 1000:.1f} ms)"
        label = f"hybrid search, {name}: p{share * 100:.0f} over its parts'"
        rows.append(Row(label, figure, f"≤ {limit} ×", ours / theirs <= limit))
    return rows


class _Parts:
    """The same work without memsync around it, through a connection of its own."""

    def __init__(self, database: Path, embedder: Embedder, root: Path) -> None:
        self._db = schema.connect(database, readonly=True)
        self._embedder = embedder
        self._root = str(root)
        self._space = self._db.execute("SELECT id FROM space WHERE state = 'active'").get

    def run(self, question: str, words: Sequence[str]) -> None:
        """Embed, walk, look up words, look up neighbours."""
        vector = to_int8(self._embedder.embed_query(question).astype("<f2").tobytes())
        walk(self._root)
        list(self._db.execute(queries.KEYWORD, {"match": any_of(words), "limit": 1000}))
        near = f"SELECT rowid, distance FROM vec_{self._space} WHERE embedding MATCH vec_int8(?) AND k = 250"
        list(self._db.execute(near, (vector,)))


class RandomVectors:
    """Passages get a random vector each, quickly and always the same; questions are embedded by the built-in model."""

    def __init__(self) -> None:
        self._model = make_embedder("minilm", 0)
        self.space = EmbeddingSpace("random", "benchmark", "1", 384)

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Any]:
        """Return seeded random unit vectors."""
        pause()
        import numpy as np

        seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) for text in texts]
        vectors = [np.random.default_rng(seed).standard_normal(384).astype(np.float32) for seed in seeds]
        return [vector / np.linalg.norm(vector) for vector in vectors]

    def embed_query(self, text: str) -> Any:
        """Return the built-in model's vector."""
        return self._model.embed_query(text)

    def unload(self) -> None:
        """Give back the built-in model's memory."""
        self._model.unload()

    def close(self) -> None:
        """Do as the built-in model does."""
        self._model.close()


def _questions(data: Path) -> list[str]:
    return [question.text for question in read_questions(data / "rfcs.questions.jsonl")]


def _make_notes(source: Path, root: Path) -> None:
    """Write 2,000 notes of 50 sections of one chunk each, out of the sentences of real ones; equal on every run."""
    if root.exists():
        return
    text = "\n".join(file.read_text(encoding="utf-8") for file in sorted(source.rglob("*.md"))[:200])
    sentences = [line.strip() for line in re.split(r"(?<=[.!?])\s+|\n", text) if 40 < len(line.strip()) < 300]
    draw = random.Random(1)
    for number in range(CHUNKS // 50):
        path = root / f"{number % 40:02d}" / f"{number:04d}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        sections = (f"## {draw.choice(sentences)[:60]}\n\n" + " ".join(draw.sample(sentences, 3)) for _ in range(50))
        path.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
