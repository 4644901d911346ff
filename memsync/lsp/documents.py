"""What the editor holds: documents, positions, and URIs. Pure.

Lines and columns count from 0 here, as in the protocol. Columns count characters, but in positions the units of UTF-16,
which every editor can count in.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote, unquote_to_bytes, urlsplit

from memsync.model.text import whole_characters
from memsync.notes.decode import split_lines

UNIT_BYTES = 2


@dataclass(frozen=True)
class Document:
    """A text that the editor holds, or that of a file.

    `saved` is the text when the editor last opened or saved it.
    """

    uri: str
    path: str
    text: str
    version: int | None = None
    saved: str = ""

    @cached_property
    def lines(self) -> Sequence[str]:
        """The lines without their ends."""
        return split_lines(self.text)

    def line(self, number: int) -> str:
        """Return a line; empty below the last one."""
        return self.lines[number] if 0 <= number < len(self.lines) else ""

    def place(self, position: Mapping[str, int]) -> tuple[int, int]:
        """Return the line and the column of a position; one beyond the end of a line or of the text is that end."""
        return self._place(self.lines, position)

    def position(self, line: int, column: int) -> dict[str, int]:
        """Return a place as the editor counts it."""
        return {"line": line, "character": len(self.line(line)[:column].encode("utf-16-le")) // UNIT_BYTES}

    def range(self, line: int, start: int = 0, end: int | None = None, *, last: int | None = None) -> dict[str, Any]:
        """Return the columns `start` to `end` (default: all) of a line, or of the lines up to `last`."""
        last = line if last is None else last
        until = self.position(last, len(self.line(last)) if end is None else end)
        return {"start": self.position(line, start), "end": until}

    def selected(self, span: Mapping[str, Any]) -> str:
        """Return the text of a range."""
        return self._cut(_rows(self.text), span)[1]

    def changed(self, changes: Sequence[Mapping[str, Any]], version: int | None) -> Document:
        """Return the document after the changes of the editor, each of a range or of the whole text."""
        rows = _rows(self.text)  # only rows are replaced, because an editor may send thousands of ranges
        for change in changes:
            text, span, place = whole_characters(change["text"]), change.get("range"), slice(None)
            if span is not None:
                before, _, after, place = self._cut(rows, span)
                text = before + text + after
            rows[place] = _rows(text)
        return Document(self.uri, self.path, "".join(rows), version, self.saved)

    def insertion(self, new: str) -> dict[str, Any]:
        """Return the edit that makes this document a text that has something more at one place."""
        pairs = enumerate(zip(self.text, new, strict=False))
        offset = next((number for number, (old, added) in pairs if old != added), len(self.text))
        before = split_lines(f"{self.text[:offset]}.")
        place = self.position(len(before) - 1, len(before[-1]) - 1)
        return {"range": {"start": place, "end": place}, "newText": new[offset : offset + len(new) - len(self.text)]}

    def _place(self, lines: Sequence[str], position: Mapping[str, int]) -> tuple[int, int]:
        line, units = min(max(0, position["line"]), len(lines)), max(0, position["character"])
        text = "".join(lines[line : line + 1]).rstrip("\r\n")[:units]  # no character is shorter than a unit
        return line, len(text.encode("utf-16-le")[: units * UNIT_BYTES].decode("utf-16-le", "ignore"))

    def _cut(self, rows: Sequence[str], span: Mapping[str, Any]) -> tuple[str, str, str, slice]:
        """Return what is before a range, in it and after it, in the rows that it may change, and which rows these are.

        They include a row more on each side, because the two halves of a CRLF may meet.
        """
        (first, start), (last, end) = self._place(rows, span["start"]), self._place(rows, span["end"])
        place = slice(max(first - 1, 0), last + 2)
        text, above = "".join(rows[place]), sum(map(len, rows[place.start : first]))
        start, end = above + start, sum(map(len, rows[place.start : last])) + end
        return text[:start], text[start:end], text[end:], place


def _rows(text: str) -> list[str]:
    """Return the lines of a text with their ends, LF, CRLF or CR."""
    return io.StringIO(text, newline="").readlines()


def path_of(uri: object) -> str:
    """Return the path that a URI names, without links; empty if it names no file."""
    parts = urlsplit(uri if isinstance(uri, str) else "")
    path = os.fsdecode(unquote_to_bytes(parts.path))
    return os.path.realpath(path) if parts.scheme == "file" and path.startswith("/") and "\0" not in path else ""


def quoted(path: str) -> str:
    """Return a path as a part of a URI."""
    return quote(os.fsencode(path))
