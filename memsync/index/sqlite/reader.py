"""Read the index within one transaction."""

from __future__ import annotations

import json
import math
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
from msgspec.structs import asdict

from memsync.errors import UsageError
from memsync.index.fields import all_of, any_of, is_single_word
from memsync.index.frequencies import FrequencyCache
from memsync.index.rows import NANOS
from memsync.index.similar import similar_passages
from memsync.index.sqlite import queries
from memsync.index.sqlite.integrity import find_damage, find_miscount, places_of_word, unseen_vectors, word_rows
from memsync.index.sqlite.queries import chunk_and_item
from memsync.index.vectors import cosines, to_float16, to_int8
from memsync.model.conversation import Cost, Thread, ThreadMessage, Usage
from memsync.model.filters import Filters
from memsync.model.note import Entry
from memsync.model.query import Candidate, EmbeddingSpace, IndexedChunk, IndexedNote, Query, names_tag
from memsync.model.status import IndexCounts, IndexedFile, PendingPassage, WaitingNote
from memsync.model.upkeep import Place
from memsync.model.vocabulary import Form, Kind, NotePath, Tier

if TYPE_CHECKING:
    from memsync.index.vectors import Vector
    from memsync.ports import Progress

MAX_NEAREST = 4_096
"""vec0 refuses a larger k."""
TELLING_TOKENS = 20
"""Fewest tokens of a passage that can show what its note is about: a title alone cannot."""
TELLING_CHUNKS = 8
"""Look for such a passage in so many first chunks of a note."""


