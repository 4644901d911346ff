"""Search: query -> candidates -> scored entries -> spans -> hits, checked against their files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from memsync.errors import EmbedderError, UsageError
from memsync.index.fields import name_word
from memsync.model.answer import Explanation, Freshness, Hit, Rank, SearchResult, holds
from memsync.model.filters import Filters
from memsync.model.note import Link, Message
from memsync.model.query import Candidate, EmbeddingSpace, Query
from memsync.model.text import quoted
from memsync.model.vocabulary import Form, Kind, Mode, NotePath, Tier, citation
from memsync.notes.chunk import CountTokens
from memsync.notes.copies import added_to, are_copies
from memsync.notes.entry_text import as_read
from memsync.notes.files import NoteFiles
from memsync.notes.languages import ENGLISH_ONLY, is_of_other_script
from memsync.notes.links import Linked
from memsync.notes.message_format import ROLE, attributes_of, read_message_heading
from memsync.notes.parse import NoteReader
from memsync.ports import Index, IndexReader
from memsync.search.anchor import Anchor, Anchored
from memsync.search.budget import costs, why_empty, within
from memsync.search.confidence import are_letters_only, certainty, likely_hits
from memsync.search.hit_contradictions import COMPARED, differing
from memsync.search.question_wording import Wording
from memsync.search.rank import (
    KEYWORD_SCALE,
    Pool,
    QuestionWords,
    Scored,
    Weights,
    by_words,
    entry_filter,
    in_order,
    past_last,
    prior_of,
    rank,
)
from memsync.search.recent import CONSIDERED, asks_for_past, by_time
from memsync.search.reranking import RERANKED, Relevance, blended
from memsync.search.snippet import holds_all, make_snippet, stems_of
from memsync.search.spans import Span, form_spans
from memsync.search.spelling import as_written, respelled
from memsync.search.validity import Validity, today
from memsync.system import clock

if TYPE_CHECKING:
    from memsync.ports import Vector

KEYWORD_DEPTH = 3
"""The index returns this many times as many keyword candidates as may become hits. Most chunks that were found by
meaning are then among them, so that they have a keyword score, too."""
CANDIDATES = 200
"""So many chunks of each retriever contribute, or as many as there may be hits."""
THINNED = 20
"""So many times more, if the filters leave out what does not hold."""
RERANK_WEIGHT = 0.5
"""Weight of the reranker's score against the first score."""
ROOT = NotePath("")
"""The place from which a person names a note."""
NEAR_TIE = 0.01
"""Scores of a note and of its copy that differ by less are equal: which of the two is meant cannot be told."""
TWINS_WITHIN = 5
"""Passages equal to a hit are looked for among this many times as many spans as there are hits: they score alike."""


class IndexChanged(Exception):
    """Text was removed from the index after it was compared with the files."""


class Near(NamedTuple):
    """The chunks nearest to a question, with its vector and space, and the index generation that they are from."""

    vector: Vector
    space: EmbeddingSpace
    generation: int
    candidates: Sequence[Candidate]


AwaitNear = Callable[[Query], Near | None]


@dataclass(slots=True)
class _Timer:
    """Milliseconds of each stage."""

    stages: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)

    def lap(self, stage: str) -> None:
        """End a stage and begin the next."""
        now = time.perf_counter()
        self.stages[stage] = self.stages.get(stage, 0.0) + (now - self.started) * 1000
        self.started = now


