"""Read the index of one memory within one transaction."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from memsync.index.postgres import dump, queries
from memsync.index.postgres.halfvec import from_halfvec, halfvec_text
from memsync.index.postgres.hnsw import index_name
from memsync.index.postgres.local_state import KEPT_KEYS, TOKEN_KEY, LocalState, State
from memsync.index.postgres.text import matching, storable
from memsync.index.postgres.words import Term, any_of, bm25, every_of, idf, memory_word, terms_of
from memsync.index.postgres.zone import local_time
from memsync.index.reading import EVERY_WORD_ROWS, LAST_CHARACTER, SqlReader, ranked
from memsync.model.filters import Filters
from memsync.model.query import Candidate, EmbeddingSpace, Query
from memsync.model.status import IndexedFile, PendingPassage
from memsync.model.vocabulary import NotePath

if TYPE_CHECKING:
    from memsync.index.frequencies import FrequencyCache
    from memsync.index.postgres.connections import DatabaseConnection

EXACT_PASSAGES = 20_000
"""A search compares the question with every vector of a memory with up to so many passages, or of a filter that leaves
so few; beyond that it uses the HNSW index."""
MANY_ROWS = 2_000
"""The rarest words that no more rows have choose the candidates; the others of a question only score them."""
NOT_SHARED = "is local-only: the shared index does not have it, and searches do not find it"
Rows = Callable[[str, dict[str, Any]], Iterable[tuple[Any, ...]]]
"""Runs a statement of queries.py for one memory and returns its rows."""
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
        self, connection: DatabaseConnection, root: int, outside: Outside, frequencies: FrequencyCache | None = None
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
        required, others = terms_of(query.words), terms_of(query.alternatives)
        if not required:
            return []
        counts = self._counts(list(dict.fromkeys([*required, *others])))
        rarest, rows = list[Term](), 0
        for term in sorted(counts, key=lambda term: (counts[term], term)):
            rows += counts[term]
            if rows <= MANY_ROWS or not rarest:
                rarest.append(term)
        best = self._best(query, any_of(rarest), counts, limit)
        if len(best) < limit and len(rarest) < len(counts):
            best = self._best(query, any_of(counts), counts, limit)
        first = dict[tuple[int, int], float]()
        if best and len(required) > 1 and all(counts[term] for term in required):
            first = self._best(query, every_of(required), counts, EVERY_WORD_ROWS)
        # The sum of the words' idf, without phrases, although phrases add to a score.
        ceiling = max(sum(self.word_weights(query.words).values()), 1e-6) if best else 1.0
        return ranked(((*row, score / ceiling) for row, score in (first | best).items()), set(first))

    def _best(self, query: Query, match: str, counts: Mapping[Term, int], limit: int) -> dict[tuple[int, int], float]:
        """Return the bm25 of the best rows that match and pass the filters, by the terms in `counts`.

        PostgreSQL chooses the rows by nearly that score.
        """
        total, mean = self._size_of_word_index
        idfs = {term: idf(rows, total) for term, rows in counts.items()}
        parameters = {
            "match": self._own(match), "terms": [term.query for term in idfs],
            "are_words": [bool(term.word) for term in idfs], "idfs": list(idfs.values()), "mean": mean, "among": None,
            "limit": limit,
        }  # fmt: skip
        if self._narrows(query):
            rows = self._best_passing(query, parameters)
        else:
            rows = self.rows(queries.BEST_ROWS, parameters)
        return {(chunk, item): bm25(vector, length / mean, idfs) for chunk, item, length, vector in rows}

    def _best_passing(self, query: Query, parameters: dict[str, Any]) -> Iterable[tuple[Any, ...]]:
        """Return the best rows whose chunks pass the filters: of twice as many rows, otherwise of all that pass."""
        filters, limit = self._parameters(query), parameters["limit"]
        rows = list(self.rows(queries.BEST_ROWS, {**parameters, "limit": 2 * limit}))
        passing = {c for (c,) in self.rows(queries.PASSING, {**filters, "ids": list({row[0] for row in rows})})}
        passed = [row for row in rows if row[0] in passing][:limit]
        if len(passed) == limit or len(rows) < 2 * limit:
            return passed
        among = self.value(queries.ALL_PASSING, filters)
        return self.rows(queries.BEST_ROWS, {**parameters, "among": among})

    @cached_property
    def _size_of_word_index(self) -> tuple[int, float]:
        """The number of rows in the word index and their mean length; counted once a generation."""
        if "" not in self._frequencies:
            rows, words = next(iter(self.rows(queries.WORD_ROWS)))
            self._frequencies |= {"": rows, " ": int(words)}
        rows, words = self._frequencies[""], self._frequencies[" "]
        return rows, words / rows if words else 1.0

    def _word_row_count(self) -> int:
        return self._size_of_word_index[0]

    def stems(self, beginning: str) -> list[str]:
        """Return the stems in the word index with this beginning."""
        parameters = {"prefix": storable(beginning), "after": storable(beginning) + LAST_CHARACTER}
        return [word for (word,) in self.rows(queries.WORDS_WITH_PREFIX, parameters)]

    def _count_rows(self, words: Sequence[str]) -> dict[str, int]:
        terms = {word: terms_of([word]) for word in words}
        counts = self._counts([term for known in terms.values() for term in known])
        return {word: max((counts[term] for term in terms[word]), default=0) for word in words}

    def _counts(self, terms: Sequence[Term]) -> dict[Term, int]:
        """Return how many rows have each term; the vocabulary counts single words."""
        words = [term.word for term in terms if term.word]
        known = dict(self.rows(queries.COUNTS_OF_WORDS, {"words": words})) if words else {}
        others = [term for term in terms if not term.word]
        matches = [self._own(term.query) for term in others]
        rows = self.rows(queries.COUNTS_OF_MATCHES, {"matches": matches}) if others else ()
        counts = {term: count for term, (count,) in zip(others, rows, strict=True)}
        return {term: int(known.get(term.word, 0)) if term.word else counts[term] for term in terms}

    def _matching_entries(
        self, query: Query, groups: Sequence[int]
    ) -> tuple[set[tuple[int, int]] | None, set[tuple[int, int]]]:
        required, excluded = (
            set(self.rows(queries.ROWS_WITH, {"match": self._own(match), "chunks": list(groups)})) if match else None
            for match in (every_of(terms_of(query.phrases)), any_of(terms_of(query.exclusions)))
        )
        return required, excluded or set()

    def _own(self, match: str) -> str:
        """Return a tsquery for the rows of this memory that match."""
        return f"{memory_word(self._root)} & ({match})"

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
        if not self.value(queries.HAS_HNSW, {"name": index_name(dimension)}):
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
        return dump.lines(self.rows, self.history(), active[0] if active else None)

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

    def _chunks_with(self, match: str) -> list[int] | None:
        """Return the chunks with a row that matches a tsquery; None for an empty one."""
        return self.value(queries.CHUNKS_WITH, {"match": self._own(match)}) if match else None

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
        return {
            "archived": filters.archived, "notes": self._passing_notes(filters),
            "roles": _texts(filters.roles), "origins": _texts(filters.origins), "tags": names,
            "after": filters.after, "before": filters.before,
            "required": self._chunks_with(every_of(terms_of(query.phrases))),
            "excluded": self._chunks_with(any_of(terms_of(query.exclusions))),
            **self._where(filters.where),
            **local_time(),
        }  # fmt: skip

    def _passing_notes(self, filters: Filters) -> list[int] | None:
        """Return the ids of the notes that pass the filters about notes but `archived`; None if there are none.

        The server cannot guess how many notes a folder or a pattern leaves, and would read every chunk.
        """
        parameters = {
            "kinds": _texts(filters.kinds), "tiers": _texts(filters.tiers), "sessions": _texts(filters.sessions),
            "folders": _texts(filters.folders),
            "paths": None if filters.notes is None else [storable(path) for path in filters.notes],
        }  # fmt: skip
        globs = filters.path_globs
        if not globs and all(value is None for value in parameters.values()):
            return None
        rows = list(self.rows(queries.PASSING_NOTES, parameters))
        if globs:
            rows = [rows[position] for position in matching([path for _, path in rows], globs)]
        return [note_id for note_id, _ in rows]


def _texts(values: Sequence[str]) -> list[str] | None:
    return [storable(value) for value in values] or None
