"""Make the rows of a note without a database, so that any process can do it."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from memsync.index.postgres.words import RowWords, row_words
from memsync.index.rows import NoteRows, note_rows, to_json
from memsync.model.note import Chunk, Note
from memsync.model.vocabulary import NotePath

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
    head = note.front_matter
    return PostgresNote(
        rows,
        [list(map(row_words, chunk.columns)) for chunk in rows.chunks],
        list(dict.fromkeys(_facts(head))),
        [_text(head.get(name)) for name in FIELDS],
        [sum(entry.token_count for entry in chunk.entries) for chunk in chunks],
        zlib.compress("\n".join(note.lines).encode()) if stores_text else None,
    )


def _facts(front_matter: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key, text) of each value that `where` compares: the items of lists are values, too."""
    for key, value in front_matter.items():
        for item in (value, *value) if isinstance(value, list) else (value,):
            if item is not None:
                yield key, _text(item)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else to_json(value)


def path_key(path: str) -> bytes:
    """Return the key of a note in the database."""
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).digest()


def attribute_facts(attributes: str) -> list[tuple[str, str]]:
    """Return (key, text) of a chunk's attributes from their JSON."""
    return [(key, text) for key, text in json.loads(attributes)] if attributes != "[]" else []
