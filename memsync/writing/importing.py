"""Conversations into thread notes, and back as they were; imported again, they change nothing."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from memsync.conversations import ConversationText, Turn, Unusable
from memsync.errors import MemsyncError, UsageError
from memsync.model import JsonValue, Note, NotePath
from memsync.notes.decode import split_lines
from memsync.notes.frontmatter import read_head
from memsync.notes.threads import body_of, read_message_heading, written_time
from memsync.ports import Progress
from memsync.writing import note_file
from memsync.writing.author import Author
from memsync.writing.beneath import cannot_write, folder_of
from memsync.writing.head import head_of
from memsync.writing.join import Addition
from memsync.writing.shape import WRITING_ATTRIBUTES, exact_message, text_of_message
from memsync.writing.threads import FOLDER, free_path, slug_of, thread_path


@dataclass(slots=True)
class ImportReport:
    """What an import did: threads begun and continued, messages written, and those that were there already."""

    threads: int = 0
    continued: int = 0
    messages: int = 0
    known: int = 0
    paths: list[NotePath] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


class Importer:
    """Writes conversations into the threads of one memory root; `sources` are those that were imported before."""

    def __init__(self, author: Author, sources: Callable[[], Mapping[str, NotePath]]) -> None:
        self._author = author
        self._sources = sources
        self._open = ExitStack()
        self._folders: dict[str, int] = {}

    def write(self, conversations: Iterable[ConversationText], progress: Progress | None = None) -> ImportReport:
        """Write what is not there yet; a conversation that cannot be written is told of, and the others are.

        The disk is waited for once, at the end: an import that is interrupted is just run again.
        """
        report = ImportReport()
        sources = dict(self._sources())
        all_of = list(conversations)
        with self._author.writer.lock(), ExitStack() as self._open:
            self._folders.clear()
            for number, one in enumerate(all_of, 1):
                try:
                    self._write(one, sources, report)
                except (MemsyncError, Unusable) as error:
                    report.wrong.append(f"{one.name}: {error}")
                if progress is not None:
                    progress("importing threads", number, len(all_of))
            os.sync()
        return report

    def _write(self, one: ConversationText, sources: dict[str, NotePath], report: ImportReport) -> None:
        head: dict[str, JsonValue] = {**one.head, **({"source": one.source} if one.source else {})}
        content = _content(head, one.turns)
        path = sources.get(one.source) if one.source else thread_path(one.name)
        if path is None:
            path = sources[one.source] = free_path(self._author.root, slug_of(one.name) or "thread")
        if self._is_begun_with(path, content):
            report.known += len(one.turns)
            return
        if self._make(path, content):
            report.threads += 1
            report.messages += len(one.turns)
            report.paths.append(path)
            return
        self._continue(path, one.turns, report)

    def _is_begun_with(self, path: NotePath, content: bytes) -> bool:
        """Tell whether a thread begins with exactly this, as it does unless somebody has edited it."""
        try:
            folder = self._folder(path)
            with note_file.opened(folder, path, _name(path)) as found:
                return note_file.read(found, path).startswith(content)
        except FileNotFoundError:
            return False

    def _make(self, path: NotePath, content: bytes) -> bool:
        try:
            note_file.create(self._folder(path), _name(path), content, sync=False)
        except FileExistsError:
            return False
        except OSError as error:
            raise cannot_write(path, error) from error
        return True

    def _folder(self, path: NotePath) -> int:
        """Return a descriptor of the note's folder, which stays open until the import is over."""
        name = path.rpartition("/")[0]
        if name not in self._folders:
            self._folders[name] = self._open.enter_context(folder_of(self._author.root, path, create=True))
        return self._folders[name]

    def _continue(self, path: NotePath, turns: list[Turn], report: ImportReport) -> None:
        """Append what a thread lacks, in order."""
        note = self._author.read(path)
        there = Counter(_keys(turns_of(note))) if note else Counter()
        new = []
        for turn, key in zip(turns, _keys(turns), strict=True):
            if there[key]:
                there[key] -= 1
            else:
                new.append(turn)
        report.known += len(turns) - len(new)
        if new:
            text = "\n\n".join(_message(turn) for turn in new)
            self._author.writer.append(path, Addition(text))
            report.continued += 1
            report.messages += len(new)
            report.paths.append(path)


def export_lines(note: Note) -> Iterator[str]:
    """Yield a thread as JSON Lines: its head with the first line, then a message each."""
    name = note.path.removeprefix(FOLDER).removesuffix(".md")
    named = name if note.path == f"{FOLDER}{name}.md" and "/" not in name else note.path
    head = dict(note.front_matter)
    first: dict[str, object] = {"thread": named, **({"head": head} if head else {})}
    turns = turns_of(note)
    if not turns:
        yield json.dumps(first, ensure_ascii=False)
    for turn in turns:
        says = {"role": turn.role, "time": turn.time, "text": turn.text, "attributes": turn.attributes}
        line = {**first, **{key: value for key, value in says.items() if value or key == "role"}}
        yield json.dumps(line, ensure_ascii=False)
        first = {"thread": named}


def turns_of(note: Note) -> list[Turn]:
    """Return the messages of a thread as they were given."""
    return [
        Turn(
            one.role,
            text_of_message(body_of(note, one), one.attributes),
            written_time(note, one),
            {name: value for name, value in one.attributes.items() if name not in WRITING_ATTRIBUTES},
        )
        for one in note.messages
    ]


def _keys(turns: Iterable[Turn]) -> Iterator[tuple[str, ...]]:
    """Yield what tells a message from others: its id where it has one."""
    for turn in turns:
        known = turn.attributes.get("id", "")
        yield ("id", known) if known else (turn.role, turn.time, turn.text)


def _content(head: Mapping[str, JsonValue], turns: Iterable[Turn]) -> bytes:
    """Return a whole thread note. Raises Unusable for what could not be read back."""
    begin = head_of(head)
    if head and dict(read_head(split_lines(begin)).values) != head:
        raise Unusable("its head cannot be written as front matter")
    body = "\n\n".join(map(_message, turns))
    return f"{begin}{body}\n".encode("utf-8", "replace")


def _message(turn: Turn) -> str:
    if not _is_role(turn.role):
        raise Unusable(f"{turn.role!r} is no role")
    if turn.time and not _is_time(turn.time):
        raise Unusable(f"{turn.time!r} is no time")
    if not turn.attributes.keys().isdisjoint(WRITING_ATTRIBUTES):
        raise Unusable(f"{', '.join(WRITING_ATTRIBUTES)} are memsync's own attributes")
    try:
        return exact_message(turn.role, turn.text, turn.time, turn.attributes)
    except UsageError as error:
        raise Unusable(error.message) from error


def _is_time(text: str) -> bool:
    """Tell whether a message heading that names this time is read as one."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _name(path: NotePath) -> str:
    return path.rpartition("/")[2]


@lru_cache(maxsize=256)
def _is_role(role: str) -> bool:
    """Tell whether a message heading may name it; a file of many messages asks for few."""
    return read_message_heading(role) == (role, "")