class Searcher:
    """Answers queries from the index of one memory root. The caller brings the index up to date first."""

    def __init__(
        self, files: NoteFiles, index: Index, reader: NoteReader, count_tokens: CountTokens, min_score: float
    ) -> None:
        self._files = files
        self._index = index
        self._reader = reader
        self._count_tokens = count_tokens
        self._min_score = min_score
        self._validity: tuple[int, Validity] | None = None

    def near(self, query: Query, vector: Vector, space: EmbeddingSpace) -> Near:
        """Return the chunks nearest to a question's vector. It may run while files are still being compared.

        Raises EmbedderError if the vector is unusable.
        """
        with self._index.reading() as index:
            query = self._narrowed(query, index)
            candidates = index.vector_candidates(query, vector, self._contributed(query))
            return Near(vector, space, index.generation(), candidates)

    def search(
        self,
        query: Query,
        await_near: AwaitNear | None = None,
        relevance: Relevance | None = None,
        *,
        as_of: int | None = None,
    ) -> SearchResult:
        """Answer `query`. With `as_of`, raise IndexChanged if the index has another `last_removal`.

        `await_near` returns the result of `near` for the query as the notes spell it, or None to search by words alone.
        It is called after the words were looked up, so that `near` can run in parallel. `relevance` rates the first
        hits; if it returns None, they keep their order. A hit that does not fit into the rest of a budget of tokens is
        skipped. Raises EmbedderError if another space has become active meanwhile.
        """
        timer, asked = _Timer(), query
        with self._index.reading() as index:
            if as_of is not None and index.last_removal() != as_of:
                raise IndexChanged
            validity, query = self.validity(index), self._narrowed(query, index)
            query, also_searched = respelled(query, index, self._count_tokens)
            mode, pool = self._candidates(index, query, await_near, timer)
            weights = index.word_weights(query.words)
            space = index.active_space() if query.text and mode is not Mode.KEYWORD else None
        anchor = Anchor(self._files, self._reader)
        ranked, chance = self._ranked(query, mode, pool, weights, anchor, validity, space)
        timer.lap("rank")
        spans = form_spans(_without_mere_headings(ranked, query))
        first = list(islice(spans, CONSIDERED)) if query.text else []
        if mode is not Mode.KEYWORD:
            first = by_time(first, query.text, lambda span: anchor.text_of(span.best), chance)
        anchored, read = self._first(chain(first, spans), query, anchor, relevance, timer)
        hits = differing(self._hits(query, anchored, pool, chance, anchor), first[:COMPARED], anchor, validity)
        if read is not None:
            if mode is Mode.KEYWORD:  # its scores are no probabilities: scale them to the best one
                hits = [structs.replace(hit, score=hit.score / max(hits[0].score, 1e-9)) for hit in hits]
            hits = blended(hits, read, RERANK_WEIGHT)[: query.limit]
        likely = likely_hits(hits, query, mode, self._min_score)
        tokens = query.request.tokens
        fitting = likely if tokens is None else within(likely, tokens, lambda hits: costs(hits, self._count_tokens))
        warnings = why_empty(hits, likely, tokens) if not fitting else ()
        timer.lap("hits")
        fresh = Freshness("", 0, 0)
        explain = Explanation(asked.filters, query.times, timer.stages)
        model = space.name if space else ""
        also = tuple(as_written(word, (hit.text for hit in fitting)) for word in also_searched)
        return SearchResult(tuple(fitting), mode, fresh, warnings, explain, model, also_searched=also)

    def validity(self, index: IndexReader) -> Validity:
        """Return what the notes say about what holds, read once for each state of the index."""
        generation = index.notes_generation()
        if self._validity is None or self._validity[0] != generation:
            self._validity = generation, Validity.of(index, self._reader.usual_origin)
        return self._validity[1]

    def _narrowed(self, query: Query, index: IndexReader) -> Query:
        """Return a query with the notes that filters about links leave.

        For a query for what does not hold, these are the notes that may have it: they are few.
        """
        filters, notes = query.filters, list[set[str]]()
        if filters.links or filters.linked_from:
            notes.append(_linked_notes(filters, index))
        if filters.holds is False:
            notes.append({*self.validity(index).paths(), *index.lapsing()})
        if not notes:
            return query
        return structs.replace(query, filters=structs.replace(filters, notes=tuple(sorted(set.intersection(*notes)))))

    # --------------------------------------------------------------------------------------- candidates

    def _candidates(
        self, index: IndexReader, query: Query, await_near: AwaitNear | None, timer: _Timer
    ) -> tuple[Mode, Pool]:
        """Return the mode in which the search runs, and the candidates of both retrievers with their chunks."""
        mode = query.mode if await_near is not None or not query.text else Mode.KEYWORD
        keyword = self._by_words(index, query) if mode is not Mode.VECTOR else ()
        timer.lap("keyword")
        near: Sequence[Candidate] = ()
        if mode is not Mode.KEYWORD and await_near is not None:
            nearest = await_near(query)
            if nearest is None or (nearest.space.provider == ENGLISH_ONLY and is_of_other_script(query.text)):
                keyword = keyword if mode is Mode.HYBRID else self._by_words(index, query)
                mode = Mode.KEYWORD
            else:
                near = self._as_of_now(index, query, nearest)
        timer.lap("vector")
        count = self._contributed(query)
        named = self._named(index, query) if mode is not Mode.VECTOR else ()
        chunk_ids = [candidate.chunk_id for candidate in (*keyword[:count], *near[:count], *named)]
        chunks = index.chunks(list(dict.fromkeys(chunk_ids)))
        allows = entry_filter(query.filters, index.entries_allowed(query, list(chunks)))
        timer.lap("chunks")
        return mode, Pool(keyword, near, chunks, count, allows, [candidate.chunk_id for candidate in named])

    def _named(self, index: IndexReader, query: Query) -> Sequence[Candidate]:
        """Return a chunk of each note whose title, alias or file name is the question."""
        word = name_word(query.text)
        query = structs.replace(query, words=(word,), alternatives=())
        return index.keyword_candidates(query, query.limit) if word else ()

    def _by_words(self, index: IndexReader, query: Query) -> Sequence[Candidate]:
        count = self._contributed(query)
        if not query.text:
            return index.latest_candidates(query, max(count, query.limit))
        return index.keyword_candidates(query, count * KEYWORD_DEPTH)

    def _as_of_now(self, index: IndexReader, query: Query, nearest: Near) -> Sequence[Candidate]:
        """Return the nearest chunks, searching again if the index has changed since they were found."""
        near = nearest.candidates
        if nearest.generation != index.generation():
            near = index.vector_candidates(query, nearest.vector, self._contributed(query))
        if near and index.active_space() != nearest.space:
            raise EmbedderError("another embedding model has just become active")
        if nearest.space.has_narrow_cosines:
            near = [candidate._replace(score=nearest.space.likeness(candidate.score)) for candidate in near]
        return near

    def _contributed(self, query: Query) -> int:
        """Return how many chunks of each retriever contribute: at least as many as the limit of hits."""
        is_thinned = bool(query.filters.valid) or query.filters.holds is True  # after the index has answered
        return max(CANDIDATES * (THINNED if is_thinned else 1), query.limit)

    def _ranked(
        self,
        query: Query,
        mode: Mode,
        pool: Pool,
        word_weights: Mapping[str, float],
        anchor: Anchor,
        validity: Validity,
        space: EmbeddingSpace | None,
    ) -> tuple[list[Scored], Callable[[float], float]]:
        """Return the entries, best first, and what converts their scores to those of hits, from 0 to 1."""
        if not query.text:
            return _holding(in_order(pool), query, validity, anchor), lambda score: 0.0
        now = clock.seconds()
        weights = Weights(0.0, 0.0) if mode is Mode.VECTOR else Weights()
        question = QuestionWords.of(query.text, word_weights, query.times)
        if query.filters.roles:
            question = replace(question, asks_for_answer=None)
        ranked = rank(pool, question, weights, lambda chunk: prior_of(chunk, now))
        if mode is not Mode.VECTOR:
            scale = KEYWORD_SCALE if mode is Mode.KEYWORD else 1.0
            ranked = by_words(ranked, pool, Wording(query.text, word_weights), anchor.text_of, scale)
        ranked = _holding(ranked, query, validity, anchor)
        if mode is Mode.HYBRID and not pool.keyword and are_letters_only(query.words, self._count_tokens):
            return ranked, lambda score: 0.0
        if mode is Mode.KEYWORD:
            return ranked, lambda score: max(score, 0.0) / (1.0 + max(score, 0.0))
        return ranked, certainty(ranked, question, is_multilingual=space is not None and space.has_narrow_cosines)

    # --------------------------------------------------------------------------------------------- hits

    def _first(
        self, spans: Iterator[Span], query: Query, anchor: Anchor, relevance: Relevance | None, timer: _Timer
    ) -> tuple[list[tuple[Span, Anchored]], Sequence[float] | None]:
        """Return the spans to show, checked against their files, and their `relevance`, None without reranking.

        With reranking there may be more than `limit`; the caller keeps the best ones after blending the scores.
        """
        limit = query.limit
        if not query.text:
            return list(islice(_anchored(spans, anchor), limit)), None
        if relevance is None:
            return _different(spans, anchor, limit), None
        first = _different(spans, anchor, max(limit, RERANKED))
        timer.lap("hits")
        read = relevance([_with_heading(span, place) for span, place in first]) if first else None
        timer.lap("rerank")
        return (first, read) if read is not None else (first[:limit], None)

    def _hits(
        self,
        query: Query,
        anchored: Sequence[tuple[Span, Anchored]],
        pool: Pool,
        chance: Callable[[float], float],
        anchor: Anchor,
    ) -> list[Hit]:
        """Return the hits; `chance` converts scores of spans to scores of hits."""
        ranks = {"vector": _best_by_chunk(pool.near)}
        if query.text:
            ranks["keyword"] = _best_by_chunk(pool.keyword)
        stems = stems_of((*query.words, *query.alternatives))
        said = ((span, *anchor.said(span, place)) for span, place in anchored)
        return [
            _hit(span, place, message, make_snippet(as_read(place.text), stems), ranks, chance(span.score))
            for span, place, message in said
        ]


