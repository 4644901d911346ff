"""Gather what the notes say, line by line: what was logged and said, and what long-term memory has already."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from memsync.errors import MemsyncError, NoteError
from memsync.model.note import Note
from memsync.model.vocabulary import Kind, NotePath, Origin
from memsync.notes.attributes import SESSION, cut_attributes
from memsync.notes.decode import BinaryFileError
from memsync.notes.files import NoteFiles
from memsync.notes.links import outside_code
from memsync.notes.origin import BY, origin_of
from memsync.notes.parse import parse_note
from memsync.notes.rules import PathRules
from memsync.notes.validity_marks import PAST, attributes_in, marks_of, statements
from memsync.settings.roots import TRANSCRIPTS, registered_roots
from memsync.system import clock

if TYPE_CHECKING:
    from memsync.agents.project import Choice
    from memsync.workspace import Workspace

MAX_CHARS = 400
"""A longer paragraph is no statement that a memory keeps."""
_MARKER = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?:\[(?P<task>[ xX])\]\s+)?(?:(?P<time>\d{1,2}:\d\d)\s+)?")
_OF_SESSION = re.compile(r"(?:Session in .{1,100}?, )?(?P<kind>[a-z]+): (?P<text>.*) \([\w-]+:threads/[^()]+\)$")
_DECISIONS, _DECISION_TAGS = ("decisions", "decision"), {"decision", "decided"}
_TAG = re.compile(r"(?<!\S)#([\w/-]*[^\W\d_][\w/-]*)")


class GatheredStatement(NamedTuple):
    """A statement of a note: its lines, its text without marker, time and tags, and the digest that finds it again.

    `day` is ISO 8601. `task` is ` ` or `x` for a task, and empty otherwise. `is_log`: it was logged or said.
    `is_of_session`: it is a line of a session note, without its kind and its citation.
    """

    path: NotePath
    first: int
    text: str
    digest: str
    day: str
    origin: str
    is_decision: bool
    heading: str
    task: str
    is_log: bool
    is_item: bool
    local_only: bool
    is_of_session: bool = False

    @property
    def citation(self) -> str:
        """`path:line~digest`: the digest tells whether the line still says so."""
        return f"{self.path}:{self.first}~{self.digest}"


def said_in_memory(memory: Workspace) -> Iterator[GatheredStatement]:
    """Yield the statements of all notes that are not archived and hold now, also of this project's conversations."""
    with memory.as_of_now() as (reader, _):
        paths = [note.path for note in reader.notes() if not note.archived]
    for path in paths:
        yield from _said(memory.files, path, memory.reader.rules)
    conversations = registered_roots().get(TRANSCRIPTS)
    if conversations is not None and conversations.path and conversations.path != memory.settings.root_name:
        yield from _of_conversations(conversations.path, memory)


def _of_conversations(folder: str, memory: Workspace) -> Iterator[GatheredStatement]:
    """Yield what was said in the conversations about the project that the memory root is in, or is."""
    from pathlib import Path

    from memsync.agents.project import project_of

    _, belongs = project_of(memory.settings.root_name).conversations()
    files = NoteFiles(Path(folder))
    with suppress(MemsyncError):
        for path in sorted(files.scan().files):
            for said in _said(files, path, PathRules({"/threads/": "thread"}, {}), belongs):
                yield said._replace(path=NotePath(f"{TRANSCRIPTS}:{said.path}"))


def _said(
    files: NoteFiles, path: NotePath, rules: PathRules, belongs: Choice | None = None
) -> Iterator[GatheredStatement]:
    try:
        note = parse_note(path, files.read(path)[0], rules)
    except (OSError, NoteError, BinaryFileError):
        return
    if belongs is None or belongs(note.front_matter):
        yield from said_in_note(note)


def said_in_note(note: Note) -> Iterator[GatheredStatement]:
    """Yield the statements of a note that hold now."""
    is_log = note.kind in (Kind.DAILY, Kind.THREAD)
    if note.kind in (Kind.SOUL, Kind.PROMPT) or marks_of(note.front_matter):
        return
    by_line = {number: part for part in note.sections for number in range(part.start_line, part.end_line + 1)}
    for one in statements(_without_code(note), note.head_lines + 1):
        section = by_line.get(one.first)
        role = section.role if section else ""
        if note.kind is Kind.THREAD and not role:
            continue
        line = note.lines[one.first - 1]
        attributes = cut_attributes(line)[1]
        text = " ".join(part[: cut_attributes(part)[0]].strip() for part in note.lines[one.first - 1 : one.last])
        if marks_of(attributes) or len(text) > MAX_CHARS or attributes_in(text, "").get(PAST):
            continue
        marker = _MARKER.match(text)
        of_session = _OF_SESSION.match(plain_of(text)) if SESSION in attributes else None
        heading = section.heading_path[-1] if section and section.heading_path else ""
        is_decision = bool(of_session and of_session["kind"] == "decided") or heading.lower() in _DECISIONS
        is_decision = is_decision or not _DECISION_TAGS.isdisjoint(tag.lower() for tag in _TAG.findall(text))
        time = (section.time if section else "") or note.date or clock.today().isoformat()
        yield GatheredStatement(
            note.path, one.first, of_session["text"] if of_session else plain_of(text), one.digest, time[:10],
            origin_of(note.front_matter, role, (attributes.get(BY, ""),), Origin.OWNER),
            is_decision, heading, (marker["task"] or "").lower() if marker else "", is_log, marker is not None,
            note.local_only, of_session is not None,
        )  # fmt: skip


def plain_of(text: str) -> str:
    """Return a line without its marker, time and tags."""
    marker = _MARKER.match(text)
    return " ".join(_TAG.sub("", text[marker.end() :] if marker else text).split())


def _without_code(note: Note) -> Sequence[str]:
    """Return the lines of the body, those in fenced code and quotes empty; lines of session notes are not indented."""
    body = note.lines[note.head_lines :]
    said = {number: line for number, line in outside_code(body) if not line.lstrip().startswith((">", "|", "<"))}
    lines = (said.get(number, "") for number in range(1, len(body) + 1))
    return [line.lstrip() if SESSION in cut_attributes(line)[1] else line for line in lines]
