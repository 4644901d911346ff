"""Read the index of one memory within one transaction."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from memsync.errors import UsageError
from memsync.index.fields import Phrase, is_single_word, phrases_of
from memsync.index.postgres import dump, queries
from memsync.index.postgres.halfvec import from_halfvec, halfvec_text
from memsync.index.postgres.keyword import Totals, WordIndex, merged, row_of
from memsync.index.postgres.local_state import KEPT_KEYS, TOKEN_KEY, LocalState, State
from memsync.index.postgres.postings import key_of, words_of
from memsync.index.postgres.text import glob_pattern, plain, plain_row, safe
from memsync.index.postgres.waiting_texts import WaitingTexts
from memsync.index.rows import NANOS
from memsync.index.similar import similar_passages
from memsync.index.vectors import cosines, to_float16
from memsync.model.conversation import Cost, Thread, ThreadMessage, Usage
from memsync.model.filters import Filters
from memsync.model.note import Entry
from memsync.model.query import Candidate, EmbeddingSpace, IndexedChunk, IndexedNote, Query, names_tag
from memsync.model.status import IndexCounts, IndexedFile, PendingPassage, WaitingNote
from memsync.model.upkeep import Place
from memsync.model.vocabulary import Form, Kind, NotePath, Tier

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memsync.index.frequencies import FrequencyCache
    from memsync.index.postgres.connections import Connection
    from memsync.index.vectors import Vector
    from memsync.ports import Progress

TELLING_TOKENS = 20
"""Fewest tokens of a passage that can show what its note is about: a title alone cannot."""
TELLING_CHUNKS = 8
"""Look for such a passage in so many first chunks of a note."""
EXACT_PASSAGES = 20_000
"""A search compares the question with every vector of a memory with up to so many passages, or of a filter that leaves
so few; beyond that it uses the HNSW index."""
MAX_PASSING = 50_000
"""List the chunks that pass a filter if there are no more; otherwise test only the best candidates."""
MAX_NOTES = 10_000
"""List the notes that pass the filters about notes if there are no more."""
_ANY_NOTE = {"archived": True} | dict.fromkeys(("kinds", "tiers", "sessions", "folders", "path_patterns"))
"""Parameters of the filters about notes by which every note passes."""
NOT_SHARED = "is local-only: the shared index does not have it, and searches do not find it"
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


class Outside(NamedTuple):
    """What a transaction needs besides the database.

    `zone` is the local time zone, `ef_search` how many vectors an HNSW search visits, `texts` those that wait for their
    vector in this process; `stores_text` whether the notes' text is to be in the database. `extension` is the schema of
    pgvector, quoted.
    """

    local: LocalState
    zone: str
    ef_search: int
    texts: WaitingTexts
    stores_text: bool
    extension: str = ""


class PostgresReader:
    """The reading half of the Index port, over one connection in a transaction."""

    def __init__(
        self, connection: Connection, root: int, outside: Outside, frequencies: FrequencyCache | None = None
    ) -> None:
        self._db = connection
        self._root = root
        self._outside = outside
        self._frequencies = frequencies.of(self.generation()) if frequencies else {}

    def generation(self) -> int:
        """Return a number that grows with every committed write."""
        return int(self._meta.get("generation") or 0)

    def notes_generation(self) -> int:
        """Return the generation of the last write that changed more than vectors."""
        return int(self._meta.get("notes_generation") or 0)

    def last_removal(self) -> int:
        """Return the generation of the last write that deleted a note or replaced its text."""
        return int(self._meta.get("last_removal") or 0)

    def meta(self, key: str) -> str:
        """Return the value stored under a key, or an empty string."""
        return self._state.meta.get(key, "") if key in KEPT_KEYS else self._meta.get(key, "")

    @cached_property
    def _meta(self) -> dict[str, str]:
        rows = self.rows("SELECT key, value FROM meta WHERE root = %(root)s")
        return {key: plain(value) for key, value in rows}

    @cached_property
    def _state(self) -> State:
        return self._outside.local.read(self._meta.get(TOKEN_KEY, ""))

    def stamps(self) -> dict[NotePath, IndexedFile]:
        """Return every indexed note with its stamp."""
        rows = self.rows(queries.STAMPS, {"stores_text": self._outside.stores_text})
        return {**{row[0]: IndexedFile._make(row[1:]) for row in rows}, **self.private_stamps()}

    def private_stamps(self) -> Mapping[NotePath, IndexedFile]:
        """Return the stamps of the local-only notes, which are not in the database."""
        return self._state.private

    def history(self) -> Mapping[NotePath, tuple[bytes, int]]:
        """Return each note in HEAD's tree with its blob's name and the last commit's time in seconds since 1970."""
        return self._state.history

    def committed_notes(self) -> int:
        """Return the number of notes that have their date from a commit."""
        return int(self.value(queries.COMMITTED))

    # -------------------------------------------------------------------------------------- candidates

    def keyword_candidates(self, query: Query, limit: int) -> list[Candidate]:
        """Return the chunks (of groups, the entries) that have the query's words, best first.

        The score is bm25 divided by the sum of the words' idf, as in the SQLite index.
        """
        phrases = list(dict.fromkeys(phrase for word in query.words for phrase in phrases_of(word)))
        if not phrases:
            return []
        narrows = self._narrows(query)
        within = self._within(query) if narrows else None
        is_tested_later = narrows and within is None
        rows, scores = self._words.score(phrases, within, limit, is_tested_later=is_tested_later)
        if is_tested_later:
            rows, scores = self._first_passing(query, rows, scores, limit)
        # The sum of the words' idf, without phrases, although phrases add to a score.
        ceiling = max(sum(self.word_weights(query.words).values()), 1e-6) if rows else 1.0
        return _ranked((row >> 8, row & 255, score / ceiling) for row, score in zip(rows[:limit], scores, strict=False))

    def word_weights(self, words: Sequence[str]) -> dict[str, float]:
        """Return FTS5's idf of each single word: the rarer a word, the higher."""
        total = self._totals.rows
        wanted = list(filter(is_single_word, words))
        self._count([word for word in wanted if word not in self._frequencies])
        weights = {}
        for word in wanted:
            count = self._frequencies[word]
            weights[word] = max(1e-6, math.log((total - count + 0.5) / (count + 0.5)))
        return weights

    def _count(self, words: Sequence[str]) -> None:
        """Count the rows that have each word, as a query reads it."""
        phrases = {word: phrases_of(word) for word in words}
        keys = {word: [key_of(w) for phrase in phrases[word] for w in words_of(phrase.text)] for word in words}
        plain_words = [word for word in words if len(keys[word]) == 1 and not phrases[word][0].is_cjk]
        counts = self._words.counts([keys[word][0] for word in plain_words]) if plain_words else {}
        for word in words:
            if word in plain_words:
                self._frequencies[word] = counts.get(keys[word][0], 0)
            else:
                self._frequencies[word] = len(self._any(phrases[word]))

    def entries_allowed(self, query: Query, chunk_ids: Sequence[int]) -> set[tuple[int, int]] | None:
        """Return (chunk id, number from 1) of the groups' entries with every phrase and no excluded word; None: all."""
        if not query.phrases and not query.exclusions:
            return None
        groups = [chunk for chunk in self.chunks(chunk_ids).values() if chunk.form == Form.GROUP]
        allowed = {(chunk.chunk_id, number) for chunk in groups for number in range(1, len(chunk.entries) + 1)}
        required, excluded = self._required(query), self._excluded(query)
        if required is not None:
            allowed &= {divmod(row, 256) for row in required.tolist()}
        if excluded is not None:
            allowed -= {divmod(row, 256) for row in excluded.tolist()}
        return allowed

    def vector_candidates(self, query: Query, vector: Vector, limit: int) -> list[Candidate]:
        """Return the chunks nearest to `vector`; the score is the exact cosine of the stored float16 vectors."""
        space = self._space_row("active")
        if space is None:
            return []
        number, dimension = space
        filters = self._parameters(query) if self._narrows(query) else {}
        near = self._nearest(
            filters,
            {"space": number, "vector": halfvec_text(to_float16(vector, dimension)), "limit": limit + limit // 4},
            dimension,
        )
        scores = dict(zip((row[0] for row in near), cosines([row[1] for row in near], vector), strict=True))
        statement = queries.CHUNKS_OF_PASSAGES_FILTERED if filters else queries.CHUNKS_OF_PASSAGES
        chunks = self.rows(statement, {"passages": list(scores), **filters})
        return _ranked((chunk_id, 0, scores[passage]) for chunk_id, passage in chunks)[:limit]

    def _nearest(
        self, filters: Mapping[str, Any], parameters: Mapping[str, Any], dimension: int
    ) -> list[tuple[int, bytes]]:
        """Return (passage, float16 vector) of the nearest passages; with `filters`, only those that pass them."""
        if self._is_indexed(dimension, filters):
            self._db.execute(f"SET LOCAL hnsw.ef_search = {self._outside.ef_search:d}")
            self._db.execute("SET LOCAL hnsw.iterative_scan = relaxed_order")
            statement = queries.NEAREST_INDEXED_FILTERED if filters else queries.NEAREST_INDEXED
        else:
            statement = queries.NEAREST_FILTERED if filters else queries.NEAREST
        statement = statement.format(dimension=dimension, extension=self._outside.extension)
        rows = self.rows(statement, {**parameters, **filters})
        return [(passage, from_halfvec(value)) for passage, value in rows]

    def _is_indexed(self, dimension: int, filters: Mapping[str, Any]) -> bool:
        """Tell whether the HNSW index is to be used: there are many passages, and it exists."""
        name = queries.HNSW_INDEX.format(dimension=dimension)
        if not self.value(queries.HAS_HNSW, {"name": name}):
            return False
        statement = queries.PASSING_PASSAGES if filters else queries.PASSAGES
        enough = EXACT_PASSAGES + 1
        return int(self.value(statement, {**filters, "enough": enough})) == enough

    def latest_candidates(self, query: Query, limit: int) -> list[Candidate]:
        """Return the chunks that pass the filters, latest first; their scores only give the order."""
        rows = self.rows(queries.LATEST, {"limit": limit, **self._parameters(query)})
        return [Candidate(chunk_id, rank, 1.0 / rank) for rank, (chunk_id,) in enumerate(rows, 1)]

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, IndexedChunk]:
        """Return the chunks with these ids."""
        rows = list(self.rows(queries.CHUNKS, {"ids": list(chunk_ids)}))
        # One call of the JSON parser for all rows is four times faster than one per row.
        headings = json.loads(f"[{','.join(row[8] for row in rows)}]")
        entries = json.loads(f"[{','.join(row[10] for row in rows)}]")
        return {row[0]: _chunk(row, *decoded) for row, *decoded in zip(rows, headings, entries, strict=True)}

    # ------------------------------------------------------------------------------------ whole notes

    def notes(self) -> list[IndexedNote]:
        """Return every note, by path."""
        return [_note(row) for row in self.rows(queries.NOTES)]

    def notes_where(self, key: str, value: str) -> list[NotePath]:
        """Return the notes, by path, that have this front matter or a chunk with this attribute; no archived ones."""
        rows = self.rows(queries.NOTES_WHERE, _where([(key, value)]))
        return [NotePath(path) for (path,) in rows]

    def warnings(self) -> list[tuple[str, str]]:
        """Return (path, warning) of every warning, by path; also of each local-only note, which no search finds."""
        known = [(path, text) for path, warnings in self.rows(queries.WARNINGS) for text in json.loads(warnings)]
        private = [(path, NOT_SHARED) for path in self.private_stamps()]
        return sorted([*known, *private], key=lambda warning: warning[0].encode())

    def repetitions(
        self, min_score: float, min_tokens: int, max_pairs: int, max_compared: int, progress: Progress
    ) -> tuple[list[tuple[float, Sequence[Place]]], int]:
        """Return groups of equal or similar passages of several notes, and how many passages were not compared."""
        places: dict[int, list[Place]] = {}
        lengths: dict[int, int] = {}
        for passage, tokens, *place in self.rows(queries.SINGLE_ENTRIES, {"tokens": min_tokens}):
            places.setdefault(passage, []).append(Place(*place))
            lengths[passage] = tokens
        compared = sorted(places, key=lambda passage: -lengths[passage])[:max_compared]
        rows = self.rows(queries.ACTIVE_VECTORS, {"passages": compared})
        vectors = {passage: from_halfvec(value) for passage, value in rows}
        groups = similar_passages(places, vectors, min_score, max_pairs, progress)
        return groups, len(places) - len(compared)

    def threads(self, path: NotePath | None = None) -> list[Thread]:
        """Return every thread, or one, by path."""
        rows = self.rows(queries.THREADS, {"path": path})
        threads = []
        for name, title, session, fields, archived, last, *usage in rows:
            user, project, status, source = map(plain, fields)
            about = (plain(title), plain(session), user, project, status, archived, plain(last))
            threads.append(Thread(NotePath(name), *about, _usage(usage), source))
        return threads

    def messages(self, role: str, session: str = "") -> list[ThreadMessage]:
        """Return the messages of a role, without their text, newest first."""
        try:
            (role + session).encode()
        except UnicodeEncodeError:  # lone surrogates, which no note has and PostgreSQL does not accept
            return []
        rows = self.rows(queries.MESSAGES, {"role": safe(role), "session": safe(session)})
        return [
            ThreadMessage(NotePath(path), plain(of_session), start, end, plain(name), time, json.loads(attributes))
            for path, of_session, start, end, name, time, attributes in rows
        ]

    def costs(self, by: str, since: str) -> list[Cost]:
        """Return tokens and costs since a moment by session, model, agent or day. Raises UsageError for other keys."""
        if by not in queries.COST_KEYS:
            raise UsageError(f"cannot sum costs by {by!r}", hint=f"Use one of: {', '.join(queries.COST_KEYS)}.")
        key, order = queries.COST_KEYS[by]
        rows = self.rows(queries.COSTS.format(key=key, order=order), {"since": since})
        return [Cost(plain(name), _usage(usage)) for name, *usage in rows]

    # ------------------------------------------------------------------------------------------ spaces

    def active_space(self) -> EmbeddingSpace | None:
        """Return the space that searches use, or None."""
        return self._space("active")

    def pending(self, space: EmbeddingSpace) -> int:
        """Return how many passages wait for their vector in `space`; if the space is unknown, all of them."""
        number = self._space_number(space)
        if number is None:
            return int(self.value("SELECT count(*) FROM passage WHERE root = %(root)s"))
        statement = "SELECT count(*) FROM pending WHERE root = %(root)s AND space = %(space)s"
        return int(self.value(statement, {"space": number}))

    def waiting_notes(self, space: EmbeddingSpace) -> list[WaitingNote]:
        """Return the notes with passages that wait for a vector, in no order.

        Waiting passages that belong to no note come under a WaitingNote with an empty path.
        """
        number = self._space_number(space)
        passages: dict[int | None, list[int]] = {}
        for passage_id, note_id in self.rows(queries.WAITING, {"space": number}):
            passages.setdefault(note_id, []).append(passage_id)
        limits = {"space": number, "beginning": TELLING_CHUNKS, "enough": TELLING_TOKENS}
        notes = [
            WaitingNote(NotePath(path), pinned, importance, changed_ns, telling, passages[note_id])
            for note_id, path, pinned, importance, changed_ns, telling in self.rows(queries.WAITING_NOTES, limits)
        ]
        without_note = passages.get(None, [])
        return [*notes, WaitingNote(NotePath(""), False, 0.0, 0, 0, without_note)] if without_note else notes

    def pending_passages(self, space: EmbeddingSpace, passages: Sequence[int]) -> list[PendingPassage]:
        """Return those of `passages` that wait for their vector, in the same order.

        The text is there if this process has it: it is not in the database.
        """
        parameters = {"space": self._space_number(space), "passages": list(passages)}
        rows = self.rows(queries.PENDING, parameters)
        return [
            PendingPassage(number, digest, NotePath(path or ""), self._outside.texts.get(digest))
            for number, digest, path in rows
        ]

    def pending_hashes(self, space: EmbeddingSpace, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return (id, content hash) of the waiting passages with a higher id than `after`, by id."""
        parameters = {"space": self._space_number(space), "after": after, "limit": limit}
        return [(number, digest) for number, digest in self.rows(queries.PENDING_HASHES, parameters)]

    def spaces(self) -> list[EmbeddingSpace]:
        """Return every space, including retired ones."""
        rows = self.rows("SELECT description FROM space WHERE root = %(root)s ORDER BY id")
        return [EmbeddingSpace.described(description) for (description,) in rows]

    def vectors(self, space: EmbeddingSpace, after: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Return (content hash, float16 vector) of a space's vectors with a higher hash than `after`, by hash."""
        parameters = {"space": self._space_number(space), "after": after, "limit": limit}
        return [(digest, from_halfvec(value)) for digest, value in self.rows(queries.VECTORS, parameters)]

    # ------------------------------------------------------------------------------------------ status

    def counts(self) -> IndexCounts:
        """Return the numbers of notes, chunks, passages and vectors, and the spaces; the size is not counted."""
        notes, chunks, passages = next(iter(self.rows(queries.COUNTS)))
        active, building = self._space("active"), self._space("building")
        pending = self.pending(active) if active else passages
        return IndexCounts(
            notes=notes,
            chunks=chunks,
            passages=passages,
            vectors=passages - pending,
            pending=pending,
            active_space=active.name if active else "",
            building_space=building.name if building else "",
            building_pending=self.pending(building) if building else 0,
            index_bytes=0,
        )

    def dump(self) -> Iterator[str]:
        """Yield the canonical dump, one JSON list per line: the same as that of the SQLite index."""
        active = self._space_row("active")
        return dump.lines(self.rows, self.history(), active[0] if active else None)

    def dump_word(self, line: str) -> list[str]:
        """Return every place of the word that a line of the dump sums up; empty for a line that is not about a word."""
        row = json.loads(line)
        return dump.places_of_word(self.rows, row[1]) if row[0] == "word" else []

    def rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Iterator[tuple[Any, ...]]:
        """Run a statement of queries.py for this memory and return its rows."""
        cursor = self._db.cursor(binary=True)
        cursor.execute(statement.encode(), {"root": self._root, "zone": self._outside.zone, **(parameters or {})})
        return cursor

    def value(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Return the first value of the first row of a statement; None without rows."""
        row = next(iter(self.rows(statement, parameters)), None)
        return row[0] if row else None

    # ----------------------------------------------------------------------------------------- private

    @cached_property
    def _totals(self) -> Totals:
        return Totals(int(self._meta.get("word_rows") or 0), int(self._meta.get("word_total") or 0))

    @cached_property
    def _words(self) -> WordIndex:
        return WordIndex(self.rows, self._totals, self._frequencies)

    def _any(self, phrases: Sequence[Phrase]) -> NDArray[np.int64]:
        """Return the rows that have at least one of the phrases, ascending."""
        import numpy as np

        found = [self._words.matches(phrase).rows for phrase in phrases]
        return merged(found) if found else np.empty(0, np.int64)

    def _required(self, query: Query) -> NDArray[np.int64] | None:
        """Return the rows that have every phrase of the query; None if it has none."""
        import numpy as np

        rows: NDArray[np.int64] | None = None
        for text in query.phrases:
            for phrase in phrases_of(text):
                found = self._words.matches(phrase).rows
                rows = found if rows is None else np.intersect1d(rows, found, assume_unique=True)
        return rows

    def _excluded(self, query: Query) -> NDArray[np.int64] | None:
        """Return the rows that have an excluded word or phrase; None if the query excludes none."""
        phrases = [phrase for text in query.exclusions for phrase in phrases_of(text)]
        return self._any(phrases) if phrases else None

    def _within(self, query: Query) -> NDArray[np.int64] | None:
        """Return the ids of the chunks that pass the filters, ascending; None if they are too many to list."""
        import numpy as np

        chunks = self.value(queries.ALL_PASSING, {**self._parameters(query), "enough": MAX_PASSING + 1})
        return None if len(chunks) > MAX_PASSING else np.sort(np.array(chunks, dtype=np.int64))

    def _first_passing(
        self, query: Query, rows: Sequence[int], scores: Sequence[float], limit: int
    ) -> tuple[Sequence[int], Sequence[float]]:
        """Return the best rows whose chunks pass the filters: test more and more of them until there are enough."""
        parameters = self._parameters(query)
        kept: list[tuple[int, float]] = []
        start, size = 0, 4 * limit
        while start < len(rows) and len(kept) < limit:
            tested = list(zip(rows[start : start + size], scores[start : start + size], strict=True))
            ids = list({row >> 8 for row, _ in tested})
            passing = {chunk_id for (chunk_id,) in self.rows(queries.PASSING, {**parameters, "ids": ids})}
            kept += [(row, score) for row, score in tested if row >> 8 in passing]
            start, size = start + size, 8 * size
        return [row for row, _ in kept], [score for _, score in kept]

    def _parameters(self, query: Query) -> dict[str, Any]:
        """Return the parameters of the filter conditions; None for a filter that is not set."""
        filters = query.filters
        names = None
        if filters.tags:
            known = [name for (name,) in self.rows(queries.TAGS)]
            names = [name for name in known if any(names_tag(tag, plain(name)) for tag in filters.tags)]
        required, excluded = self._required(query), self._excluded(query)
        return {
            **self._note_parameters(filters),
            "roles": _texts(filters.roles), "tags": names,
            "after": safe(filters.after), "before": safe(filters.before), "zone": self._outside.zone,
            "required": None if required is None else _chunks_of(required),
            "excluded": None if excluded is None else _chunks_of(excluded),
            **_where(filters.where),
        }  # fmt: skip

    def _note_parameters(self, filters: Filters) -> dict[str, Any]:
        """Return the parameters of the filters about notes: the ids of the notes that pass, unless they are too many.

        The server cannot guess how many notes a folder or a pattern leaves, and would read every chunk.
        """
        of_notes = {
            "kinds": _texts(filters.kinds), "tiers": _texts(filters.tiers), "sessions": _texts(filters.sessions),
            "folders": _texts(filters.folders),
            "path_patterns": [safe(glob_pattern(glob)) for glob in filters.path_globs] or None,
        }  # fmt: skip
        parameters = {"archived": filters.archived, "notes": None, **of_notes}
        if not any(of_notes.values()):
            return parameters
        rows = self.rows(queries.PASSING_NOTES, {**parameters, "enough": MAX_NOTES + 1})
        notes = [note_id for (note_id,) in rows]
        return parameters if len(notes) > MAX_NOTES else {**_ANY_NOTE, "notes": notes}

    def _narrows(self, query: Query) -> bool:
        """Tell whether the query excludes anything; a query without filters excludes only archived notes."""
        if query.phrases or query.exclusions or query.filters != Filters(archived=query.filters.archived):
            return True
        statement = "SELECT 1 FROM note WHERE root = %(root)s AND archived LIMIT 1"
        return not query.filters.archived and bool(self.value(statement))

    def _space_row(self, state: str) -> tuple[int, int] | None:
        statement = "SELECT id, dimension FROM space WHERE root = %(root)s AND state = %(state)s"
        row = next(iter(self.rows(statement, {"state": state})), None)
        return (row[0], row[1]) if row else None

    def _space(self, state: str) -> EmbeddingSpace | None:
        statement = "SELECT description FROM space WHERE root = %(root)s AND state = %(state)s"
        description = self.value(statement, {"state": state})
        return EmbeddingSpace.described(description) if description else None

    def _space_number(self, space: EmbeddingSpace) -> int | None:
        statement = "SELECT id FROM space WHERE root = %(root)s AND name = %(name)s"
        number: int | None = self.value(statement, {"name": space.name})
        return number


def _texts(values: Sequence[str]) -> list[str] | None:
    return [safe(value) for value in values] or None


def _chunks_of(rows: NDArray[np.int64]) -> list[int]:
    chunks: list[int] = merged([rows >> 8]).tolist()
    return chunks


def _where(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the parameters of the condition for pairs of key and value; None without pairs."""
    if not pairs:
        return dict.fromkeys(("where_keys", "where_folded", "where_values", "where_days"))
    return {
        "where_keys": [safe(key) for key, _ in pairs],
        "where_folded": [safe(value.lower()) for _, value in pairs],
        "where_values": [safe(value) for _, value in pairs],
        "where_days": [value if _DAY.fullmatch(value) else "" for _, value in pairs],
    }


def _ranked(scored: Iterable[tuple[int, int, float]]) -> list[Candidate]:
    """Return candidates from (chunk, item, score), best first.

    Equal scores share a rank, because ids depend on history and must not decide it. Of these, whole chunks come before
    items, as in the SQLite index.
    """
    ordered = sorted(scored, key=lambda row: (-row[2], row[1] > 0, row_of(row[0], row[1])))
    ranks: dict[float, int] = {}
    candidates = []
    for rank, (chunk_id, item, score) in enumerate(ordered, 1):
        candidates.append(Candidate(chunk_id, ranks.setdefault(score, rank), score, item))
    return candidates


def _chunk(row: tuple[Any, ...], heading_path: list[str], entries: list[list[Any]]) -> IndexedChunk:
    read_entries = [Entry(*entry) for entry in entries]
    opening = struct.unpack(f"<{len(row[23]) // 2}H", row[23])
    before = (*row[:8], heading_path, plain(row[9]), read_entries, *row[11:13], *plain_row(row[13:15]))
    return IndexedChunk._make((*before, *row[15:18], row[18:22], row[22], opening))


def _note(row: tuple[Any, ...]) -> IndexedNote:
    path, kind, tier, title, date, last_time, pinned, archived, head, *changed = row
    times = (plain(date), plain(last_time), pinned, archived)
    return IndexedNote(path, Kind(kind), Tier(tier), plain(title), *times, json.loads(head), *changed)


def _usage(row: Sequence[int]) -> Usage:
    messages, tokens_in, tokens_out, nanos = row
    return Usage(messages, tokens_in, tokens_out, nanos / NANOS)