def _linked_notes(filters: Filters, index: IndexReader) -> set[str]:
    """Return the notes that link to one of `links`, and to which one of `linked_from` links, as far as they are set.

    Raises UsageError for a name that no note has.
    """
    linked = Linked(index.notes())
    pairs = [(source, linked.target(link, source)) for source, link in index.links()]
    kept: set[str] = set(linked.notes)
    if filters.links:
        wanted = _named_notes(linked, filters.links)
        kept &= {source for source, target in pairs if target in wanted and target != source}
    if filters.linked_from:
        wanted = _named_notes(linked, filters.linked_from)
        kept &= {target for source, target in pairs if source in wanted and target != source}
    return kept


def _named_notes(linked: Linked, names: Iterable[str]) -> set[str]:
    """Return the notes that a person means by these names, as a link in the root would."""
    found = {name: linked.target(Link(name.removeprefix("./"), "", "", 0, wiki=True), ROOT) for name in names}
    if unknown := [name for name, path in found.items() if not path]:
        raise UsageError(f"no note is called {quoted(unknown[0])}", hint="Write its path as search results print it.")
    return set(found.values())


def _holding(ranked: list[Scored], query: Query, validity: Validity, anchor: Anchor) -> list[Scored]:
    """Return the entries that the filters `is` and `valid` allow, with what does not hold after what does."""
    filters, day = query.filters, query.filters.valid or today()
    for scored in ranked:
        text, chunk = partial(anchor.text_of, scored), scored.chunk
        scored.validity = validity.reason(chunk.path, scored.entry, text, day, chunk.origin)
    if filters.valid or filters.holds is not None:
        wanted = filters.holds is not False
        ranked = [scored for scored in ranked if holds(scored.validity) == wanted]
    is_current = all(holds(scored.validity) for scored in ranked)
    return ranked if is_current or not query.text or asks_for_past(query.text) else past_last(ranked)


