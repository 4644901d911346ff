"""Make the rows of a note without a database, so that any process can do it."""

from __future__ import annotations

import hashlib
import json
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import apsw

from memsync.index.postgres.words import RowWords, row_words
from memsync.index.rows import NoteRows, note_rows
from memsync.model.note import Chunk, Note
from memsync.model.vocabulary import NotePath

# (key, text) of each value of a front matter that `where` compares: the scalars, and the items of lists. SQLite itself
# makes the text, so that both backends compare the same.
_FACTS = """
SELECT f.key, CASE f.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE CAST(f.value AS TEXT) END
FROM json_each(:json) f
UNION ALL
SELECT f.key, CAST(i.value AS TEXT) FROM json_each(:json) f, json_each(f.value) i WHERE f.type = 'array'
"""
# The text of one field, as SQLite's ->> gives it.
_FIELD = "SELECT coalesce(CAST(:json ->> :name AS TEXT), '')"
FIELDS = ("user", "project", "status", "source", "agent")
"""The keys of the front matter that lists of threads and costs show."""


class PostgresNote(NamedTuple):
    """The rows of one note, without ids and the file's stamp.

    `facts` has (key, text) of the front matter's values, `fields` the texts of FIELDS. `chunk_tokens` has the number of
    tokens of each chunk's entries, `words` the words of each chunk's rows, `text` the compressed lines of the note,
    None if they are not to be stored.
    """

    rows: NoteRows
    words: Sequence[Sequence[RowWords]]
    facts: Sequence[tuple[str, str]]
    fields: Sequence[str]
    chunk_tokens: Sequence[int]
    text: bytes | None = None

    @property
    def path(self) -> NotePath:
        """The note's path."""
        return self.rows.path

    @property
    def chunk_count(self) -> int:
        """The number of chunks."""
        return len(self.rows.chunks)


class PrivateNote(NamedTuple):
    """A local-only note, of which the database gets nothing."""

    path: NotePath
    chunk_count: int = 0


def postgres_note(note: Note, chunks: Sequence[Chunk], *, stores_text: bool = False) -> PostgresNote | PrivateNote:
    """Return the rows of a note; equal notes give equal rows."""
    if note.local_only:
        return PrivateNote(note.path)
    rows = note_rows(note, chunks)
    head = rows.note[9]
    return PostgresNote(
        rows,
        [list(map(row_words, chunk.columns)) for chunk in rows.chunks],
        list(dict.fromkeys(_facts(head))) if note.front_matter else [],
        [_field(head, name) for name in FIELDS] if note.front_matter else [""] * len(FIELDS),
        [sum(entry.token_count for entry in chunk.entries) for chunk in chunks],
        zlib.compress("\n".join(note.lines).encode()) if stores_text else None,
    )


class _ThreadDatabase(threading.local):
    """Each thread's own empty database, because two threads may not use one connection at once."""

    def __init__(self) -> None:
        self.execute = apsw.Connection(":memory:").execute


_DATABASE = _ThreadDatabase()


def in_sqlite(statement: str, parameters: Mapping[str, str]) -> apsw.Cursor:
    """Run a statement in an empty SQLite database, for what SQLite must decide in both backends."""
    return _DATABASE.execute(statement, parameters)


def _facts(front_matter: str) -> Iterator[tuple[str, str]]:
    for key, text in in_sqlite(_FACTS, {"json": front_matter}):
        if text is not None:
            yield str(key), str(text)


def _field(front_matter: str, name: str) -> str:
    return str(in_sqlite(_FIELD, {"json": front_matter, "name": name}).get)


def path_key(path: str) -> bytes:
    """Return the key of a note in the database."""
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).digest()


def attribute_facts(attributes: str) -> list[tuple[str, str]]:
    """Return (key, text) of a chunk's attributes from their JSON."""
    return [(key, text) for key, text in json.loads(attributes)] if attributes != "[]" else []
