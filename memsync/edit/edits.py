"""Edits of a note's text: an item put into a section, a line changed. All other bytes stay as they are."""

from __future__ import annotations

import re

from memsync.edit.addition import Addition, joined, read_tail
from memsync.model.note import Note, Section

_LINES = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|$)")


def lines_of(text: str) -> list[str]:
    """Return the lines of a text with their ends."""
    return [line for line in _LINES.findall(text) if line]


def find_section(note: Note, heading: str) -> Section | None:
    """Return the first section under a heading of that text, in any case."""
    wanted = " ".join(heading.split()).casefold()
    return next((s for s in note.sections if s.heading_path and s.heading_path[-1].casefold() == wanted), None)


def end_of_section(note: Note, section: Section) -> int:
    """Return the last line of a section that is not empty, the sections beneath it left out."""
    position = note.sections.index(section)
    following = note.sections[position + 1 :]
    last = following[0].start_line - 1 if following else len(note.lines)
    while last > section.start_line and not note.lines[last - 1].strip():
        last -= 1
    return last


def insert_after(path: str, text: str, line: int, addition: Addition) -> str:
    """Return a text with an addition behind a line (counted from 1), joined to it as to the end of a note."""
    lines = lines_of(text)
    before, after = "".join(lines[:line]), "".join(lines[line:])
    tail = read_tail(path, before.encode("utf-8", "surrogateescape"))
    inserted, _, _ = joined(tail, [addition])
    follows = after.lstrip("\r\n")
    gap = tail.newline if follows and after == follows else ""
    return f"{before}{inserted}{gap}{after}"


def replace_line(text: str, line: int, content: str) -> str:
    """Return a text with another content of one line, whose end it keeps."""
    lines = lines_of(text)
    old = lines[line - 1]
    lines[line - 1] = content + old[len(old.rstrip("\r\n")) :]
    return "".join(lines)