def _anchored(spans: Iterator[Span], anchor: Anchor) -> Iterator[tuple[Span, Anchored]]:
    """Yield the spans whose text is still in their files, each place once."""
    shown: set[tuple[str, int, int]] = set()
    for span in spans:
        place = anchor.anchor(span)
        if place is None:
            continue
        key = (span.shown.path, place.start_line, place.end_line)
        piece = span.shown.end_column > 0
        if piece or key not in shown:
            shown.add(key)
            yield span, place


def _different(spans: Iterator[Span], anchor: Anchor, limit: int) -> list[tuple[Span, Anchored]]:
    """Return the first spans with different texts; the places of equal texts are in `also` of the first one.

    A text that holds is never hidden behind an equal one that does not. Of a note and the copy that a sync client made,
    alike texts are one hit, too: in the note, unless the copy's has clearly the higher score.
    """
    kept: dict[tuple[str, bool], tuple[Span, Anchored]] = {}
    also: dict[tuple[str, bool], list[str]] = {}
    hashes: set[bytes] = set()
    first = takewhile(lambda numbered: len(kept) < limit or numbered[0] < TWINS_WITHIN * limit, enumerate(spans))
    wanted = (span for _, span in first if len(kept) < limit or span.shown.content_hash in hashes)
    for span, place in _anchored(wanted, anchor):
        key, path = (place.text, holds(span.best.validity)), span.shown.path
        same = (other for other, (of, at) in kept.items() if are_copies(path, of.shown.path, place.text, at.text))
        twin = key if key in kept else next((other for other in same if other[1] == key[1]), None)
        first_twin = kept[twin][0] if twin else span
        if twin and not (added_to(path, first_twin.shown.path) and span.score > first_twin.score - NEAR_TIE):
            also[twin].append(_cited(span, place))
        elif twin or (len(kept) < limit and any(map(str.isalnum, place.text))):  # not the `---` of front matter
            also[key] = [*also.pop(twin), _cited(*kept.pop(twin))] if twin else []
            kept[key] = span, place
            hashes |= {span.shown.content_hash} - {b""}
    return [(span, replace(place, also=tuple(also[key]))) for key, (span, place) in kept.items()]


