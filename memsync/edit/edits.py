"""Edits of a note's text: insert an item into a section, replace a line. All other bytes stay as they are."""

from __future__ import annotations

import re

from memsync.edit.addition import Addition, joined, read_tail
from memsync.model.note import Note, Section

_LINES = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|$)")


def lines_of(text: str) -> list[str]:
    """Return the lines of a text with their line ends."""
    return [line for line in _LINES.findall(text) if line]


def find_section(note: Note, heading: str) -> Section | None:
    """Return the first section with this heading; upper and lower case are equal."""
    wanted = " ".join(heading.split()).casefold()
    return next((s for s in note.sections if s.heading_path and s.heading_path[-1].casefold() == wanted), None)


def end_of_section(note: Note, section: Section) -> int:
    """Return the number of a section's last non-empty line, before its first subsection."""
    position = note.sections.index(section)
    following = note.sections[position + 1 :]
    last = following[0].start_line - 1 if following else len(note.lines)
    while last > section.start_line and not note.lines[last - 1].strip():
        last -= 1
    return last


def insert_after(path: str, text: str, line: int, addition: Addition) -> str:
    """Return a text with an addition inserted after a line (counted from 1), as if the note ended there."""
    lines = lines_of(text)
    before, after = "".join(lines[:line]), "".join(lines[line:])
    tail = read_tail(path, before.encode("utf-8", "surrogateescape"))
    inserted, _, _ = joined(tail, [addition])
    follows = after.lstrip("\r\n")
    gap = tail.newline if follows and after == follows else ""
    return f"{before}{inserted}{gap}{after}"


def replace_line(text: str, line: int, content: str) -> str:
    """Return a text with the content of one line (counted from 1) replaced; the line end stays."""
    lines = lines_of(text)
    old = lines[line - 1]
    lines[line - 1] = content + old[len(old.rstrip("\r\n")) :]
    return "".join(lines)
