"""Check spans against the files as they are now: a hit is shown only if its text is still there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from memsync.errors import NoteError
from memsync.model.note import Chunk, Message
from memsync.model.query import IndexedChunk
from memsync.model.vocabulary import Form, Kind, NotePath
from memsync.notes.decode import BinaryFileError, decode
from memsync.notes.files import NoteFiles
from memsync.notes.message_format import find_headings, messages_in, text_of_message, text_within
from memsync.notes.parse import NoteReader
from memsync.notes.unfinished_saves import EMPTIED_SECONDS, read_settled
from memsync.search.rank import Scored
from memsync.search.spans import Span

MAX_PARSED_BYTES = 1_000_000
"""How many bytes of changed files a search parses to check its hits, about a second's work."""


@dataclass(frozen=True, slots=True)
class Anchored:
    """The current lines of a span in its file, and their text; `also` has the citations of equal passages."""

    start_line: int
    end_line: int
    text: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _File:
    lines: Sequence[str]
    identity: tuple[int, int, int, int]
    content: bytes


@dataclass(slots=True)
class Anchor:
    """Checks the spans of one search against their files, reading each file once."""

    files: NoteFiles
    reader: NoteReader
    _patient_until: float = field(default_factory=lambda: time.monotonic() + EMPTIED_SECONDS)
    _read: dict[NotePath, _File | None] = field(default_factory=dict)
    _chunks: dict[NotePath, list[Chunk]] = field(default_factory=dict)
    _messages: dict[NotePath, list[Message]] = field(default_factory=dict)
    _parsed_bytes: int = 0

    def anchor(self, span: Span) -> Anchored | None:
        """Return the span's lines as they are now, or None when its text is gone.

        If the file has not changed since it was indexed, its indexed lines are right. Otherwise parse it again and look
        up the text of the span's best chunk: text that moved is found at its new lines, edited text is not shown.
        """
        chunk = span.shown
        file = self._file(chunk.path, chunk.identity[0])
        if file is None:
            return None
        if file.identity == chunk.identity:
            return _quote(file.lines, span.start_line, span.end_line, chunk if len(span.entries) == 1 else None)
        same = [new for new in self._parsed(chunk.path, file) if new.content_hash == chunk.content_hash]
        if not same:
            return None
        nearest = min(same, key=lambda new: abs(new.start_line - chunk.start_line))
        if chunk.form == Form.GROUP and len(nearest.entries) == len(chunk.entries):
            moved = [new for new, old in zip(nearest.entries, chunk.entries, strict=True) if old in span.entries]
            return _quote(file.lines, moved[0].start_line, moved[-1].end_line, None)
        return _quote(file.lines, nearest.start_line, nearest.end_line, nearest)

    def text_of(self, scored: Scored) -> str | None:
        """Return the text of an entry, None if its file has changed since it was indexed."""
        chunk = scored.chunk
        file = self._file(chunk.path, chunk.identity[0])
        if file is None or file.identity != chunk.identity:
            return None
        place = _quote(file.lines, scored.entry.start_line, scored.entry.end_line, chunk)
        return place.text if place else None

    def said(self, span: Span, place: Anchored) -> tuple[Anchored, Message | None]:
        """Return the place of a span in a thread as its message says it, without the heading, and the message."""
        path = span.shown.path
        file = self._read.get(path)
        if span.shown.kind != Kind.THREAD or file is None:
            return place, None
        if path not in self._messages:  # found by line, because to parse a long thread would take too long
            self._messages[path] = list(messages_in((s for s, _ in find_headings(file.lines, 1)), file.lines))
        begun = (message for message in self._messages[path] if message.start_line <= place.start_line)
        message = next((message for message in begun if place.start_line <= message.end_line), None)
        if message is None or message.role != span.shown.role:
            return place, None
        if span.shown.end_column:  # a piece of a line
            return replace(place, text=text_of_message(place.text, _of_a_piece(message, span))), message
        line, text = text_within(file.lines, message, place.start_line, place.end_line)
        return replace(place, start_line=line, text=text), message

    def _file(self, path: NotePath, indexed_size: int) -> _File | None:
        if path not in self._read:
            try:
                content, stamp = read_settled(self.files, path, indexed_size, self._patient_until)
                self._read[path] = _File(decode(content).lines, stamp.identity, content)
            except (FileNotFoundError, NoteError, BinaryFileError):
                self._read[path] = None
        return self._read[path]

    def _parsed(self, path: NotePath, file: _File) -> list[Chunk]:
        if path not in self._chunks:
            self._parsed_bytes += len(file.content)
            # Otherwise its hits are left out; the answer warns that the file is not indexed yet.
            is_affordable = self._parsed_bytes <= MAX_PARSED_BYTES
            self._chunks[path] = self.reader.read(path, file.content)[1] if is_affordable else []
        return self._chunks[path]


def _of_a_piece(message: Message, span: Span) -> dict[str, str]:
    """Return the attributes that say how a piece of a line of a message is written."""
    written = message.attributes.get("written", "").split()
    return {"written": " ".join(set(written) - ({"fenced", "quoted"} if span.shown.start_column else {"fenced"}))}


def _quote(lines: Sequence[str], first: int, last: int, piece: IndexedChunk | Chunk | None) -> Anchored | None:
    if last > len(lines):
        return None
    text = "\n".join(lines[first - 1 : last])
    if piece is not None and piece.end_column and first == last:
        text = text[piece.start_column : piece.end_column]
    return Anchored(first, last, text)
