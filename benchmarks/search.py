"""A search over the sum of its bare parts: embed the question, KNN, FTS5 query, and a walk that stats every file."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import Row, ms_over, ratio_row, seconds
from benchmarks.indexing import walk
from benchmarks.measures import rfc_questions
from benchmarks.memories import connected, opened
from memsync.index.fields import any_of
from memsync.index.sqlite import queries, schema
from memsync.index.vectors import to_int8
from memsync.memory import Memory
from memsync.model.query import EmbeddingSpace, SearchRequest
from memsync.ports import Embedder
from memsync.search.retrievals import percentile
from memsync.wiring import make_embedder

ROUNDS = 5
CHUNKS = 100_000


def real(data: Path, state: Path) -> list[Row]:
    """Ask the questions about the RFCs."""
    with opened(data / "rfcs", state) as memory:
        return _compare(memory, make_embedder("minilm"), rfc_questions(data), "rfcs/ ({:,} chunks)", (1.5, 2.5))


def large(data: Path, state: Path) -> list[Row]:
    """The same on 100,000 chunks: notes of sentences drawn from the RFCs, random vectors."""
    root = state / "large"
    _make_notes(data / "rfcs", root)
    embedder = RandomVectors()
    with connected(root, state, embedder) as memory:
        return _compare(memory, embedder, rfc_questions(data), "{:,} chunks", (1.4, 2.0))


def _compare(
    memory: Memory, embedder: Embedder, questions: Sequence[str], name: str, limits: tuple[float, float]
) -> list[Row]:
    """Ask all questions ROUNDS times with the model loaded; `name` has a place for the number of chunks."""
    memory.sync()
    memory.search("warm up")
    search_bare = _bare_search(memory, embedder)
    whole, bare = [], []
    for _ in range(ROUNDS):
        for question in questions:
            bare.append(seconds(search_bare, question, memory.parse(SearchRequest(question)).words))
            whole.append(seconds(memory.search, question))
    rows = []
    for share, limit in zip((0.5, 0.95), limits, strict=True):
        ours, theirs = percentile(whole, share), percentile(bare, share)
        measure = f"hybrid search, {name.format(memory.status().chunks)}: p{share * 100:.0f} over its parts'"
        rows.append(ratio_row(measure, ours / theirs, limit, ms_over(ours, theirs, 1)))
    return rows


def _bare_search(memory: Memory, embedder: Embedder) -> Callable[[str, Sequence[str]], None]:
    """Return a function that does the parts of a search without memsync, through a connection of its own."""
    database = schema.connect(memory.settings.index_dir / "index.db", readonly=True)
    space = database.execute("SELECT id FROM space WHERE state = 'active'").get
    near = f"SELECT rowid, distance FROM vec_{space} WHERE embedding MATCH vec_int8(?) AND k = 250"

    def search(question: str, words: Sequence[str]) -> None:
        vector = to_int8(embedder.embed_query(question).astype("<f2").tobytes())
        walk(str(memory.files.root))
        list(database.execute(queries.KEYWORD, {"match": any_of(words), "limit": 1000}))
        list(database.execute(near, (vector,)))

    return search


class RandomVectors:
    """Embeds each passage as a random vector that depends only on its text, and questions with the built-in model."""

    def __init__(self) -> None:
        model = make_embedder("minilm")
        self.space = EmbeddingSpace("random", "benchmark", "1", 384)
        self.embed_query, self.unload, self.close = model.embed_query, model.unload, model.close

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Any]:
        """Return seeded random unit vectors."""
        pause()
        import numpy as np

        seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) for text in texts]
        vectors = [np.random.default_rng(seed).standard_normal(384).astype(np.float32) for seed in seeds]
        return [vector / np.linalg.norm(vector) for vector in vectors]


def _make_notes(source: Path, root: Path) -> None:
    """Write 2,000 notes of 50 sections of one chunk each from the sentences of real notes, the same on every run."""
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
