"""Searches of a large memory in PostgreSQL: whole, with a filter that leaves one chunk in a hundred, and the KNN alone.

The notes are sections of three sentences drawn from the RFCs. memsync itself indexes them. The vector of a section is
the sum of its sentences' vectors, each from the built-in model, scaled to length 1: vectors of real directions, of
which no two are equal, without an hour of embedding.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.figures import Row, seconds
from benchmarks.measures import rfc_questions
from benchmarks.memories import connected
from benchmarks.postgres_server import NO_SERVER, database, server
from memsync.index.postgres import queries
from memsync.index.postgres.halfvec import from_halfvec, halfvec_text
from memsync.index.postgres.index import PostgresIndex
from memsync.index.postgres.reader import PostgresReader
from memsync.index.vectors import cosines, to_float16
from memsync.memory import Memory
from memsync.model.query import EmbeddingSpace, SearchRequest
from memsync.search.retrievals import percentile
from memsync.wiring import make_embedder

CHUNKS = 1_000_000
SECTIONS = 250
"""Sections of a note; each is one chunk."""
FOLDERS = 100
SENTENCES = 8_000
ROUNDS = 3
CANDIDATES = 200
"""As many as a search asks for."""
DIMENSION = 384
PROGRESS_SECONDS = 10.0
_PLAIN = re.compile(r"[A-Z][A-Za-z0-9 ,;:'()/-]{40,180}[.?!]")
"""A sentence without Markdown in it."""


def searches(data: Path, state: Path, chunks: int = CHUNKS) -> list[Row]:
    """Index so many chunks, unless an earlier run did, and search them."""
    if not server():
        return [Row("search of many chunks in PostgreSQL", NO_SERVER)]
    sentences = _sentences(data / "rfcs")
    root = state / f"sections-{chunks}"
    _write_notes(root, sentences, chunks // SECTIONS)
    embedder = SumsOfSentences(sentences)
    with database(f"sections_{chunks}", is_kept=True) as dsn:
        settings = {"index_backend": "postgres", "index_dsn": dsn}
        with connected(root, state, embedder, **settings) as memory:
            built = seconds(memory.sync, progress=_Progress())
            name = f"{memory.status().chunks:,} chunks"
            print(f"{name}: indexed in {built:.0f} s", file=sys.stderr)
            questions = rfc_questions(data)
            return [*_whole(memory, questions, name), *_knn(memory, embedder, questions, name)]


def _whole(memory: Memory, questions: list[str], name: str) -> list[Row]:
    """Ask every question, with and without the filter, each in turn."""
    for text in questions:  # until the server has what it reads often in its memory
        memory.search(text)
        memory.search(text, folder=("07",))
    plain, filtered = [], []
    for text in questions * ROUNDS:
        plain.append(seconds(memory.search, text))
        filtered.append(seconds(memory.search, text, folder=("07",)))
    rows = []
    for about, times in (("", plain), (", a filter that leaves 1 %", filtered)):
        measure = f"hybrid search in PostgreSQL, {name}{about}"
        rows += [_limit_row(measure, times, 0.5, 80), _limit_row(measure, times, 0.95, 150)]
    return rows


def _knn(memory: Memory, embedder: SumsOfSentences, questions: Sequence[str], name: str) -> list[Row]:
    """Take the time of the nearest chunks alone, and compare the nearest ten with those of an exact search."""
    assert isinstance(memory.index, PostgresIndex)
    times, found = [], 0
    query = memory.parse(SearchRequest("sections"))  # without filters, which words in quotation marks are, too
    for text in questions:
        vector = embedder.embed_query(text)
        with memory.index.reading() as reader:
            reader.vector_candidates(query, vector, CANDIDATES)
            times += [seconds(reader.vector_candidates, query, vector, CANDIDATES) for _ in range(ROUNDS)]
            indexed = {candidate.chunk_id for candidate in reader.vector_candidates(query, vector, CANDIDATES)[:10]}
            found += len(indexed & _exact(reader, vector))
    recall = found / (10 * len(questions))
    return [
        _limit_row(f"KNN alone, {name}", times, 0.5, None),
        _limit_row(f"KNN alone, {name}", times, 0.95, 20),
        Row("its recall@10 against an exact search", recall, "≥ 0.98", recall >= 0.98),
    ]


def _exact(reader: PostgresReader, vector: Any) -> set[int]:
    """Return the chunks of the ten nearest passages, by comparison with every vector and the same exact cosine."""
    space = reader.value("SELECT id FROM space WHERE root = %(root)s AND state = 'active'")
    text = halfvec_text(to_float16(vector, DIMENSION))
    near = list(
        reader.rows(queries.NEAREST.format(extension="public"), {"space": space, "vector": text, "limit": CANDIDATES})
    )
    scores = cosines([from_halfvec(value) for _, value in near], vector)
    best = sorted(zip(scores, (passage for passage, _ in near), strict=True), reverse=True)[:10]
    return {row[0] for row in reader.rows(queries.CHUNKS_OF_PASSAGES, {"passages": [passage for _, passage in best]})}


def _limit_row(measure: str, times: Sequence[float], share: float, limit: float | None) -> Row:
    milliseconds = percentile(times, share) * 1000
    target = (f"≤ {limit} ms", milliseconds <= limit) if limit else ("", None)
    return Row(f"{measure}: p{share * 100:.0f}", f"{milliseconds:.1f} ms", *target)


class SumsOfSentences:
    """Embeds a passage as the sum of its sentences' vectors, and questions with the built-in model."""

    def __init__(self, sentences: Sequence[str]) -> None:
        import numpy as np

        model = make_embedder("minilm")
        self.space = EmbeddingSpace("sums", "benchmark", "1", DIMENSION)
        self.embed_query, self.unload, self.close = model.embed_query, model.unload, model.close
        self._numbers = {sentence: number for number, sentence in enumerate(sentences)}
        self._vectors = np.array(model.embed_passages(sentences))

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Any]:
        """Return one unit vector for each text; a line that is not among the sentences does not count."""
        import numpy as np

        pause()
        vectors = []
        for text in texts:
            numbers = [self._numbers[line] for line in text.splitlines() if line in self._numbers]
            total = self._vectors[numbers].sum(axis=0)
            vectors.append(total / np.linalg.norm(total))
        return vectors


