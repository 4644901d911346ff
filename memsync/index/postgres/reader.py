"""Read the index of one memory within one transaction."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from memsync.index.fields import Phrase, phrases_of
from memsync.index.postgres import dump, queries
from memsync.index.postgres.halfvec import from_halfvec, halfvec_text
from memsync.index.postgres.hnsw import index_name
from memsync.index.postgres.keyword import Totals, WordIndex, merged
from memsync.index.postgres.local_state import KEPT_KEYS, TOKEN_KEY, LocalState, State
from memsync.index.postgres.postings import key_of, words_of
from memsync.index.postgres.text import matching, storable
from memsync.index.postgres.zone import local_time
from memsync.index.reading import EVERY_WORD_ROWS, SqlReader, ranked
from memsync.model.filters import Filters
from memsync.model.query import Candidate, EmbeddingSpace, Query
from memsync.model.status import IndexedFile, PendingPassage
from memsync.model.vocabulary import NotePath

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memsync.index.frequencies import FrequencyCache
    from memsync.index.postgres.connections import Connection

EXACT_PASSAGES = 20_000
"""A search compares the question with every vector of a memory with up to so many passages, or of a filter that leaves
so few; beyond that it uses the HNSW index."""
MAX_PASSING = 50_000
"""List the chunks that pass a filter if there are no more; otherwise test only the best candidates."""
MAX_NOTES = 10_000
"""List the notes that pass the filters about notes if there are no more; with globs of paths, list them always."""
_ANY_NOTE = {"archived": True} | dict.fromkeys(("kinds", "tiers", "sessions", "folders", "paths"))
"""Parameters of the filters about notes by which every note passes."""
NOT_SHARED = "is local-only: the shared index does not have it, and searches do not find it"
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


class Outside(NamedTuple):
    """What a transaction needs besides the database.

    `ef_search` is how many vectors an HNSW search visits, `stores_text` whether the notes' text is to be in the
    database.
    """

    local: LocalState
    ef_search: int
    stores_text: bool


class PostgresReader(SqlReader):
    """The reading half of the Index port, over one connection in a transaction."""

    statements: ClassVar = queries

    def __init__(
        self, connection: Connection, root: int, outside: Outside, frequencies: FrequencyCache | None = None
    ) -> None:
        self._db = connection
        self._root = root
        self._outside = outside
        self._frequencies = frequencies.of(self.generation()) if frequencies else {}

    def meta(self, key: str) -> str:
        """Return the value stored under a key, or an empty string."""
        return self._state.meta.get(key, "") if key in KEPT_KEYS else self._meta.get(key, "")

    @cached_property
    def _meta(self) -> dict[str, str]:
        rows = self.rows("SELECT key, value FROM meta WHERE root = %(root)s")
        return dict(rows)

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

    def not_shared(self) -> list[NotePath]:
        """Return the local-only notes, by path; on other machines than that of the files none are known."""
        return sorted(self.private_stamps())

    def history(self) -> Mapping[NotePath, tuple[bytes, int]]:
        """Return each note in HEAD's tree with its blob's name and the last commit's time in seconds since 1970."""
        return self._state.history

    # -------------------------------------------------------------------------------------- candidates

    def keyword_candidates(self, query: Query, limit: int) -> list[Candidate]:
        """Return the chunks (of groups, the entries) that have the query's words: first those with every word.

        The score is bm25 divided by the sum of the words' idf, as in the SQLite index.
        """
        phrases, others = (
            list(dict.fromkeys(phrase for word in words for phrase in phrases_of(word)))
            for words in (query.words, query.alternatives)
        )
        if not phrases:
            return []
        narrows = self._narrows(query)
        within = self._within(query) if narrows else None
        is_tested_later = narrows and within is None
        best, every = self._words.score(phrases, others, within, limit, is_tested_later=is_tested_later)
        if is_tested_later:
            best = self._first_passing(query, best, limit)
            every = self._first_passing(query, every, EVERY_WORD_ROWS)
        first = dict(islice(every.items(), EVERY_WORD_ROWS))
        scored = first | dict(islice(best.items(), limit))
        # The sum of the words' idf, without phrases, although phrases add to a score.
        ceiling = max(sum(self.word_weights(query.words).values()), 1e-6) if scored else 1.0
        rows = ((row >> 8, row & 255, score / ceiling) for row, score in scored.items())
        return ranked(rows, {divmod(row, 256) for row in first})

    def _word_row_count(self) -> int:
        return self._totals.rows

    def stems(self, beginning: str) -> list[str]:
        """Return the stems in the word index with this beginning."""
        return self._words.stems(storable(beginning))

    def _count_rows(self, words: Sequence[str]) -> dict[str, int]:
        """Count the rows that have each word, as a query reads it."""
        phrases = {word: phrases_of(word) for word in words}
        keys = {word: [key_of(w) for phrase in phrases[word] for w in words_of(phrase.text)] for word in words}
        plain_words = [
            word
            for word in words
            if len(keys[word]) == 1 and not (phrases[word][0].is_cjk or phrases[word][0].is_prefix)
        ]
        counts = self._words.counts([keys[word][0] for word in plain_words]) if plain_words else {}
        return {
            word: counts.get(keys[word][0], 0) if word in plain_words else len(self._any(phrases[word]))
            for word in words
        }

    def _matching_entries(
        self, query: Query, groups: Sequence[int]
    ) -> tuple[set[tuple[int, int]] | None, set[tuple[int, int]]]:
        import numpy as np

        required, excluded = (
            None if rows is None else {divmod(row, 256) for row in rows[np.isin(rows >> 8, groups)].tolist()}
            for rows in (self._required(query), self._excluded(query))
        )
        return required, excluded or set()

    def _nearest(self, space: int, vector: bytes, limit: int, filters: Mapping[str, Any]) -> list[tuple[int, bytes]]:
        dimension, extension = len(vector) // 2, self._db.extension
        parameters = {"space": space, "vector": halfvec_text(vector), "limit": limit, **filters}
        near = list[tuple[int, bytes]]()
        if self._is_indexed(dimension, filters):
            self._db.execute(f"SET LOCAL hnsw.ef_search = {self._outside.ef_search:d}")
            self._db.execute("SET LOCAL hnsw.iterative_scan = relaxed_order")
            statement = queries.NEAREST_INDEXED_FILTERED if filters else queries.NEAREST_INDEXED
            near = list(self.rows(statement.format(dimension=dimension, extension=extension), parameters))
        if len(near) < limit:  # few vectors, or the index gave up before it found enough that pass the filters
            statement = queries.NEAREST_FILTERED if filters else queries.NEAREST
            near = list(self.rows(statement.format(extension=extension), parameters))
        return [(passage, from_halfvec(value)) for passage, value in near]

    def _is_indexed(self, dimension: int, filters: Mapping[str, Any]) -> bool:
        """Tell whether the HNSW index is to be used: there are many passages, and it exists."""
        if not list(self.rows(queries.HNSW_STATE, {"name": index_name(dimension)})):
            return False
        statement = queries.PASSING_PASSAGES if filters else queries.PASSAGES
        enough = EXACT_PASSAGES + 1
        return int(self.value(statement, {**filters, "enough": enough})) == enough

    # ------------------------------------------------------------------------------------ whole notes

    def warnings(self) -> list[tuple[str, str]]:
        """Return (path, warning) of every warning, by path; also of each local-only note, which no search finds."""
        known = [(path, text) for path, warnings in self.rows(queries.WARNINGS) for text in json.loads(warnings)]
        private = [(path, NOT_SHARED) for path in self.private_stamps()]
        return sorted([*known, *private], key=lambda warning: warning[0].encode())

    # ------------------------------------------------------------------------------------------ spaces

    def pending_passages(self, space: EmbeddingSpace, passages: Sequence[int]) -> list[PendingPassage]:
        """Return those of `passages` that wait for their vector, in the same order. Their text is only in the files."""
        parameters = {"space": self._space_number(space), "passages": list(passages)}
        rows = self.rows(queries.PENDING, parameters)
        return [PendingPassage(number, digest, NotePath(path or ""), None) for number, digest, path in rows]

    # ------------------------------------------------------------------------------------------ status

    def dump(self) -> Iterator[str]:
        """Yield the canonical dump, one JSON list per line: the same as that of the SQLite index."""
        self.be_patient()
        active = self._space_row("active")
        return dump.lines(self.rows, self.history(), active[0] if active else None, self._totals)

    def be_patient(self) -> None:
        """Wait for the server as long as it takes: the next statements read the whole index."""
        self._db.silence = None

    def rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Iterator[tuple[Any, ...]]:
        """Run a statement of queries.py for this memory and return its rows."""
        cursor = self._db.cursor(binary=True)
        cursor.execute(statement.encode(), self._named(parameters or {}))
        return cursor

    def value(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Return the first value of the first row of a statement; None without rows."""
        row = next(iter(self.rows(statement, parameters)), None)
        return row[0] if row else None

    # ----------------------------------------------------------------------------------------- private

    def _named(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters with those that many statements have; texts in lists must be storable already."""
        texts = {name: storable(value) for name, value in parameters.items() if isinstance(value, str)}
        return {"root": self._root, **parameters, **texts}

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

    def _first_passing(self, query: Query, scores: Mapping[int, float], limit: int) -> dict[int, float]:
        """Return the best rows whose chunks pass the filters: test more and more of them until there are enough."""
        parameters = self._parameters(query)
        kept: dict[int, float] = {}
        rows, size = iter(scores), 4 * limit
        while len(kept) < limit and (tested := list(islice(rows, size))):
            ids = list({row >> 8 for row in tested})
            passing = {chunk_id for (chunk_id,) in self.rows(queries.PASSING, {**parameters, "ids": ids})}
            kept |= {row: scores[row] for row in tested if row >> 8 in passing}
            size *= 8
        return kept

    def _float16(self, value: bytes) -> bytes:
        return from_halfvec(value)

    def _listed(self, values: Sequence[Any]) -> list[Any]:
        return list(values)

    def _where(self, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
        if not pairs:
            return dict.fromkeys(("where_keys", "where_folded", "where_values", "where_days"))
        return {
            "where_keys": [storable(key) for key, _ in pairs],
            "where_folded": [storable(value.lower()) for _, value in pairs],
            "where_values": [storable(value) for _, value in pairs],
            "where_days": [value if _DAY.fullmatch(value) else "" for _, value in pairs],
        }

    def _parameters(self, query: Query) -> dict[str, Any]:
        """Return the parameters of the filter conditions; None for a filter that is not set."""
        filters = query.filters
        names = self._named_tags(filters) if filters.tags else None
        required, excluded = self._required(query), self._excluded(query)
        return {
            **self._note_parameters(filters),
            "roles": _texts(filters.roles), "origins": _texts(filters.origins), "tags": names,
            "after": filters.after, "before": filters.before,
            "required": None if required is None else _chunks_of(required),
            "excluded": None if excluded is None else _chunks_of(excluded),
            **self._where(filters.where),
            **local_time(),
        }  # fmt: skip

    def _note_parameters(self, filters: Filters) -> dict[str, Any]:
        """Return the parameters of the filters about notes: the ids of the notes that pass, unless they are too many.

        The server cannot guess how many notes a folder or a pattern leaves, and would read every chunk.
        """
        of_notes = {
            "kinds": _texts(filters.kinds), "tiers": _texts(filters.tiers), "sessions": _texts(filters.sessions),
            "folders": _texts(filters.folders),
            "paths": None if filters.notes is None else [storable(path) for path in filters.notes],
        }  # fmt: skip
        parameters = {"archived": filters.archived, "notes": None, **of_notes}
        globs = filters.path_globs
        if not globs and all(value is None for value in of_notes.values()):
            return parameters
        rows = list(self.rows(queries.PASSING_NOTES, {**parameters, "enough": None if globs else MAX_NOTES + 1}))
        if globs:
            rows = [rows[position] for position in matching([path for _, path in rows], globs)]
        elif len(rows) > MAX_NOTES:
            return parameters
        return {**_ANY_NOTE, "notes": [note_id for note_id, _ in rows]}


def _texts(values: Sequence[str]) -> list[str] | None:
    return [storable(value) for value in values] or None


def _chunks_of(rows: NDArray[np.int64]) -> list[int]:
    chunks: list[int] = merged([rows >> 8]).tolist()
    return chunks
