"""Adds text to the text of a note so that it is parsed as intended: at its end, in a section, or instead of a line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from memsync.edit.note_end import NoteEnd, joins_items, read_end
from memsync.errors import WriteRefused
from memsync.model.note import Note, Section
from memsync.notes.frontmatter import closes_head

_IN_LIST = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])[ \t]|[ \t]{2,}\S")


@dataclass(frozen=True, slots=True)
class Addition:
    """Text to append: whole lines, LF between them, none at the end; no block in it stays open.

    `guarded` is the same text in a form without lines that could close front matter; empty if `text` has none.
    """

    text: str
    guarded: str = ""

    @property
    def is_item(self) -> bool:
        """True for a list item, which can follow another without an empty line."""
        return _IN_LIST.match(self.text) is not None


def join_additions(end: NoteEnd, additions: Iterable[Addition]) -> tuple[str, int, NoteEnd]:
    """Return the text to append, the line where the last addition begins, the note's new end. Raises WriteRefused."""
    text, line = "", 0
    for addition in additions:
        added = _text_for(end, addition)
        joint = "" if end.ends_line else "\n"
        joint += f"{end.closing}\n" if end.closing else ""
        before = end.closing or end.last_line
        is_next = addition.is_item and end.joins_items and not end.closing and _IN_LIST.match(before)
        if before.strip(" \t") and not is_next:  # in Markdown only spaces and tabs make an empty line
            joint += "\n"
        line = end.lines + joint.count("\n") + end.ends_line
        text += f"{joint}{added}\n"
        lines = added.split("\n")
        end = NoteEnd(
            end.newline,
            line + len(lines) - 1,
            last_line=lines[-1],
            head_is_open=end.head_is_open,
            joins_items=addition.is_item or joins_items(lines),
        )
    return text.replace("\n", end.newline), line, end


def _text_for(end: NoteEnd, addition: Addition) -> str:
    """Return an addition's text in a form that does not close front matter. Raises WriteRefused if there is none."""
    if not end.head_is_open or not any(map(closes_head, addition.text.split("\n"))):
        return addition.text
    if addition.guarded:
        return addition.guarded
    raise WriteRefused(
        "the note begins with an unclosed ---, and this text would close it",
        hint="Close the note's front matter with a line of ---, or put an empty line before its first line.",
    )


_LINES = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|$)")


def lines_with_ends(text: str) -> list[str]:
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
    lines = lines_with_ends(text)
    before, after = "".join(lines[:line]), "".join(lines[line:])
    end = read_end(path, before.encode("utf-8", "surrogateescape"))
    inserted, _, _ = join_additions(end, [addition])
    follows = after.lstrip("\r\n")
    gap = end.newline if follows and after == follows else ""
    return f"{before}{inserted}{gap}{after}"


def replace_line(text: str, line: int, content: str) -> str:
    """Return a text with the content of one line (counted from 1) replaced; the line end stays."""
    lines = lines_with_ends(text)
    old = lines[line - 1]
    lines[line - 1] = content + old[len(old.rstrip("\r\n")) :]
    return "".join(lines)
