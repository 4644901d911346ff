"""Read the index within one transaction."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import apsw
from msgspec.structs import asdict

from memsync.index.fields import all_of, any_of, every_of
from memsync.index.frequencies import FrequencyCache
from memsync.index.reading import EVERY_WORD_ROWS, LAST_CHARACTER, SqlReader, ranked
from memsync.index.rows import to_json
from memsync.index.sqlite import queries
from memsync.index.sqlite.integrity import find_damage, find_miscount, unseen_vectors, word_rows
from memsync.index.sqlite.queries import chunk_and_item
from memsync.index.sqlite.signs import LEAST_CHUNKS, SignsCache
from memsync.index.vectors import cosines, to_int8, to_matrix
from memsync.model.query import Candidate, EmbeddingSpace, Query
from memsync.model.status import IndexedFile, PendingPassage
from memsync.model.vocabulary import NotePath

MAX_NEAREST = 4_096
"""vec0 refuses a larger k."""


class SqliteReader(SqlReader):
    """The reading half of the Index port, over one connection in a transaction."""

    statements: ClassVar = queries

    def __init__(
        self,
        connection: apsw.Connection,
        path: Path,
        frequencies: FrequencyCache | None = None,
        signs: tuple[SignsCache, int] | None = None,
    ) -> None:
        """`signs` has what is kept of the vectors, and the inode of the file that the connection reads."""
        self._db = connection
        self._path = path
        self._signs = signs
        self._frequencies = frequencies.of(self.generation()) if frequencies else {}

    def meta(self, key: str) -> str:
        """Return the value stored under a key, or an empty string."""
        return str(self.value("SELECT value FROM meta WHERE key = ?", (key,)) or "")

    def stamps(self) -> dict[NotePath, IndexedFile]:
        """Return every indexed note with its stamp."""
        return {row[0]: IndexedFile._make(row[1:]) for row in self.rows(queries.STAMPS)}

    def history(self) -> dict[NotePath, tuple[bytes, int]]:
        """Return each note in HEAD's tree with its blob's name and the last commit's time in seconds since 1970."""
        return {path: (blob, committed) for path, blob, committed in self.rows(queries.HISTORY)}

    def rows(self, statement: str, parameters: Any = ()) -> Iterator[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return self._db.execute(statement, parameters)

    def value(self, statement: str, parameters: Any = ()) -> Any:
        """Return the first value of the first row of a statement; None without rows."""
        return self._db.execute(statement, parameters).get

    # -------------------------------------------------------------------------------------- candidates

    def keyword_candidates(self, query: Query, limit: int) -> list[Candidate]:
        """Return the chunks (of groups, the entries) that have the query's words: first those with every word.

        The score is bm25 divided by the sum of the words' idf, which is the bm25 of an average chunk with every word
        once. Words that no chunk has count in the sum, so that a question about another subject scores low.
        """
        match = any_of((*query.words, *query.alternatives))
        if not match:
            return []
        statement, filters = queries.KEYWORD, dict[str, Any]()
        if self._narrows(query):
            statement, filters = queries.KEYWORD_FILTERED, self._parameters(query)
        distances = dict(self.rows(statement, {"match": match, "limit": limit, **filters}))
        every = every_of(query.words) if distances else ""
        first = dict(self.rows(statement, {"match": every, "limit": EVERY_WORD_ROWS, **filters})) if every else {}
        # The sum of the words' idf, without phrases, although phrases add to a score.
        ceiling = max(sum(self.word_weights(query.words).values()), 1e-6) if distances else 1.0
        scored = ((*chunk_and_item(row), -distance / ceiling) for row, distance in (first | distances).items())
        return ranked(scored, set(map(chunk_and_item, first)))

    def _word_row_count(self) -> int:
        if "" not in self._frequencies:
            self._frequencies[""] = int(self.value(queries.CHUNK_COUNT))
        return self._frequencies[""]

    def stems(self, beginning: str) -> Iterable[str]:
        """Return the stems in the word index with this beginning."""
        self._db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.term USING fts5vocab(main, chunk_fts, row)")
        return (stem for (stem,) in self.rows(queries.STEMS, (beginning, beginning + LAST_CHARACTER)))

    def _count_rows(self, words: Sequence[str]) -> dict[str, int]:
        return {word: int(self.value(queries.WORD_COUNT, (any_of([word]),))) for word in words}

    def _matching_entries(
        self, query: Query, groups: Sequence[int]
    ) -> tuple[set[tuple[int, int]] | None, set[tuple[int, int]]]:
        def entries(match: str) -> set[tuple[int, int]] | None:
            rows = self.rows(queries.MATCHING_ROWS, {"match": match, "ids": to_json(groups)}) if match else ()
            return {chunk_and_item(row) for (row,) in rows} if match else None

        return entries(all_of(query.phrases)), entries(any_of(query.exclusions)) or set()

    def _nearest(self, space: int, vector: bytes, limit: int, filters: Mapping[str, Any]) -> list[tuple[int, bytes]]:
        """Return (passage, float16 vector) of the nearest passages by their int8 distances; in a large index by signs.

        Both are nearly exact. With filters, vec0 reads only what passes them.
        """
        if self._signs and not filters and self.value(f"SELECT count(*) FROM vec_{space}_chunks") > LEAST_CHUNKS:
            return self._nearest_by_signs(*self._signs, space, vector, limit)
        statement = queries.NEAREST_FILTERED if filters else queries.NEAREST
        parameters = {"vector": to_int8(vector), "limit": min(limit, MAX_NEAREST), "space": space, **filters}
        near = list(self.rows(statement.format(space=space), parameters))
        if not near:  # without this check, a search of a damaged index would silently use only words
            self.check(is_quick=True)
        return near

    def _nearest_by_signs(
        self, kept: SignsCache, inode: int, space: int, vector: bytes, limit: int
    ) -> list[tuple[int, bytes]]:
        chunks = self.rows(queries.VECTOR_CHUNKS.format(space=space))
        passages = kept.of((inode, self.generation(), space), chunks).nearest(to_int8(vector))
        near = list(self.rows(queries.VECTORS_OF, {"space": space, "passages": to_json(passages)}))
        scores = cosines([value for _, value in near], to_matrix([vector])[0])
        return [near[number] for number in nlargest(limit, range(len(near)), key=scores.__getitem__)]

    # ------------------------------------------------------------------------------------ whole notes

    def warnings(self) -> list[tuple[str, str]]:
        """Return (path, warning) of every warning, by path."""
        return [(path, text) for path, text in self.rows(queries.WARNINGS)]

    # ------------------------------------------------------------------------------------------ spaces

    def _local_only(self, space: EmbeddingSpace | None) -> int:
        """Return how many passages may have no vector in `space`, because they must stay on this machine."""
        return int(self.value(queries.LOCAL_ONLY_PASSAGES)) if space is not None and space.is_remote else 0

    def pending_passages(self, space: EmbeddingSpace, passages: Sequence[int]) -> list[PendingPassage]:
        """Return those of `passages` that wait for their vector, in the same order."""
        parameters = {"space": self._space_number(space), "passages": self._listed(passages)}
        rows = self.rows(queries.PENDING, parameters)
        return [
            PendingPassage(number, digest, NotePath(path), zlib.decompress(text).decode() if text else None)
            for number, digest, text, path in rows
        ]

    # ------------------------------------------------------------------------------------------ status

    def _index_bytes(self) -> int:
        return sum(_size(Path(f"{self._path}{suffix}")) for suffix in ("", "-wal"))

    def dump(self) -> Iterator[str]:
        """Yield the canonical dump, one JSON list per line."""
        active = self._space_row("active")
        statements = [
            queries.DUMP_NOTES, queries.DUMP_CHUNKS, queries.DUMP_TAGS, queries.DUMP_LINKS, queries.DUMP_MESSAGES,
            queries.DUMP_PASSAGES, queries.DUMP_HISTORY,
        ]  # fmt: skip
        if active is not None:
            statements.append(queries.DUMP_VECTORS.format(space=active[0]))
        tables = chain.from_iterable(map(self.rows, statements))
        for row in chain(tables, word_rows(self._db), unseen_vectors(self._db, active[0]) if active else ()):
            yield json.dumps(row, ensure_ascii=False)

    def check(self, *, is_quick: bool) -> None:
        """Read and compare all tables, or only count their rows if `is_quick`. Raises apsw.CorruptError."""
        if finding := find_miscount(self._db) if is_quick else find_damage(self._db):
            raise apsw.CorruptError(finding)

    # ----------------------------------------------------------------------------------------- private

    def _listed(self, values: Sequence[Any]) -> str:
        return json.dumps(list(values))

    def _where(self, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
        return {"where": json.dumps(pairs)}

    def _parameters(self, query: Query) -> dict[str, Any]:
        """Return the parameters of the filter conditions, named as the filters; None for a filter that is not set."""
        filters = {
            name: (json.dumps(value) if value else None) if isinstance(value, tuple) else value
            for name, value in asdict(query.filters).items()
        }
        if query.filters.tags:
            filters["tags"] = json.dumps(self._named_tags(query.filters))
        if query.filters.notes is not None:  # none at all is a filter, too
            filters["notes"] = json.dumps(query.filters.notes)
        return {**filters, "required": all_of(query.phrases) or None, "excluded": any_of(query.exclusions) or None}


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
