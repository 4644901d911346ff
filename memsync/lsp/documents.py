"""What the editor holds: documents, positions in the units that it counts, and URIs. Pure.

Lines and columns count from 0 here, as in the protocol; columns are characters unless a name says units.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote, unquote_to_bytes, urlsplit

from memsync.model.text import whole_characters
from memsync.notes.decode import split_lines

CODECS = {"utf-32": ("utf-32-le", 4), "utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2)}
"""Encoding in which an editor counts, the cheapest one first -> its codec, and the bytes of a unit."""
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class Document:
    """A text that the editor holds, or a file of it; `encoding` is the one in which the editor counts."""

    uri: str
    path: str
    text: str
    encoding: str
    version: int | None = None

    @cached_property
    def lines(self) -> Sequence[str]:
        """The lines without their ends."""
        return split_lines(self.text)

    @cached_property
    def _starts(self) -> Sequence[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    def line(self, number: int) -> str:
        """Return a line; empty below the last one."""
        return self.lines[number] if 0 <= number < len(self.lines) else ""

    def place(self, position: Mapping[str, int]) -> tuple[int, int]:
        """Return the line and the column of a position; one beyond the end of a line is its end."""
        line, units = max(0, position["line"]), max(0, position["character"])
        text = self.line(line)
        if text.isascii():
            return line, min(units, len(text))
        codec, size = CODECS[self.encoding]
        return line, len(text.encode(codec, "surrogatepass")[: units * size].decode(codec, "ignore"))

    def position(self, line: int, column: int) -> dict[str, int]:
        """Return a place as the editor counts it."""
        before = self.line(line)[:column]
        codec, size = CODECS[self.encoding]
        return {
            "line": line,
            "character": len(before) if before.isascii() else len(before.encode(codec, "surrogatepass")) // size,
        }

    def range(self, line: int, start: int = 0, end: int | None = None, last: int | None = None) -> dict[str, Any]:
        """Return the columns `start` to `end` (default: all) of a line, or of the lines to `last`."""
        until = line if last is None else last
        return {
            "start": self.position(line, start),
            "end": self.position(until, len(self.line(until)) if end is None else end),
        }

    def selected(self, span: Mapping[str, Any]) -> str:
        """Return the text of a range."""
        return self.text[self._offset(span["start"]) : self._offset(span["end"])]

    def changed(self, changes: Sequence[Mapping[str, Any]], version: int | None) -> Document:
        """Return the document after the changes of the editor, each of a range or of the whole text."""
        document = self
        for change in changes:
            text, span = whole_characters(change["text"]), change.get("range")
            if span is not None:
                start, end = document._offset(span["start"]), document._offset(span["end"])
                text = document.text[:start] + text + document.text[end:]
            document = Document(self.uri, self.path, text, self.encoding, version)
        return document

    def edit(self, new: str) -> dict[str, Any]:
        """Return the one edit of lines that makes this document another text."""
        old, lines = (_with_ends(text) for text in (self.text, new))
        shorter = min(len(old), len(lines))
        first = next((number for number in range(shorter) if old[number] != lines[number]), shorter)
        pairs = zip(reversed(old[first:]), reversed(lines[first:]), strict=False)
        same = next((number for number, (a, b) in enumerate(pairs) if a != b), shorter - first)
        start, end = (self._position_at(sum(map(len, old[:count]))) for count in (first, len(old) - same))
        return {"range": {"start": start, "end": end}, "newText": "".join(lines[first : len(lines) - same])}

    def _offset(self, position: Mapping[str, int]) -> int:
        line, column = self.place(position)
        return self._starts[line] + column if line < len(self._starts) else len(self.text)

    def _position_at(self, offset: int) -> dict[str, int]:
        """Return the position of the start of a line, or of the end of the text."""
        line = next((number for number, start in enumerate(self._starts) if start == offset), len(self._starts) - 1)
        return self.position(line, offset - self._starts[line])


def _with_ends(text: str) -> list[str]:
    ends = [match.end() for match in _LINE_END.finditer(text)]
    lines = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    return lines if lines[-1] else lines[:-1]


def path_of(uri: object) -> str:
    """Return the path that a URI names, without links; empty if it names no file."""
    parts = urlsplit(uri) if isinstance(uri, str) else urlsplit("")
    path = os.fsdecode(unquote_to_bytes(parts.path))
    return os.path.realpath(path) if parts.scheme == "file" and path.startswith("/") and "\0" not in path else ""


def uri_of(path: str) -> str:
    """Return the URI of a file."""
    return f"file://{quote(os.fsencode(path))}"
