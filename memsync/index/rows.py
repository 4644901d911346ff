"""Make the rows of a note and its chunks without a database, so that any process can do it."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from memsync.index.fields import cjk_words, context_words, heading_words, name_words, without_cjk
from memsync.model.note import Chunk, Entry, Message, Note
from memsync.model.vocabulary import NotePath
from memsync.model.words import folded, indexed

MAX_TOKENS = 10**12
MAX_DOLLARS = 10**6
NANOS = 10**9

to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode
"""Return a value as JSON; equal values give equal text."""
_path_json = lru_cache(maxsize=1_024)(to_json)


class ChunkRows(NamedTuple):
    """The rows of one chunk, without ids.

    `passage` is the SHA-256 of `text`, empty for a heading or a field, which has no vector. `columns` has the columns
    of each row in the word index, and `words` is a digest of them. `content` has the columns of table `chunk` between
    `passage` and that digest.
    """

    passage: bytes
    text: str
    form: str
    words: bytes
    columns: Sequence[tuple[str, str, str, str]]
    ordinal: int
    content: tuple[Any, ...]
    tags: Sequence[str]


class NoteRows(NamedTuple):
    """The rows of one note, without ids and the file's stamp."""

    path: NotePath
    note: tuple[Any, ...]
    links: Sequence[tuple[Any, ...]]
    messages: Sequence[tuple[Any, ...]]
    chunks: Sequence[ChunkRows]

    @property
    def local_only(self) -> bool:
        """Whether the note's text may go to no remote model."""
        return bool(self.note[8])

    @property
    def chunk_count(self) -> int:
        """The number of chunks."""
        return len(self.chunks)


def note_rows(note: Note, chunks: Sequence[Chunk]) -> NoteRows:
    """Return the rows of a note; equal notes give equal rows."""
    # The same for most chunks: the context of those whose headings have the note's title, and of the others.
    contexts = {has_title: context_words(note, without_title=has_title) for has_title in (False, True)}
    first = next((chunk.ordinal for chunk in chunks if chunk.indexed_words), -1)
    names = {first: f" {name_words(note)}"}
    return NoteRows(
        note.path,
        (
            note.kind, note.tier, note.title, note.date, note.session, note.importance, note.pinned, note.archived,
            note.local_only, to_json(note.front_matter), to_json(note.warnings),
        ),
        [(link.target, link.anchor, link.label, link.line, link.wiki) for link in note.links],
        [_message_row(message) for message in note.messages],
        [
            _chunk_rows(note, chunk, contexts[note.title in chunk.heading_path] + names.get(chunk.ordinal, ""))
            for chunk in chunks
        ],
    )  # fmt: skip


def _message_row(message: Message) -> tuple[Any, ...]:
    attributes = message.attributes
    return (
        message.role, message.time, message.start_line, message.end_line, attributes.get("model", ""),
        _tokens(attributes.get("in", "")), _tokens(attributes.get("out", "")), _nanos(attributes.get("cost", "")),
        to_json(dict(attributes)),
    )  # fmt: skip


def _tokens(text: str) -> int:
    return min(int(text), MAX_TOKENS) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def _nanos(text: str) -> int:
    try:
        dollars = Decimal(text) if len(text) < 32 else Decimal(0)
    except InvalidOperation:
        return 0
    return int(dollars * NANOS) if dollars.is_finite() and 0 < dollars < MAX_DOLLARS else 0


def _chunk_rows(note: Note, chunk: Chunk, context: str) -> ChunkRows:
    moment = next((entry.time for entry in chunk.entries if entry.time), note.date)
    heading = heading_words(chunk.heading_path, moment)
    context = f"{context} {folded(chunk.role)}" if chunk.role else context
    columns = [_row(indexed(words), heading, context) for words in chunk.indexed_words]
    times = sorted({time for entry in chunk.entries for time in (entry.time, *entry.later) if time})
    attributes = {pair for entry in chunk.entries for pair in entry.attributes.items()}
    tags = {name for entry in chunk.entries for name in entry.tags}
    content = (
        str(chunk.form), len(columns), chunk.section, chunk.start_line, chunk.end_line, chunk.start_column,
        chunk.end_column, _path_json(chunk.heading_path), chunk.role, chunk.origin, times[0] if times else "",
        times[-1] if times else "", to_json(sorted(attributes)) if attributes else "[]",
        f"[{','.join(map(_entry_json, chunk.entries))}]", struct.pack(f"<{len(chunk.opening)}H", *chunk.opening),
    )  # fmt: skip
    words = hashlib.sha256("\0".join([chunk.form, *chain.from_iterable(columns)]).encode()).digest()[:16]
    passage = b"" if chunk.form.is_words_only else chunk.content_hash
    return ChunkRows(passage, chunk.text, chunk.form, words, columns, chunk.ordinal, content, sorted(tags))


def _row(*parts: str) -> tuple[str, str, str, str]:
    """Return the columns of one row of chunk_fts.

    Script without spaces has its own column, because the tokenizer would read `用SQLite` as one word.
    """
    if all(map(str.isascii, parts)):
        body, heading, context = parts
        return body, heading, context, ""
    body, heading, context = (without_cjk(part) for part in parts)
    return body, heading, context, cjk_words(" ".join(parts))


def _entry_json(entry: Entry) -> str:
    """Return an entry's fields as a JSON list without empty fields at the end: most entries are only six numbers."""
    values = [*entry[:7], dict(entry.attributes), entry.tags, entry.later, entry.speaker]
    while len(values) > 6 and not values[-1]:
        values.pop()
    return to_json(values)
