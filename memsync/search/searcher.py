"""Query -> candidates -> fused -> spans -> hits that were checked against their files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from memsync.errors import EmbedderError
from memsync.model import (
    Candidate,
    EmbeddingSpace,
    Freshness,
    Hit,
    IndexedChunk,
    Kind,
    Mode,
    Query,
    Rank,
    SearchResult,
    Tier,
)
from memsync.notes.chunk import CountTokens
from memsync.notes.files import NoteFiles
from memsync.notes.reader import NoteReader
from memsync.ports import Index, IndexReader
from memsync.search.age import age_in_days
from memsync.search.anchor import Anchor, Anchored
from memsync.search.entry_filter import entry_filter
from memsync.search.fuse import add_note_bonus, fuse
from memsync.search.snippet import Marked, best_line, make_snippet, mark, stems_of
from memsync.search.spans import ScoredChunk, Span, form_spans

if TYPE_CHECKING:
    from memsync.ports import Vector

KEYWORD_DEPTH = 3
"""How many times more keyword candidates are read than contribute: what was found by meaning needs both scores."""
CITATION_TOKENS = 12
CONFIDENCE_HITS = 5
LINE_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Ranking:
    """How candidates become an order; each field is the `[search]` setting of its name."""

    keyword_weight: float
    candidates: int
    recency: float
    recency_days: int
    importance: float
    pinned: float


class Near(NamedTuple):
    """The chunks nearest to a question, and the question's vector, its space and the generation they are of."""

    vector: Vector
    space: EmbeddingSpace
    generation: int
    candidates: Sequence[Candidate]


@dataclass(slots=True)
class _Timer:
    """Milliseconds of each stage."""

    stages: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)

    def lap(self, stage: str) -> None:
        """End a stage and begin the next."""
        now = time.perf_counter()
        self.stages[stage] = (now - self.started) * 1000
        self.started = now