class SqliteReader:
    """The reading half of the Index port, over one connection in a transaction."""

    def __init__(self, connection: apsw.Connection, path: Path, frequencies: FrequencyCache | None = None) -> None:
        self._db = connection
        self._path = path
        self._frequencies = frequencies.of(self.generation()) if frequencies else {}

    def generation(self) -> int:
        """Return a number that grows with every committed write."""
        return int(self.meta("generation") or 0)

    def notes_generation(self) -> int:
        """Return the generation of the last write that changed more than vectors."""
        return int(self.meta("notes_generation") or 0)

    def last_removal(self) -> int:
        """Return the generation of the last write that deleted a note or replaced its text."""
        return int(self.meta("last_removal") or 0)

    def meta(self, key: str) -> str:
        """Return the value stored under a key, or an empty string."""
        return str(self._value("SELECT value FROM meta WHERE key = ?", (key,)) or "")

    def stamps(self) -> dict[NotePath, IndexedFile]:
        """Return every indexed note with its stamp."""
        return {row[0]: IndexedFile._make(row[1:]) for row in self._rows(queries.STAMPS)}

    def history(self) -> dict[NotePath, tuple[bytes, int]]:
        """Return each note in HEAD's tree with its blob's name and the last commit's time in seconds since 1970."""
        return {path: (blob, committed) for path, blob, committed in self._rows(queries.HISTORY)}

    def committed_notes(self) -> int:
        """Return the number of notes that have their date from a commit."""
        return int(self._value(queries.COMMITTED))

    # -------------------------------------------------------------------------------------- candidates

    def keyword_candidates(self, query: Query, limit: int) -> list[Candidate]:
        """Return the chunks (of groups, the entries) that have the query's words, best first.

        The score is bm25 divided by the sum of the words' idf, which is the bm25 of an average chunk with every word
        once. Words that no chunk has count in the sum, so that a question about another subject scores low.
        """
        match = any_of(query.words)
        if not match:
            return []
        if self._narrows(query):
            rows = self._rows(queries.KEYWORD_FILTERED, {"match": match, "limit": limit, **self._parameters(query)})
        else:
            rows = self._rows(queries.KEYWORD, {"match": match, "limit": limit})
        scored = list(rows)
        # The sum of the words' idf, without phrases, although phrases add to a score.
        ceiling = max(sum(self.word_weights(query.words).values()), 1e-6) if scored else 1.0
        return _ranked((row, -distance / ceiling) for row, distance in scored)

    def word_weights(self, words: Sequence[str]) -> dict[str, float]:
        """Return FTS5's idf of each single word: the rarer a word, the higher."""
        total = self._frequency("", queries.CHUNK_COUNT, ())
        weights = {}
        for word in filter(is_single_word, words):
            count = self._frequency(word, queries.WORD_COUNT, (any_of([word]),))
            weights[word] = max(1e-6, math.log((total - count + 0.5) / (count + 0.5)))
        return weights

    def entries_allowed(self, query: Query, chunk_ids: Sequence[int]) -> set[tuple[int, int]] | None:
        """Return (chunk id, number from 1) of the groups' entries with every phrase and no excluded word; None: all."""
        if not query.phrases and not query.exclusions:
            return None
        groups = [chunk for chunk in self.chunks(chunk_ids).values() if chunk.form == Form.GROUP]
        allowed = {(chunk.chunk_id, number) for chunk in groups for number in range(1, len(chunk.entries) + 1)}
        ids = json.dumps([chunk.chunk_id for chunk in groups])
        for match, is_wanted in ((all_of(query.phrases), True), (any_of(query.exclusions), False)):
            if match:
                rows = self._rows(queries.MATCHING_ROWS, {"match": match, "ids": ids})
                matching = {chunk_and_item(row) for (row,) in rows}
                allowed = allowed & matching if is_wanted else allowed - matching
        return allowed

    def _frequency(self, word: str, statement: str, parameters: tuple[str, ...]) -> int:
        if word not in self._frequencies:
            self._frequencies[word] = int(self._value(statement, parameters))
        return self._frequencies[word]

    def vector_candidates(self, query: Query, vector: Vector, limit: int) -> list[Candidate]:
        """Return the chunks nearest to `vector`; the score is the exact cosine of the stored float16 vectors.

        int8 distances select a quarter more than `limit`; exact cosines then rank these.
        """
        space = self._space_row("active")
        if space is None:
            return []
        number, dimension = space
        parameters: dict[str, Any] = {
            "vector": to_int8(to_float16(vector, dimension)),
            "limit": min(limit + limit // 4, MAX_NEAREST),
            "space": number,
        }
        narrows = self._narrows(query)
        filters = self._parameters(query) if narrows else {}
        statement = queries.NEAREST_FILTERED if narrows else queries.NEAREST
        near = list(self._rows(statement.format(space=number), parameters | filters))
        if not near:  # without this check, a search of a damaged index would silently use only words
            self.check(is_quick=True)
        scores = dict(zip((row[0] for row in near), cosines([row[1] for row in near], vector), strict=True))
        statement = queries.CHUNKS_OF_PASSAGES_FILTERED if narrows else queries.CHUNKS_OF_PASSAGES
        chunks = self._rows(statement, {"passages": json.dumps(list(scores)), **filters})
        return _ranked((chunk_id, scores[passage]) for chunk_id, passage in chunks)[:limit]

    def latest_candidates(self, query: Query, limit: int) -> list[Candidate]:
        """Return the chunks that pass the filters, latest first; their scores only give the order."""
        rows = self._rows(queries.LATEST, {"limit": limit, **self._parameters(query)})
        return [Candidate(chunk_id, rank, 1.0 / rank) for rank, (chunk_id,) in enumerate(rows, 1)]

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, IndexedChunk]:
        """Return the chunks with these ids."""
        rows = list(self._rows(queries.CHUNKS, {"ids": json.dumps(list(chunk_ids))}))
        # One call of the JSON parser for all rows is four times faster than one per row.
        headings = json.loads(f"[{','.join(row[8] for row in rows)}]")
        entries = json.loads(f"[{','.join(row[10] for row in rows)}]")
        return {row[0]: _chunk(row, *decoded) for row, *decoded in zip(rows, headings, entries, strict=True)}

    # ------------------------------------------------------------------------------------ whole notes

    def notes(self) -> list[IndexedNote]:
        """Return every note, by path."""
        return [_note(row) for row in self._rows(queries.NOTES)]

    def notes_where(self, key: str, value: str) -> list[NotePath]:
        """Return the notes, by path, that have this front matter or a chunk with this attribute; no archived ones."""
        rows = self._rows(queries.NOTES_WHERE, {"where": json.dumps([(key, value)])})
        return [NotePath(path) for (path,) in rows]

    def warnings(self) -> list[tuple[str, str]]:
        """Return (path, warning) of every warning, by path."""
        return [(path, text) for path, text in self._rows(queries.WARNINGS)]

    def repetitions(
        self, min_score: float, min_tokens: int, max_pairs: int, max_compared: int, progress: Progress
    ) -> tuple[list[tuple[float, Sequence[Place]]], int]:
        """Return groups of equal or similar passages of several notes, and how many passages were not compared."""
        places: dict[int, list[Place]] = {}
        lengths: dict[int, int] = {}
        for passage, tokens, *place in self._rows(queries.SINGLE_ENTRIES, {"tokens": min_tokens}):
            places.setdefault(passage, []).append(Place(*place))
            lengths[passage] = tokens
        compared = sorted(places, key=lambda passage: -lengths[passage])[:max_compared]
        vectors = dict(self._rows(queries.ACTIVE_VECTORS, {"passages": json.dumps(compared)}))
        groups = similar_passages(places, vectors, min_score, max_pairs, progress)
        return groups, len(places) - len(compared)

    def threads(self, path: NotePath | None = None) -> list[Thread]:
        """Return every thread, or one, by path."""
        rows = self._rows(queries.THREADS, {"path": path})
        return [
            Thread(NotePath(name), title, session, user, project, status, bool(archived), last, _usage(usage), source)
            for name, title, session, user, project, status, archived, last, source, *usage in rows
        ]

    def messages(self, role: str, session: str = "") -> list[ThreadMessage]:
        """Return the messages of a role, without their text, newest first."""
        try:
            (role + session).encode()
        except UnicodeEncodeError:  # lone surrogates, which no note has and SQLite does not accept
            return []
        rows = self._rows(queries.MESSAGES, {"role": role, "session": session})
        return [
            ThreadMessage(NotePath(path), of_session, start, end, name, time, json.loads(attributes))
            for path, of_session, start, end, name, time, attributes in rows
        ]

    def costs(self, by: str, since: str) -> list[Cost]:
        """Return tokens and costs since a moment by session, model, agent or day. Raises UsageError for other keys."""
        if by not in queries.COST_KEYS:
            raise UsageError(f"cannot sum costs by {by!r}", hint=f"Use one of: {', '.join(queries.COST_KEYS)}.")
        key, order = queries.COST_KEYS[by]
        rows = self._rows(queries.COSTS.format(key=key, order=order), {"since": since})
        return [Cost(name, _usage(usage)) for name, *usage in rows]

    # ------------------------------------------------------------------------------------------ spaces

    def active_space(self) -> EmbeddingSpace | None:
        """Return the space that searches use, or None."""
        return self._space("active")

    def pending(self, space: EmbeddingSpace) -> int:
        """Return how many passages wait for their vector in `space`; if the space is unknown, all that may get one."""
        number = self._space_number(space)
        if number is None:
            return int(self._value("SELECT count(*) FROM passage")) - self._local_only(space)
        return int(self._value("SELECT count(*) FROM pending WHERE space = ?", (number,)))

    def _local_only(self, space: EmbeddingSpace | None) -> int:
        """Return how many passages may have no vector in `space`, because they must stay on this machine."""
        return int(self._value(queries.LOCAL_ONLY_PASSAGES)) if space is not None and space.is_remote else 0

    def waiting_notes(self, space: EmbeddingSpace) -> list[WaitingNote]:
        """Return the notes with passages that wait for a vector, in no order.

        Waiting passages that belong to no note come under a WaitingNote with an empty path.
        """
        number = self._space_number(space)
        passages: dict[int | None, list[int]] = {}
        for passage_id, note_id in self._rows(queries.WAITING, {"space": number}):
            passages.setdefault(note_id, []).append(passage_id)
        limits = {"space": number, "beginning": TELLING_CHUNKS, "enough": TELLING_TOKENS}
        notes = [
            WaitingNote(NotePath(path), bool(pinned), importance, changed_ns, telling, passages[note_id])
            for note_id, path, pinned, importance, changed_ns, telling in self._rows(queries.WAITING_NOTES, limits)
        ]
        without_note = passages.get(None, [])
        return [*notes, WaitingNote(NotePath(""), False, 0.0, 0, 0, without_note)] if without_note else notes

    def pending_passages(self, space: EmbeddingSpace, passages: Sequence[int]) -> list[PendingPassage]:
        """Return those of `passages` that wait for their vector, in the same order."""
        parameters = {"space": self._space_number(space), "passages": json.dumps(list(passages))}
        rows = self._rows(queries.PENDING, parameters)
        return [
            PendingPassage(number, digest, NotePath(path), zlib.decompress(text).decode() if text else None)
            for number, digest, text, path in rows
        ]

    def pending_hashes(self, space: EmbeddingSpace, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return (id, content hash) of the waiting passages with a higher id than `after`, by id."""
        parameters = {"space": self._space_number(space), "after": after, "limit": limit}
        return [(number, digest) for number, digest in self._rows(queries.PENDING_HASHES, parameters)]

    def spaces(self) -> list[EmbeddingSpace]:
        """Return every space, including retired ones."""
        rows = self._rows("SELECT description FROM space ORDER BY id")
        return [EmbeddingSpace.described(description) for (description,) in rows]

    def vectors(self, space: EmbeddingSpace, after: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Return (content hash, float16 vector) of a space's vectors with a higher hash than `after`, by hash."""
        parameters = {"space": self._space_number(space), "after": after, "limit": limit}
        return [(digest, value) for digest, value in self._rows(queries.VECTORS, parameters)]

    # ------------------------------------------------------------------------------------------ status

    def counts(self) -> IndexCounts:
        """Return the numbers of notes, chunks, passages and vectors, the spaces and the size of the index."""
        notes, chunks, passages = next(iter(self._rows(queries.COUNTS)))
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
            index_bytes=sum(_size(Path(f"{self._path}{suffix}")) for suffix in ("", "-wal")),
            local_only=max(self._local_only(active), self._local_only(building)),
        )

    def dump(self) -> Iterator[str]:
        """Yield the canonical dump, one JSON list per line."""
        active = self._space_row("active")
        statements = [
            queries.DUMP_NOTES, queries.DUMP_CHUNKS, queries.DUMP_TAGS, queries.DUMP_LINKS, queries.DUMP_MESSAGES,
            queries.DUMP_PASSAGES, queries.DUMP_HISTORY,
        ]  # fmt: skip
        if active is not None:
            statements.append(queries.DUMP_VECTORS.format(space=active[0]))
        tables = chain.from_iterable(map(self._rows, statements))
        for row in chain(tables, word_rows(self._db), unseen_vectors(self._db, active[0]) if active else ()):
            yield json.dumps(row, ensure_ascii=False)

    def dump_word(self, line: str) -> list[str]:
        """Return every place of the word that a line of the dump sums up; empty for a line that is not about a word."""
        row = json.loads(line)
        if row[0] != "word":
            return []
        return [json.dumps(place, ensure_ascii=False) for place in places_of_word(self._db, row[1])]

    def check(self, *, is_quick: bool) -> None:
        """Read and compare all tables, or only count their rows if `is_quick`. Raises apsw.CorruptError."""
        if finding := find_miscount(self._db) if is_quick else find_damage(self._db):
            raise apsw.CorruptError(finding)

    # ----------------------------------------------------------------------------------------- private

    def _parameters(self, query: Query) -> dict[str, Any]:
        """Return the parameters of the filter conditions, named as the filters; None for a filter that is not set."""
        filters = {
            name: (json.dumps(value) if value else None) if isinstance(value, tuple) else value
            for name, value in asdict(query.filters).items()
        }
        if query.filters.tags:
            names = [name for (name,) in self._rows(queries.TAGS)]
            filters["tags"] = json.dumps(
                [name for name in names if any(names_tag(tag, name) for tag in query.filters.tags)]
            )
        return {**filters, "required": all_of(query.phrases) or None, "excluded": any_of(query.exclusions) or None}

    def _rows(self, statement: str, parameters: Any = ()) -> Iterator[tuple[Any, ...]]:
        return self._db.execute(statement, parameters)

    def _value(self, statement: str, parameters: Any = ()) -> Any:
        return self._db.execute(statement, parameters).get

    def _narrows(self, query: Query) -> bool:
        """Tell whether the query excludes anything; a query without filters excludes only archived notes."""
        if query.phrases or query.exclusions or query.filters != Filters(archived=query.filters.archived):
            return True
        return not query.filters.archived and bool(self._value("SELECT 1 FROM note WHERE archived LIMIT 1"))

    def _space_row(self, state: str) -> tuple[int, int] | None:
        row: tuple[int, int] | None = self._value("SELECT id, dimension FROM space WHERE state = ?", (state,))
        return row

    def _space(self, state: str) -> EmbeddingSpace | None:
        description = self._value("SELECT description FROM space WHERE state = ?", (state,))
        return EmbeddingSpace.described(description) if description else None

    def _space_number(self, space: EmbeddingSpace) -> int | None:
        number: int | None = self._value("SELECT id FROM space WHERE name = ?", (space.name,))
        return number


