"""Read an index with SQL: what the readers of every backend do in the same way.

A backend has its own statements, which return the same columns in the same order, and its own way to run them.
"""

from __future__ import annotations

import json
import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from memsync.errors import UsageError
from memsync.index.fields import is_single_word
from memsync.index.rows import NANOS
from memsync.index.similar import similar_passages
from memsync.index.vectors import cosines, to_float16
from memsync.model.conversation import Cost, Thread, ThreadMessage, Usage
from memsync.model.filters import Filters
from memsync.model.grouped import grouped
from memsync.model.note import Entry, Link
from memsync.model.query import Candidate, EmbeddingSpace, IndexedChunk, IndexedNote, Query, names_tag
from memsync.model.status import IndexCounts
from memsync.model.upkeep import NoteLines
from memsync.model.vocabulary import Form, Kind, NotePath, Tier

if TYPE_CHECKING:
    from memsync.index.vectors import Vector
    from memsync.ports import Progress

EVERY_WORD_ROWS = 50
"""At most so many rows that have every word of a question precede all others, by bm25.

bm25 alone would rank a long text with all the words after hundreds of short ones with the rarest of them.
"""
LAST_CHARACTER = "\U0010ffff"
TELLING_TOKENS = 20
"""Fewest tokens of a passage that can show what its note is about: a title alone cannot."""
TELLING_CHUNKS = 8
"""Look for such a passage in so many first chunks of a note."""