class Searcher:
    """Answers queries from one index about one memory root; freshness is the caller's."""

    def __init__(
        self,
        files: NoteFiles,
        index: Index,
        reader: NoteReader,
        count_tokens: CountTokens,
        ranking: Ranking,
    ) -> None:
        self._files = files
        self._index = index
        self._reader = reader
        self._count_tokens = count_tokens
        self._ranking = ranking

    def near(self, query: Query, vector: Vector, space: EmbeddingSpace) -> Near:
        """Return what is nearest to a question's vector at this moment: it may run while files are still compared.

        Raises EmbedderError when the vector is unusable.
        """
        with self._index.reading() as index:
            found = index.vector_candidates(query, vector, self._contributed(query))
            return Near(vector, space, index.generation(), found)

    def search(
        self, query: Query, await_near: Callable[[], Near | None] | None = None, *, tokens: int | None = None
    ) -> SearchResult:
        """Answer `query`; `await_near` gives what `near` returned, or None when words must answer alone.

        It is called after the look-up of words, beside which `near` can so run. Raises EmbedderError when another space
        answers meanwhile. With `tokens`, hits are taken in order as long as they fit the budget; one that does not is
        passed over.
        """
        timer = _Timer()
        with self._index.reading() as index:
            mode, keyword, near, chunks = self._candidates(index, query, await_near, timer)
        scored = self._scored(keyword, near, chunks, self._contributed(query))
        spans = form_spans(scored, allows=entry_filter(query.filters))
        timer.lap("fuse")
        anchored = list(islice(self._anchored(spans), query.limit))
        hits = self._hits(query, anchored, keyword, near)
        fitting = hits if tokens is None else self._within(hits, tokens)
        warnings = (f"none of {len(hits)} hits fits {tokens} word pieces",) if hits and not fitting else ()
        timer.lap("hits")
        return SearchResult(tuple(fitting), mode, Freshness("", 0, 0), warnings, timer.stages, query.filters)

    # --------------------------------------------------------------------------------------- candidates

    def _candidates(
        self, index: IndexReader, query: Query, await_near: Callable[[], Near | None] | None, timer: _Timer
    ) -> tuple[Mode, Sequence[Candidate], Sequence[Candidate], Mapping[int, IndexedChunk]]:
        """Return the mode that answers, the candidates of both retrievers, and the chunks that contribute."""
        mode = query.mode if await_near is not None or not query.text else Mode.KEYWORD
        keyword = self._by_words(index, query) if mode is not Mode.VECTOR else ()
        timer.lap("keyword")
        near: Sequence[Candidate] = ()
        if mode is not Mode.KEYWORD and await_near is not None:
            found = await_near()
            if found is None:
                keyword = keyword if mode is Mode.HYBRID else self._by_words(index, query)
                mode = Mode.KEYWORD
            else:
                near = self._as_of_now(index, query, found)
        timer.lap("vector")
        count = self._contributed(query)
        wanted = [candidate.chunk_id for candidate in (*keyword[:count], *near[:count])]
        chunks = index.chunks(list(dict.fromkeys(wanted)))
        timer.lap("chunks")
        return mode, keyword, near, chunks

    def _by_words(self, index: IndexReader, query: Query) -> Sequence[Candidate]:
        count = self._contributed(query)
        if not query.text:
            return index.latest_candidates(query, max(count, query.limit))
        return index.keyword_candidates(query, count * KEYWORD_DEPTH)

    def _as_of_now(self, index: IndexReader, query: Query, found: Near) -> Sequence[Candidate]:
        """Return the nearest chunks in the state that words were looked up in: looked up again if that is another."""
        near = found.candidates
        if found.generation != index.generation():
            near = index.vector_candidates(query, found.vector, self._contributed(query))
        if near and index.active_space() != found.space:
            raise EmbedderError("another model has just taken over")
        return near

    def _contributed(self, query: Query) -> int:
        """Return how many chunks of each retriever are looked at: never fewer than the hits asked for."""
        return max(self._ranking.candidates, query.limit)

    def _scored(
        self,
        keyword: Sequence[Candidate],
        near: Sequence[Candidate],
        chunks: Mapping[int, IndexedChunk],
        contributed: int,
    ) -> list[ScoredChunk]:
        ranking = self._ranking
        fused = fuse(keyword, near, keyword_weight=ranking.keyword_weight, contributed=contributed)
        scores = add_note_bonus(fused, {chunk_id: chunks[chunk_id].path for chunk_id in fused if chunk_id in chunks})
        now = time.time()
        return [
            ScoredChunk(chunks[chunk_id], score + self._prior(chunks[chunk_id], now))
            for chunk_id, score in scores.items()
        ]

    def _prior(self, chunk: IndexedChunk, now: float) -> float:
        """Return what importance, pins and newness add to a score: bounded, so that they only decide near ties."""
        ranking = self._ranking
        prior = ranking.importance * 2.0 * (chunk.importance - 0.5) + ranking.pinned * chunk.pinned
        if ranking.recency:
            prior += ranking.recency * 0.5 ** (age_in_days(chunk, now) / ranking.recency_days)
        return prior

    # --------------------------------------------------------------------------------------------- hits

    def _anchored(self, spans: Iterator[Span]) -> Iterator[tuple[Span, Anchored]]:
        """Yield the spans whose text stands in their files, each place once."""
        anchor = Anchor(self._files, self._reader)
        shown: set[tuple[str, int, int]] = set()
        for span in spans:
            place = anchor.anchor(span)
            if place is None:
                continue
            key = (span.chunks[0].path, place.start_line, place.end_line)
            piece = span.chunks[0].end_column > 0
            if piece or key not in shown:
                shown.add(key)
                yield span, place

    def _hits(
        self,
        query: Query,
        anchored: Sequence[tuple[Span, Anchored]],
        keyword: Sequence[Candidate],
        near: Sequence[Candidate],
    ) -> list[Hit]:
        ranks = {"vector": {c.chunk_id: c for c in near}}
        if query.text:
            ranks["keyword"] = {c.chunk_id: c for c in keyword}
        stems = stems_of(query.words)
        marked = [mark(place.text, stems) for _, place in anchored]
        scale = _scale([span for span, _ in anchored], marked, len(stems))
        return [
            _hit(span, place, make_snippet(own, stems), ranks, min(1.0, max(0.0, span.score * scale)))
            for (span, place), own in zip(anchored, marked, strict=True)
        ]

    def _within(self, hits: Sequence[Hit], tokens: int) -> list[Hit]:
        """Return the hits that fit a budget of word pieces, citations included, in order."""
        kept = []
        for hit, cost in zip(hits, self._count_tokens([hit.text for hit in hits]), strict=True):
            if CITATION_TOKENS + cost <= tokens:
                tokens -= CITATION_TOKENS + cost
                kept.append(hit)
        return kept


def _scale(spans: Sequence[Span], marked: Sequence[Marked], stem_count: int) -> float:
    """Return the factor from spans' scores to shown ones.

    How sure the answer is as a whole tells an answerable question from another better than its best hit's own score:
    the mean of the first hits, and whether one line holds many of the query's words.
    """
    if not spans or spans[0].score <= 0:
        return 1.0
    first = [max(0.0, span.score) for span in spans[:CONFIDENCE_HITS]]
    share = max(best_line(own)[1] for own in marked[:CONFIDENCE_HITS]) / max(stem_count, 1)
    return (sum(first) / len(first) + LINE_SHARE * share) / (1.0 + LINE_SHARE) / spans[0].score


def _hit(
    span: Span,
    place: Anchored,
    shown: tuple[str, tuple[tuple[int, int], ...]],
    ranks: Mapping[str, Mapping[int, Candidate]],
    score: float,
) -> Hit:
    chunk = span.chunks[0]
    best: dict[str, Rank] = {}
    for name, candidates in sorted(ranks.items()):
        found = [candidates[c.chunk_id] for c in span.chunks if c.chunk_id in candidates]
        if found:
            first = min(found, key=lambda candidate: candidate.rank)
            best[name] = Rank(first.rank, first.score)
    return Hit(
        path=chunk.path,
        start_line=place.start_line,
        end_line=place.end_line,
        heading_path=tuple(chunk.heading_path),
        kind=Kind(chunk.kind),
        tier=Tier(chunk.tier),
        title=chunk.title,
        date=next((entry.time for entry in span.entries if entry.time), chunk.date),
        role=chunk.role,
        tags=tuple(dict.fromkeys(tag for entry in span.entries for tag in entry.tags)),
        text=place.text,
        snippet=shown[0],
        highlights=shown[1],
        score=round(score, 6),
        ranks=best,
    )
