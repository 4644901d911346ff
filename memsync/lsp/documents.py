"""What the editor holds: documents, positions in the units that it counts, and URIs. Pure.

Lines and columns count from 0 here, as in the protocol; columns count characters, except in positions.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote, unquote_to_bytes, urlsplit

from memsync.model.text import whole_characters
from memsync.notes.decode import split_lines

CODECS = {"utf-32": ("utf-32-le", 4), "utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2)}
"""Encoding in which an editor may count, the best first -> its codec, and the bytes of a unit."""
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class Document:
    """A text that the editor holds, or that of a file; `encoding` is the one in which the editor counts.

    `saved` is the text when the editor last opened or saved it.
    """

    uri: str
    path: str
    text: str
    encoding: str
    version: int | None = None
    saved: str = ""

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
        codec, size = CODECS[self.encoding]
        line, units = max(0, position["line"]), max(0, position["character"])
        return line, len(self.line(line).encode(codec)[: units * size].decode(codec, "ignore"))

    def position(self, line: int, column: int) -> dict[str, int]:
        """Return a place as the editor counts it."""
        codec, size = CODECS[self.encoding]
        return {"line": line, "character": len(self.line(line)[:column].encode(codec)) // size}

    def range(self, line: int, start: int = 0, end: int | None = None, *, last: int | None = None) -> dict[str, Any]:
        """Return the columns `start` to `end` (default: all) of a line, or of the lines up to `last`."""
        last = line if last is None else last
        until = self.position(last, len(self.line(last)) if end is None else end)
        return {"start": self.position(line, start), "end": until}

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
            document = Document(self.uri, self.path, text, self.encoding, version, self.saved)
        return document

    def insertion(self, new: str) -> dict[str, Any]:
        """Return the edit that makes this document a text that has something more at one place."""
        pairs = enumerate(zip(self.text, new, strict=False))
        offset = next((number for number, (old, added) in pairs if old != added), len(self.text))
        line = bisect_right(self._starts, offset) - 1
        place = self.position(line, offset - self._starts[line])
        return {"range": {"start": place, "end": place}, "newText": new[offset : offset + len(new) - len(self.text)]}

    def _offset(self, position: Mapping[str, int]) -> int:
        line, column = self.place(position)
        return self._starts[line] + column if line < len(self._starts) else len(self.text)


def path_of(uri: object) -> str:
    """Return the path that a URI names, without links; empty if it names no file."""
    parts = urlsplit(uri if isinstance(uri, str) else "")
    path = os.fsdecode(unquote_to_bytes(parts.path))
    return os.path.realpath(path) if parts.scheme == "file" and path.startswith("/") and "\0" not in path else ""


def uri_of(path: str) -> str:
    """Return the URI of a file."""
    return f"file://{quote(os.fsencode(path))}"