def _ranked(scored: Iterable[tuple[int, float]]) -> list[Candidate]:
    """Return candidates from pairs (row of the word index, score), best first.

    Equal scores share a rank, because ids depend on history and must not decide it.
    """
    ordered = sorted(scored, key=lambda pair: (-pair[1], pair[0]))
    ranks: dict[float, int] = {}
    candidates = []
    for rank, (row, score) in enumerate(ordered, 1):
        chunk_id, item = chunk_and_item(row)
        candidates.append(Candidate(chunk_id, ranks.setdefault(score, rank), score, item))
    return candidates


def _chunk(row: tuple[Any, ...], heading_path: list[str], entries: list[list[Any]]) -> IndexedChunk:
    read_entries = [Entry(*entry) for entry in entries]
    opening = struct.unpack(f"<{len(row[23]) // 2}H", row[23])
    return IndexedChunk._make((*row[:8], heading_path, row[9], read_entries, *row[11:18], row[18:22], row[22], opening))


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _note(row: tuple[Any, ...]) -> IndexedNote:
    path, kind, tier, title, date, last_time, pinned, archived, head, *changed = row
    times = (date, last_time, bool(pinned), bool(archived))
    return IndexedNote(path, Kind(kind), Tier(tier), title, *times, json.loads(head), *changed)


def _usage(row: Sequence[int]) -> Usage:
    messages, tokens_in, tokens_out, nanos = row
    return Usage(messages, tokens_in, tokens_out, nanos / NANOS)
