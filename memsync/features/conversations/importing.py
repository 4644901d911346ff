"""Conversations into thread notes, and back as they were; imported again, they change nothing."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from memsync.edit import note_file
from memsync.edit.addition import Addition
from memsync.edit.front_matter import head_of
from memsync.edit.markdown import WRITING_ATTRIBUTES, exact_message, text_of_message, whole_characters
from memsync.edit.new_names import STATUSES, free_path, slug_of, thread_path
from memsync.edit.note_paths import cannot_write, folder_of
from memsync.errors import MemsyncError, NoteError, UsageError
from memsync.features.conversations import ConversationText, Skipped, Turn, Unusable, shortened
from memsync.features.conversations.read import read_conversations
from memsync.model.note import Note
from memsync.model.vocabulary import JsonValue, NotePath, Tier
from memsync.notes.decode import split_lines
from memsync.notes.files import NoteFiles, Places
from memsync.notes.frontmatter import MAX_HEAD_BYTES, read_head
from memsync.notes.rules import ARCHIVE_FOLDER, THREADS_FOLDER
from memsync.notes.transcript import body_of, written_time
from memsync.ports import Progress, no_progress
from memsync.workspace import Workspace

HEAD_KEYS = (
    "title", "session", "user", "project", "status", "summary", "tags", "created", "updated", "source", "tier",
)  # fmt: skip
"""The front matter that an import may bring. No other key: a `prompt` would instruct agents, `pinned` would be in every
context, `kind` would make something else of the thread."""
MOST_NAMES = 5
"""Of the front matter that is left out: so many are named."""
IMPORTED = "imported"
"""The front matter that says on which day a thread was imported. Its age counts from there."""
_IMPORTED_LINE = re.compile(rb'^imported: "(\d{4}-\d\d-\d\d)"\r?$', re.MULTILINE)
_IMPORTED_TIER = str(Tier.PROJECT)
"""Somebody chose to keep what is imported, however old it is."""


@dataclass(slots=True)
class ImportReport:
    """What an import did: threads begun and continued, messages written, and those that were there already.

    `wrong` says what was left out, with its place and the reason. `named` counts, by kind, what has no text (images,
    files): the messages name it.
    """

    threads: int = 0
    continued: int = 0
    messages: int = 0
    known: int = 0
    paths: list[NotePath] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    named: Counter[str] = field(default_factory=Counter)


class Importer:
    """Writes conversations into the threads of one memory root."""

    def __init__(self, memory: Workspace) -> None:
        self._memory = memory
        self._open = ExitStack()
        self._folders: dict[str, int] = {}

    def write(self, conversations: Iterable[ConversationText | Skipped]) -> ImportReport:
        """Write what is not there yet; a conversation that cannot be written is named, and the others are written.

        The disk is waited for once, at the end: an import that is interrupted is just run again.
        """
        report = ImportReport()
        sources = _imported_before(self._memory)
        with self._memory.writer.lock(), ExitStack() as self._open:
            self._folders.clear()
            for one in conversations:
                if isinstance(one, Skipped):
                    report.wrong.append(str(one))
                    continue
                try:
                    self._write(one, sources, report)
                except (MemsyncError, Unusable) as error:
                    report.wrong.append(_said(one, str(error)))
                else:
                    report.named.update(one.named)
            os.sync()
        return report

    def _write(self, one: ConversationText, sources: dict[str, NotePath], report: ImportReport) -> None:
        given, left_out = _allowed(one.head)
        if left_out:
            report.wrong.append(_said(one, f"its head's {_few(left_out)} is left out: no import brings that"))
        head = {**given, **({"source": one.source} if one.source else {})}
        path = self._path(one, sources)
        content = self._content(path)
        found = _IMPORTED_LINE.search(content, 0, MAX_HEAD_BYTES) if content else None
        day = found[1].decode() if found else date.today().isoformat()
        wanted = _content({"tier": _IMPORTED_TIER, **head, IMPORTED: day}, one.turns)
        if content is not None and content.startswith(wanted):
            report.known += len(one.turns)
        elif content is None and self._make(path, wanted):
            report.threads += 1
            report.messages += len(one.turns)
            report.paths.append(path)
        else:
            self._continue(path, one.turns, report)

    def _path(self, one: ConversationText, sources: dict[str, NotePath]) -> NotePath:
        """Return the path of a conversation's thread. Raises Unusable where no import may write, UsageError."""
        if one.source:
            path = sources.get(one.source)
            if path is None:
                path = sources[one.source] = self._new_path(slug_of(one.name) or "thread")
        else:
            path = thread_path(one.name)
            if not os.path.lexists(self._memory.files.root / path):
                path = NotePath(path.removeprefix(ARCHIVE_FOLDER))
        refusal = self._memory.reader.rules.refuses_import(path)
        if refusal:
            raise Unusable(refusal)
        return path

    def _new_path(self, slug: str) -> NotePath:
        """Return a free path for a conversation, by another name where its own would make more of it than a thread."""
        path = free_path(self._memory.files.root, slug)
        return (
            free_path(self._memory.files.root, f"thread-{slug}")
            if self._memory.reader.rules.refuses_import(path)
            else path
        )

    def _content(self, path: NotePath) -> bytes | None:
        """Return what a thread holds, None when it is not there."""
        try:
            with note_file.opened(self._folder(path), path, _name(path)) as found:
                return note_file.read(found, path)
        except FileNotFoundError:
            return None

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
            self._folders[name] = self._open.enter_context(folder_of(self._memory.files.root, path, create=True))
        return self._folders[name]

    def _continue(self, path: NotePath, turns: list[Turn], report: ImportReport) -> None:
        """Append what a thread lacks, in order."""
        note = self._memory.editor.read(path)
        there = Counter(_keys(turns_of(note))) if note else Counter()
        new = []
        for turn, key in zip(turns, _keys(turns), strict=True):
            if there[key]:
                there[key] -= 1
            else:
                new.append(turn)
        report.known += len(turns) - len(new)
        if new:
            written = [_message(turn) for turn in new]
            text = "\n\n".join(one.text for one in written)
            guarded = "\n\n".join(one.guarded or one.text for one in written)
            self._memory.writer.append(path, Addition(text, guarded if guarded != text else ""))
            report.continued += 1
            report.messages += len(new)
            report.paths.append(path)