class _Progress:
    """Prints how far a sync is, every few seconds, to stderr."""

    def __init__(self) -> None:
        self._printed_at = time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        if time.monotonic() - self._printed_at >= PROGRESS_SECONDS:
            self._printed_at = time.monotonic()
            print(f"{what}: {done:,} of {total:,}", file=sys.stderr)


def _sentences(source: Path) -> list[str]:
    """Return SENTENCES different sentences of real notes, the same on every run."""
    text = "\n".join(file.read_text(encoding="utf-8") for file in sorted(source.rglob("*.md")))
    plain = (part.strip() for part in re.split(r"(?<=[.!?])\s+|\n\n", text))
    known = sorted({" ".join(part.split()) for part in plain if _PLAIN.fullmatch(" ".join(part.split()))})
    return random.Random(1).sample(known, min(SENTENCES, len(known)))


def _write_notes(root: Path, sentences: Sequence[str], notes: int) -> None:
    """Write notes of SECTIONS sections of three sentences, one a paragraph, into FOLDERS folders."""
    if root.exists():
        return
    draw = random.Random(2)
    triples = iter(lambda: draw.sample(sentences, 3), None)
    for number in range(notes):
        path = root / f"{number % FOLDERS:02d}" / f"{number:05d}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        sections = (f"## {triple[0][:50].strip()}\n\n" + "\n\n".join(triple) for triple in islice(triples, SECTIONS))
        path.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