def _cited(span: Span, place: Anchored) -> str:
    return citation(span.shown.path, place.start_line, place.end_line)


def _without_mere_headings(ranked: Sequence[Scored], query: Query) -> list[Scored]:
    """Return the entries without headings whose section has no text, unless they have all words of the question."""
    stems = stems_of(query.words)
    return [scored for scored in ranked if scored.chunk.form != Form.HEADING or _is_text(scored, stems)]


def _is_text(scored: Scored, stems: frozenset[str]) -> bool:
    """Tell whether a heading has all words of a question, and does not begin a message, which has its own text."""
    heading = " ".join(scored.chunk.heading_path[-1:])
    begins_message = scored.chunk.kind == Kind.THREAD and read_message_heading(heading, {ROLE: ""}) is not None
    return holds_all(heading, stems) and not begins_message


def _best_by_chunk(candidates: Sequence[Candidate]) -> dict[int, Candidate]:
    """Return the best candidate of each chunk; a group may have several."""
    return {candidate.chunk_id: candidate for candidate in reversed(candidates)}


def _with_heading(span: Span, place: Anchored) -> str:
    """Return the text of a hit for the cross-encoder: its headings on one line, then its text."""
    return "\n".join(filter(None, (" › ".join(span.shown.heading_path), place.text)))


def _hit(
    span: Span,
    place: Anchored,
    message: Message | None,
    shown: tuple[str, tuple[tuple[int, int], ...]],
    ranks: Mapping[str, Mapping[int, Candidate]],
    score: float,
) -> Hit:
    chunk = span.shown
    date = next((entry.time for entry in span.entries if entry.time), chunk.note_date)
    best: dict[str, Rank] = {}
    for name, candidates in sorted(ranks.items()):
        of_span = [candidates[chunk.chunk_id] for chunk in span.chunks if chunk.chunk_id in candidates]
        if of_span:
            first = min(of_span, key=lambda candidate: candidate.rank)
            best[name] = Rank(first.rank, first.score)
    return Hit(
        path=chunk.path,
        start_line=place.start_line,
        end_line=place.end_line,
        heading_path=tuple(chunk.heading_path),
        kind=Kind(chunk.kind),
        tier=Tier(chunk.tier),
        title=chunk.title,
        date=date,
        changed="" if date else chunk.date,
        role=chunk.role,
        tags=tuple(dict.fromkeys(tag for entry in span.entries for tag in entry.tags)),
        text=place.text,
        snippet=shown[0],
        highlights=shown[1],
        score=round(score, 6),
        validity=span.best.validity,
        ranks=best,
        parts=span.parts,
        also=place.also,
        local_only=chunk.local_only,
        origin=chunk.origin,
        id=message.attributes.get("id", "") if message else "",
        attributes=attributes_of(message) if message else {},
    )