def _said(one: ConversationText, reason: str) -> str:
    """Return what is wrong with a conversation, and where it is."""
    reason = shortened(reason)
    if one.source:
        return f"{one.place}: {reason}"
    return f"{one.name[:200]}: {reason}" + (f" (from {one.place} on)" if one.place else "")


def _allowed(head: Mapping[str, JsonValue]) -> tuple[dict[str, JsonValue], list[str]]:
    """Return the front matter that an import may bring, and the names of what it may not."""
    allowed = {
        key: [whole_characters(item) for item in value]
        if isinstance(value, list)
        else whole_characters(value)
        if isinstance(value, str)
        else value
        for key, value in head.items()
        if key in HEAD_KEYS and _is_allowed(key, value)
    }
    return allowed, sorted(repr(key[:60]) for key in head.keys() - allowed.keys())


def _few(names: list[str]) -> str:
    """Return the first of the names, and how many others there are."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} other{'s' * (more > 1)}" if more > 0 else "")


def _is_allowed(key: str, value: JsonValue) -> bool:
    if key == "status":
        return value in STATUSES
    if key == "tier":
        return value in list(Tier)
    if key == "tags" and isinstance(value, list):
        return bool(value) and all(isinstance(item, str) for item in value)
    return isinstance(value, (str, int, float)) and value != ""


def _imported_before(memory: Workspace) -> dict[str, NotePath]:
    """Return the threads that were imported before, by their source."""
    with memory.as_of_now() as (reader, pending):
        known = {thread.source: thread.path for thread in reader.threads() if thread.source}
    return {**dict(sources_in_files(memory.files, set(known.values()))), **known} if pending else known


def sources_in_files(files: NoteFiles, known: Container[NotePath]) -> Iterator[tuple[str, NotePath]]:
    """Yield the sources that the threads of a memory root name, and their paths, without those that are known.

    For threads that the index does not have yet: a conversation that is not found would be imported a second time.
    Only what a scan takes for a note is opened. Raises RootError.
    """
    folders = Places(folder.rstrip("/") for folder in (THREADS_FOLDER, f"{ARCHIVE_FOLDER}{THREADS_FOLDER}"))
    for path in files.scan(folders).files:
        source = _source_in(files, path) if path not in known else ""
        if source:
            yield source, path


def _source_in(files: NoteFiles, path: NotePath) -> str:
    with suppress(FileNotFoundError, NoteError):
        begin = files.beginning(path, MAX_HEAD_BYTES)
        if b"\nsource:" in begin:
            value = read_head(split_lines(begin.decode("utf-8-sig", "replace"))).values.get("source")
            return value if isinstance(value, str) else ""
    return ""


def export_lines(note: Note) -> Iterator[str]:
    """Yield a thread as JSON Lines: its head with the first line, then a message each."""
    name = note.path.removeprefix(THREADS_FOLDER).removesuffix(".md")
    named = name if note.path == f"{THREADS_FOLDER}{name}.md" and "/" not in name else note.path
    head = dict(note.front_matter)
    if head.pop(IMPORTED, None) and head.get("tier") == _IMPORTED_TIER:
        del head["tier"]
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
        known = whole_characters(turn.attributes.get("id", ""))
        yield ("id", known) if known else (turn.role, turn.time, whole_characters(turn.text))


def _content(head: Mapping[str, JsonValue], turns: Iterable[Turn]) -> bytes:
    """Return a whole thread note. Raises Unusable for what could not be read back."""
    begin = head_of(head)
    if dict(read_head(split_lines(begin)).values) != head:
        raise Unusable("its head cannot be written as front matter")
    body = "\n\n".join(_message(turn).text for turn in turns)
    return f"{begin}{body}\n".encode()


def _message(turn: Turn) -> Addition:
    try:
        return exact_message(turn.role, turn.text, turn.time, turn.attributes)
    except UsageError as error:
        raise Unusable(error.message) from error


def _name(path: NotePath) -> str:
    return path.rpartition("/")[2]


def import_file(memory: Workspace, path: str | os.PathLike[str], *, progress: Progress = no_progress) -> ImportReport:
    """Write the conversations of a file into threads; messages that are there already are left as they are.

    The file is memsync's own JSON Lines (docs/conversations.md), or an export of ChatGPT or Claude. `wrong` in the
    report names what could not be used. The daemon or the next sync indexes the new threads. Raises UsageError.
    """
    return Importer(memory).write(read_conversations(Path(path), progress))


def exported(memory: Workspace, threads: Sequence[str] = ()) -> Iterator[str]:
    """Yield threads, named by path or name, or all of them, as JSON Lines. Raises NoThread."""
    if threads:
        paths = [memory.existing_thread(name) for name in threads]
    else:
        with memory.as_of_now() as (reader, _):
            paths = [thread.path for thread in reader.threads()]
    for path in paths:
        note = memory.editor.read(path)
        if note is not None:
            yield from export_lines(note)