class SqlReader(ABC):
    """The reading half of the Index port, over one connection in a transaction."""

    statements: ClassVar[ModuleType]
    """The backend's module `queries`. It says above each statement what it returns."""
    _frequencies: dict[str, int]
    """The number of rows in the word index that have a word, for the words that were counted."""

    # ------------------------------------------------------------------------------ what a backend must say

    @abstractmethod
    def rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Iterator[tuple[Any, ...]]:
        """Run a statement and return its rows."""

    @abstractmethod
    def value(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Return the first value of the first row of a statement; None without rows."""

    @abstractmethod
    def meta(self, key: str) -> str:
        """Return the value stored under a key, or an empty string."""

    @abstractmethod
    def _listed(self, values: Sequence[Any]) -> Any:
        """Return a list as a parameter."""

    @abstractmethod
    def _where(self, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """Return the parameters of the condition for pairs of key and value."""

    @abstractmethod
    def _parameters(self, query: Query) -> dict[str, Any]:
        """Return the parameters of the filter conditions; None for a filter that is not set."""

    @abstractmethod
    def _nearest(
        self, space: int, vector: bytes, limit: int, filters: Mapping[str, Any]
    ) -> Collection[tuple[int, bytes]]:
        """Return (passage, float16 vector) of the nearest passages; with `filters`, only of those that pass them."""

    @abstractmethod
    def _word_row_count(self) -> int:
        """Return the number of rows in the word index."""

    @abstractmethod
    def stems(self, beginning: str) -> Iterable[str]:
        """Return the stems in the word index with this beginning, each once."""

    @abstractmethod
    def _count_rows(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return how many rows of the word index have each word."""

    @abstractmethod
    def _matching_entries(
        self, query: Query, groups: Sequence[int]
    ) -> tuple[set[tuple[int, int]] | None, set[tuple[int, int]]]:
        """Return (chunk, number) of the groups' entries with every phrase, and of those with an excluded word.

        The first is None if the query has no phrases.
        """

    def _float16(self, value: bytes) -> bytes:
        """Return a stored vector as float16 numbers, lowest byte first."""
        return value

    def not_shared(self) -> list[NotePath]:
        """Return the local-only notes that the index does not have, by path; none if only this user can read it."""
        return []

    def _local_only(self, space: EmbeddingSpace | None) -> int:  # noqa: ARG002 (because SQLite has such passages)
        """Return how many passages may have no vector in `space`, because they must stay on this machine."""
        return 0

    def _index_bytes(self) -> int | None:
        """Return the size of the index; None if nothing tells it."""
        return None

    # -------------------------------------------------------------------------------------- candidates

    def generation(self) -> int:
        """Return a number that grows with every committed write."""
        return int(self.meta("generation") or 0)

    def notes_generation(self) -> int:
        """Return the generation of the last write that changed more than vectors."""
        return int(self.meta("notes_generation") or 0)

    def last_removal(self) -> int:
        """Return the generation of the last write that deleted a note or replaced its text."""
        return int(self.meta("last_removal") or 0)

    def committed_notes(self) -> int:
        """Return the number of notes that have their date from a commit."""
        return int(self.value(self.statements.COMMITTED))

    def word_weights(self, words: Sequence[str]) -> dict[str, float]:
        """Return FTS5's idf of each single word: the rarer a word, the higher."""
        total = self._word_row_count()
        counts = self.row_counts(list(filter(is_single_word, words)))
        return {word: max(1e-6, math.log((total - count + 0.5) / (count + 0.5))) for word, count in counts.items()}

    def row_counts(self, words: Sequence[str]) -> dict[str, int]:
        """Return how many rows of the word index have each word or phrase."""
        self._frequencies.update(self._count_rows([word for word in words if word not in self._frequencies]))
        return {word: self._frequencies[word] for word in words}

    def entries_allowed(self, query: Query, chunk_ids: Sequence[int]) -> set[tuple[int, int]] | None:
        """Return (chunk id, number from 1) of the groups' entries with every phrase and no excluded word; None: all."""
        if not query.phrases and not query.exclusions:
            return None
        groups = [chunk for chunk in self.chunks(chunk_ids).values() if chunk.form == Form.GROUP]
        required, excluded = self._matching_entries(query, [chunk.chunk_id for chunk in groups])
        entries = {(chunk.chunk_id, number) for chunk in groups for number in range(1, len(chunk.entries) + 1)}
        return (entries if required is None else entries & required) - excluded

    def vector_candidates(self, query: Query, vector: Vector, limit: int) -> list[Candidate]:
        """Return the chunks nearest to `vector`; the score is the exact cosine of the stored float16 vectors.

        The index, which may be inexact, selects a quarter more than `limit`; exact cosines then rank these.
        """
        space = self._space_row("active")
        if space is None:
            return []
        number, dimension, _ = space
        filters = self._parameters(query) if self._narrows(query) else {}
        near = self._nearest(number, to_float16(vector, dimension), limit + limit // 4, filters)
        scores = dict(zip((row[0] for row in near), cosines([row[1] for row in near], vector), strict=True))
        of_passages = self.statements.CHUNKS_OF_PASSAGES_FILTERED if filters else self.statements.CHUNKS_OF_PASSAGES
        chunks = self.rows(of_passages, {"passages": self._listed(list(scores)), **filters})
        return ranked((chunk_id, 0, scores[passage]) for chunk_id, passage in chunks)[:limit]

    def latest_candidates(self, query: Query, limit: int) -> list[Candidate]:
        """Return the chunks that pass the filters, latest first; their scores only give the order."""
        rows = self.rows(self.statements.LATEST, {"limit": limit, **self._parameters(query)})
        return [Candidate(chunk_id, rank, 1.0 / rank) for rank, (chunk_id,) in enumerate(rows, 1)]

    def tags(self) -> dict[str, int]:
        """Return how many notes have each tag, by name."""
        return dict(sorted(self.rows(self.statements.TAG_COUNTS)))

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, IndexedChunk]:
        """Return the chunks with these ids."""
        rows = list(self.rows(self.statements.CHUNKS, {"ids": self._listed(list(chunk_ids))}))
        # One call of the JSON parser for all rows is four times faster than one per row.
        headings = json.loads(f"[{','.join(row[8] for row in rows)}]")
        entries = json.loads(f"[{','.join(row[10] for row in rows)}]")
        return {row[0]: _chunk(row, *decoded) for row, *decoded in zip(rows, headings, entries, strict=True)}

    def marked(self) -> tuple[list[IndexedChunk], list[tuple[NotePath, str, Mapping[str, Any]]]]:
        """Return the chunks that supersede others, and (path, date, front matter) of notes that may say what holds."""
        chunks = self.chunks([number for (number,) in self.rows(self.statements.MARKED_CHUNKS)])
        heads = self.rows(self.statements.MARKED_NOTES)
        return list(chunks.values()), [(NotePath(path), day, json.loads(head)) for path, day, head in heads]

    def origins(self) -> list[tuple[NotePath, str]]:
        """Return (path, origin) of every origin of a note's text, without its front matter and mere headings."""
        return [(NotePath(path), origin) for path, origin in self.rows(self.statements.ORIGINS)]

    def lapsing(self) -> list[NotePath]:
        """Return the notes with an entry that itself says when it holds, or that it does not."""
        return [NotePath(path) for (path,) in self.rows(self.statements.LAPSING)]

    def links(self) -> list[tuple[NotePath, Link]]:
        """Return the links of all notes with the notes that have them, by path and line."""
        return [
            (NotePath(path), Link(target, anchor, label, line, bool(wiki)))
            for path, target, anchor, label, line, wiki in self.rows(self.statements.LINKS)
        ]

    # ------------------------------------------------------------------------------------ whole notes

    def notes(self) -> list[IndexedNote]:
        """Return every note, by path."""
        return [_note(row) for row in self.rows(self.statements.NOTES)]

    def notes_where(self, key: str, value: str) -> list[NotePath]:
        """Return the notes, by path, that have this front matter or a chunk with this attribute; no archived ones."""
        return [NotePath(path) for (path,) in self.rows(self.statements.NOTES_WHERE, self._where([(key, value)]))]

    def repetitions(
        self, min_score: float, min_tokens: int, max_pairs: int, max_compared: int, progress: Progress
    ) -> tuple[list[tuple[float, Sequence[NoteLines]]], int]:
        """Return groups of equal or similar passages of several notes, and how many passages were not compared."""
        places: dict[int, list[NoteLines]] = {}
        lengths: dict[int, int] = {}
        for passage, tokens, *place in self.rows(self.statements.SINGLE_ENTRIES, {"tokens": min_tokens}):
            places.setdefault(passage, []).append(NoteLines(*place))
            lengths[passage] = tokens
        compared = sorted(places, key=lambda passage: -lengths[passage])[:max_compared]
        rows = self.rows(self.statements.ACTIVE_VECTORS, {"passages": self._listed(compared)})
        vectors = {passage: self._float16(value) for passage, value in rows}
        groups = similar_passages(places, vectors, min_score, max_pairs, progress)
        return groups, len(places) - len(compared)

    def threads(self, path: NotePath | None = None) -> list[Thread]:
        """Return every thread, or one, by path."""
        threads = []
        for row in self.rows(self.statements.THREADS, {"path": path}):
            name, title, session, user, project, status, archived, last, source, *usage = row
            about = (title, session, user, project, status, bool(archived), last)
            threads.append(Thread(NotePath(name), *about, _usage(usage), source))
        return threads

    def messages(self, role: str, session: str = "") -> list[ThreadMessage]:
        """Return the messages of a role, without their text, newest first."""
        try:
            (role + session).encode()
        except UnicodeEncodeError:  # lone surrogates, which no note has and no database accepts
            return []
        return [
            ThreadMessage(NotePath(path), of_session, start, end, name, time, json.loads(attributes))
            for path, of_session, start, end, name, time, attributes in self.rows(
                self.statements.MESSAGES, {"role": role, "session": session}
            )
        ]

    def costs(self, by: str, since: str) -> list[Cost]:
        """Return tokens and costs since a moment by session, model, agent or day. Raises UsageError for other keys."""
        keys = self.statements.COST_KEYS
        if by not in keys:
            raise UsageError(f"cannot sum costs by {by!r}", hint=f"Use one of: {', '.join(keys)}.")
        key, order = keys[by]
        rows = self.rows(self.statements.COSTS.format(key=key, order=order), {"since": since})
        return [Cost(name, _usage(usage)) for name, *usage in rows]

    # ------------------------------------------------------------------------------------------ spaces

    def active_space(self) -> EmbeddingSpace | None:
        """Return the space that searches use, or None."""
        return self._space("active")

    def pending(self, space: EmbeddingSpace) -> int:
        """Return how many passages wait for their vector in `space`; if the space is unknown, all that may get one."""
        number = self._space_number(space)
        if number is None:
            return int(self.value(self.statements.PASSAGE_COUNT)) - self._local_only(space)
        return int(self.value(self.statements.PENDING_COUNT, {"space": number}))

    def waiting(self, space: EmbeddingSpace, retrievals: Mapping[NotePath, int]) -> list[int]:
        """Return the ids of the waiting passages in the order in which to embed them; those without a note come last.

        That is the first telling passage of every note, then all others, in the order that the port says.
        """
        parameters = {"space": self._space_number(space), "beginning": TELLING_CHUNKS, "enough": TELLING_TOKENS}
        passages = grouped((note, passage) for passage, note in self.rows(self.statements.WAITING, parameters))
        notes = list(self.rows(self.statements.WAITING_NOTES, parameters))
        notes.sort(key=lambda note: (not note[2], -note[3], -retrievals.get(note[1], 0), -note[4], note[1]))
        telling = [note[5] for note in notes if note[5] in passages[note[0]]]
        others = chain.from_iterable(passages.get(note, ()) for note in (*(note[0] for note in notes), None))
        return list(dict.fromkeys([*telling, *others]))

    def pending_hashes(self, space: EmbeddingSpace, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return (id, content hash) of the waiting passages with a higher id than `after`, by id.

        If the space is unknown, return those of all passages, or none if some may get no vector in it.
        """
        parameters = {"space": self._space_number(space), "after": after, "limit": limit}
        if parameters["space"] is None and self._local_only(space):
            return []
        is_known = parameters["space"] is not None
        statement = self.statements.PENDING_HASHES if is_known else self.statements.PASSAGE_HASHES
        return [(number, digest) for number, digest in self.rows(statement, parameters)]

    def spaces(self) -> list[EmbeddingSpace]:
        """Return every space."""
        return [EmbeddingSpace.described(description) for (description,) in self.rows(self.statements.SPACES)]

    def vectors(self, space: EmbeddingSpace, after: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Return (content hash, float16 vector) of a space's vectors with a higher hash than `after`, by hash."""
        parameters = {"space": self._space_number(space), "after": after, "limit": limit}
        return [(digest, self._float16(value)) for digest, value in self.rows(self.statements.VECTORS, parameters)]

    # ------------------------------------------------------------------------------------------ status

    def counts(self) -> IndexCounts:
        """Return the numbers of notes, chunks, passages and vectors, the spaces and the size of the index."""
        notes, chunks, passages = next(iter(self.rows(self.statements.COUNTS)))
        active, building = self._space("active"), self._space("building")
        pending = self.pending(active) if active else passages
        return IndexCounts(
            notes=notes,
            chunks=chunks,
            passages=passages,
            vectors=passages - pending - self._local_only(active),
            pending=pending,
            active_space=active.name if active else "",
            building_space=building.name if building else "",
            building_pending=self.pending(building) if building else 0,
            index_bytes=self._index_bytes(),
            local_only=max(self._local_only(active), self._local_only(building)),
        )

    # ----------------------------------------------------------------------------------------- private

    def _narrows(self, query: Query) -> bool:
        """Tell whether the query excludes anything; a query without filters excludes only archived notes."""
        if query.phrases or query.exclusions or query.filters != Filters(archived=query.filters.archived):
            return True
        return not query.filters.archived and bool(self.value(self.statements.SOME_ARCHIVED))

    def _named_tags(self, filters: Filters) -> list[str]:
        """Return the stored tags that the filter names, as they are stored."""
        known = [name for (name,) in self.rows(self.statements.TAGS)]
        return [name for name in known if any(names_tag(tag, name) for tag in filters.tags)]

    def _space_row(self, state: str) -> tuple[int, int, str] | None:
        """Return (number, dimension, description) of the space that is active or being built."""
        return next(iter(self.rows(self.statements.SPACE_IN_STATE, {"state": state})), None)

    def _space(self, state: str) -> EmbeddingSpace | None:
        space = self._space_row(state)
        return EmbeddingSpace.described(space[2]) if space else None

    def _space_number(self, space: EmbeddingSpace) -> int | None:
        number: int | None = self.value(self.statements.SPACE_NUMBER, {"name": space.name})
        return number


def ranked(scored: Iterable[tuple[int, int, float]], first: Set[tuple[int, int]] = frozenset()) -> list[Candidate]:
    """Return candidates from (chunk, item, score): those in `first`, (chunk, item), then all others, each best first.

    Equal scores share a rank, because ids depend on history and must not decide it. Of these, whole chunks come before
    items.
    """
    ordered = sorted(scored, key=lambda row: (row[:2] not in first, -row[2], row[1] > 0, row[0], row[1]))
    ranks: dict[tuple[bool, float], int] = {}
    candidates = []
    for rank, (chunk_id, item, score) in enumerate(ordered, 1):
        shared = ranks.setdefault(((chunk_id, item) in first, score), rank)
        candidates.append(Candidate(chunk_id, shared, score, item))
    return candidates


def _chunk(row: tuple[Any, ...], heading_path: list[str], entries: list[list[Any]]) -> IndexedChunk:
    read_entries = [Entry(*entry) for entry in entries]
    opening = struct.unpack(f"<{len(row[23]) // 2}H", row[23])
    head, stamp = (*row[:8], heading_path, row[9], read_entries, *row[11:18]), row[18:22]
    return IndexedChunk._make((*head, stamp, row[22], opening, bool(row[24]), row[25]))


def _note(row: tuple[Any, ...]) -> IndexedNote:
    path, kind, tier, title, date, last_time, pinned, archived, head, *changed = row
    times = (date, last_time, bool(pinned), bool(archived))
    return IndexedNote(path, Kind(kind), Tier(tier), title, *times, json.loads(head), *changed)


def _usage(row: Sequence[int]) -> Usage:
    messages, tokens_in, tokens_out, nanos = row
    return Usage(messages, tokens_in, tokens_out, nanos / NANOS)
