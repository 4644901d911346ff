"""Reads single notes from disk and adds items to their sections."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from memsync.edit.addition import Addition, end_of_section, find_section, insert_after, replace_line
from memsync.edit.append import Done
from memsync.edit.journal import missing
from memsync.edit.markdown import heading_line
from memsync.edit.note_writer import NoteWriter
from memsync.errors import NoteError, WriteRefused
from memsync.model.note import Note
from memsync.model.vocabulary import Kind, NotePath
from memsync.notes.attributes import cut_attributes
from memsync.notes.decode import split_lines
from memsync.notes.files import NoteFiles
from memsync.notes.origin import BY
from memsync.notes.parse import NoteReader
from memsync.notes.validity_marks import marks_of

_MARK = re.compile(r'[ \t]*\{by=(?:[^\s{}"]+|"[^"{}]*")\}$')


class NoteEditor:
    """Reads and edits the notes of one memory root."""

    def __init__(self, files: NoteFiles, reader: NoteReader, writer: NoteWriter) -> None:
        self._files = files
        self._reader = reader
        self._writer = writer

    def read(self, path: NotePath) -> Note | None:
        """Return a note as it is on disk, None if it does not exist. Raises NoteError if it cannot be read."""
        try:
            content, _ = self._files.read(path)
            return self.parse(path, content)
        except FileNotFoundError:
            return None

    def parse(self, path: NotePath, content: bytes | str) -> Note:
        """Parse a note from bytes or from text decoded with surrogateescape. Raises NoteError if it is not text."""
        if isinstance(content, str):
            content = content.encode("utf-8", "surrogateescape")
        try:
            return self._reader.read(path, content)[0]
        except ValueError as error:
            raise NoteError(f"{path} is {error}") from error

    def holds(self, path: NotePath) -> bool:
        """Tell whether a note has this path, without reading it. Ignored files are not notes."""
        return self._files.identity(path) is not None and self._files.holds(path)

    def is_of_kind(self, path: NotePath, kind: Kind) -> bool:
        """Tell whether a note is of a kind: first by its path, then by its front matter, which it has to read."""
        if self._reader.rules.kind(path) is kind:
            return True
        note = self.read(path)
        return note is not None and note.kind is kind

    def add_to_section(
        self, path: NotePath, heading: str, addition: Addition, head: str, *, replaces: Sequence[str] = ()
    ) -> Done:
        """Add an item at the end of a section unless the section has it; create the section if it does not exist.

        An item that is there gets the marks of what it supersedes and when it holds, unless it has other attributes.
        `head` begins a new note. `replaces` holds the journal ids of the overwritten entries that this call restores.
        """
        note = self.read(path)
        if not replaces:  # restore equal items that were overwritten
            equal = [entry for entry in self._writer.journal.since(0.0, path) if entry.entry == addition.text]
            replaces = [entry.id for entry in missing(equal, "\n".join(note.lines) if note else "")]
        if self._files.leaves_out(path):
            raise WriteRefused(
                f"{path} is not a note: .gitignore or [files] exclude leaves it out", hint="Name another note."
            )
        section = find_section(note, heading) if note else None
        if note is None or section is None:
            new = Addition(f"{heading_line(heading)}\n\n{addition.text}")
            done = self._writer.append(path, new, head=head, replaces=replaces)
            return Done(path, done.line + 2, done.warnings)
        last = end_of_section(note, section)
        lines = addition.text.split("\n")
        for number in range(section.start_line, last + 1):
            there = note.lines[number - 1 : number - 1 + len(lines)]
            if _unmarked(there) == _unmarked(lines):
                return Done(path, number, ("Already there; not added again.",))
            column, attributes = cut_attributes(lines[0])
            # An agent marks only its own items: otherwise it could let one of the owner's expire.
            is_own = attributes.get(BY) in (None, cut_attributes(there[0])[1].get(BY))
            if is_own and marks_of(attributes) and _unmarked(there) == [lines[0][:column]]:
                marked = self._writer.rewrite(path, partial(_marked, path, there[0], lines[0]))
                return Done(path, marked.line, ("Already there; only marked.",))
        if not any(line.strip() for line in note.lines[last:]):
            return self._writer.append(path, addition, replaces=replaces)

        def edit(text: str) -> str:
            current = self.parse(path, text)
            place = find_section(current, heading)
            return insert_after(path, text, end_of_section(current, place) if place else len(current.lines), addition)

        return self._writer.rewrite(path, edit, adds=True, replaces=replaces)


def _marked(path: NotePath, line: str, new: str, text: str) -> str:
    """Return a note's text with a line replaced. Raises WriteRefused if it is not there any more."""
    number = next((n for n, there in enumerate(split_lines(text), 1) if there == line), 0)
    if not number:
        raise WriteRefused(f"{path} has just changed", hint="Try again.")
    return replace_line(text, number, new)


def _unmarked(lines: Sequence[str]) -> list[str]:
    """Return lines without the mark of what an agent writes: who said it first does not make it another item."""
    return [_MARK.sub("", line) for line in lines]
