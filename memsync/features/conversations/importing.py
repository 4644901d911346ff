"""Import conversations into thread notes, and export them; importing them again changes nothing."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from posixpath import basename

from memsync.edit import note_file
from memsync.edit.addition import Addition
from memsync.edit.markdown import exact_message
from memsync.edit.note_paths import cannot_write, folder_of, numbered, thread_path
from memsync.edit.set_fields import head_of
from memsync.edit.titles import slug_of
from memsync.errors import MemsyncError, UsageError
from memsync.features.conversations import MAX_REASON_CHARS, ConversationText, Skipped, Turn, Unusable
from memsync.features.conversations.read import read_conversations
from memsync.model.note import Note
from memsync.model.text import count, listed, quoted, shortened, whole_characters
from memsync.model.vocabulary import THREAD_STATUSES, JsonValue, NotePath, Tier
from memsync.notes.conflict_marks import conflict_in
from memsync.notes.decode import split_lines
from memsync.notes.frontmatter import MAX_HEAD_BYTES, read_head
from memsync.notes.message_format import original_of, written_time
from memsync.notes.rules import ARCHIVE_FOLDER, THREADS_FOLDER, former_path
from memsync.ports import Progress, no_progress
from memsync.system import clock
from memsync.workspace import Workspace

HEAD_KEYS = (
    "title", "session", "user", "project", "status", "summary", "tags", "created", "updated", "source", "tier",
)  # fmt: skip
"""The front matter keys that an import may set.

Not others: `prompt` would instruct agents, `pinned` would put the thread into every context, `kind` would make it
something other than a thread.
"""
MAX_NAMES = 5
"""How many of the keys left out a warning names."""
IMPORTED = "imported"
"""The front matter key for the day of the import. The thread's age counts from that day."""
_PLAIN_NAME = re.compile(r"[\w./-]{1,60}")
_IMPORTED_LINE = re.compile(rb'^imported: "(\d{4}-\d\d-\d\d)"\r?$', re.MULTILINE)
_IMPORTED_TIER = str(Tier.PROJECT)
"""Not task memory: somebody chose to keep the import, so it must not be archived for its age."""


@dataclass(slots=True)
class ImportReport:
    """What an import did: threads begun and continued, messages written, and messages that were there already.

    `wrong` lists what was left out, with its place and the reason.
    """

    threads: int = 0
    continued: int = 0
    messages: int = 0
    known: int = 0
    paths: list[NotePath] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


class Importer:
    """Writes conversations into the threads of one memory root."""

    def __init__(self, memory: Workspace) -> None:
        self._memory = memory

    def write(self, conversations: Iterable[ConversationText | Skipped]) -> ImportReport:
        """Write the messages that are not there yet; report each conversation that cannot be written, and go on.

        It waits for the disk only once, at the end: after an interruption the user can simply run it again.
        """
        report = ImportReport()
        with self._memory.as_of_now() as (reader, _):
            sources = {thread.source: thread.path for thread in reader.threads() if thread.source}
        with self._memory.writer.lock():
            is_wrong_file = True
            for conversation in conversations:
                if isinstance(conversation, Skipped):
                    report.wrong.append(str(conversation))
                    continue
                is_wrong_file = False
                try:
                    self._write(conversation, sources, report)
                except (MemsyncError, Unusable) as error:
                    report.wrong.append(_complaint(conversation, str(error)))
            os.sync()
        if is_wrong_file and (others := report.wrong[1:]):  # one sentence says it
            report.wrong[:] = [f"{report.wrong[0]} (and {count(len(others), 'other part')} of the file, too)"]
        return report

    def _write(self, conversation: ConversationText, sources: dict[str, NotePath], report: ImportReport) -> None:
        turns = conversation.turns
        head = _allowed(conversation.head)
        left_out = sorted(repr(key[:60]) for key in conversation.head.keys() - head.keys())
        if left_out:
            reason = f"left out of its head: {listed(left_out, MAX_NAMES)}; an import may not set it"
            report.wrong.append(_complaint(conversation, reason))
        if conversation.source:
            head["source"] = conversation.source
        path = first = self._path(conversation, sources)
        others = numbered(NotePath(former_path(path)))
        while True:
            current = self._content(path)
            imported = _IMPORTED_LINE.search(current, 0, MAX_HEAD_BYTES) if current else None
            day = imported[1].decode() if imported else clock.today().isoformat()
            content = _content({"tier": _IMPORTED_TIER, **head, IMPORTED: day}, turns)
            is_known = current is not None and current.startswith(content)
            if current is None or is_known or imported or self._agrees(path, turns):
                break
            path = next(others)
            self._memory.writer.refuse_to_publish(first, path)
        if conversation.source:
            sources[conversation.source] = path
        if is_known:
            report.known += len(turns)
        elif current is None and self._make(path, content):
            report.threads += 1
            report.messages += len(turns)
            report.paths.append(path)
        else:
            self._continue(path, turns, report)

    def _path(self, conversation: ConversationText, sources: dict[str, NotePath]) -> NotePath:
        """Return the path of a conversation's thread. Raises Unusable where imports may not write, UsageError."""
        root, refuses = self._memory.files.root, self._memory.reader.rules.refuses_import
        if not conversation.source:
            path = thread_path(conversation.name)
            if not os.path.lexists(root / path):
                path = NotePath(path.removeprefix(ARCHIVE_FOLDER))
        elif conversation.source in sources:
            path = sources[conversation.source]
        else:
            path = self._memory.writer.free_thread_path(slug_of(conversation.name) or "thread")
        if refusal := refuses(path):
            raise Unusable(refusal)
        return path

    def _content(self, path: NotePath) -> bytes | None:
        try:
            with (
                folder_of(self._memory.files.root, path) as folder,
                note_file.opened(folder, path, basename(path)) as file,
            ):
                return note_file.read(file, path)
        except FileNotFoundError:
            return None

    def _make(self, path: NotePath, content: bytes) -> bool:
        """Create a thread and return True; return False if it exists."""
        try:
            with folder_of(self._memory.files.root, path, create=True) as folder:
                note_file.create(folder, basename(path), content, sync=False)
        except FileExistsError:
            return False
        except OSError as error:
            raise cannot_write(path, error) from error
        return True

    def _agrees(self, path: NotePath, turns: Sequence[Turn]) -> bool:
        """Tell whether a thread is empty or has one of the messages; otherwise it is another one of the same name."""
        note = self._memory.editor.read(path)
        return note is None or not note.sections or not set(_keys(turns)).isdisjoint(_keys(_turns_of(note)))

    def _continue(self, path: NotePath, turns: list[Turn], report: ImportReport) -> None:
        """Append the messages that a thread lacks, in order."""
        note = self._memory.editor.read(path)
        known = Counter(_keys(_turns_of(note))) if note else Counter()
        new = []
        for turn, key in zip(turns, _keys(turns), strict=True):
            if known[key]:
                known[key] -= 1
            else:
                new.append(turn)
        report.known += len(turns) - len(new)
        if new:
            additions = [_message(turn) for turn in new]
            text = "\n\n".join(addition.text for addition in additions)
            guarded = "\n\n".join(addition.guarded or addition.text for addition in additions)
            self._memory.writer.append(path, Addition(text, guarded if guarded != text else ""))
            report.continued += 1
            report.messages += len(new)
            report.paths.append(path)


def _complaint(conversation: ConversationText, reason: str) -> str:
    reason = shortened(reason, MAX_REASON_CHARS)
    if conversation.source:
        return f"{conversation.place}: {reason}"
    name = conversation.name
    name = name if _PLAIN_NAME.fullmatch(name) else quoted(name)  # it may be a sentence to an agent
    return f"{name}: {reason}" + (f" (from {conversation.place} on)" if conversation.place else "")


def _allowed(head: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: _clean(value) for key, value in head.items() if key in HEAD_KEYS and _is_allowed(key, value)}


def _clean(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return whole_characters(value) if isinstance(value, str) else value


def _is_allowed(key: str, value: JsonValue) -> bool:
    if key == "status":
        return value in THREAD_STATUSES
    if key == "tier":
        return value in list(Tier)
    if key == "tags" and isinstance(value, list):
        return bool(value) and all(isinstance(item, str) for item in value)
    return isinstance(value, (str, int, float)) and value != ""


def export_lines(note: Note) -> Iterator[str]:
    """Yield a thread as JSON Lines: one message a line, the first line with the head."""
    name = note.path.removeprefix(THREADS_FOLDER).removesuffix(".md")
    thread = name if note.path == f"{THREADS_FOLDER}{name}.md" and "/" not in name else note.path
    head = dict(note.front_matter)
    if head.pop(IMPORTED, None) and head.get("tier") == _IMPORTED_TIER:
        del head["tier"]
    first: dict[str, object] = {"thread": thread, **({"head": head} if head else {})}
    turns = _turns_of(note)
    if not turns:
        yield json.dumps(first, ensure_ascii=False)
    for turn in turns:
        message = {"role": turn.role, "time": turn.time, "text": turn.text, "attributes": turn.attributes}
        line = {**first, **{key: value for key, value in message.items() if value or key == "role"}}
        yield json.dumps(line, ensure_ascii=False)
        first = {"thread": thread}


def _turns_of(note: Note) -> list[Turn]:
    """Return the messages of a thread as they were before memsync wrote them."""
    turns = []
    for message in note.messages:
        text, attributes = original_of(note, message)
        turns.append(Turn(message.role, text, written_time(note, message), attributes))
    return turns


def _keys(turns: Iterable[Turn]) -> Iterator[tuple[str, ...]]:
    """Yield the identity of each message: its id or, without one, its role, time and text."""
    for turn in turns:
        message_id = whole_characters(turn.attributes.get("id", ""))
        content = (whole_characters(turn.role), turn.time, whole_characters(turn.text))
        yield ("id", message_id) if message_id else content


def _content(head: Mapping[str, JsonValue], turns: Iterable[Turn]) -> bytes:
    """Return a whole thread note as bytes. Raises Unusable if it could not be read back."""
    front_matter = head_of(head)
    if dict(read_head(split_lines(front_matter)).values) != head:
        raise Unusable("its head cannot be written as front matter")
    body = "\n\n".join(_message(turn).text for turn in turns)
    return f"{front_matter}{body}\n".encode()


def _message(turn: Turn) -> Addition:
    try:
        return exact_message(turn.role, turn.text, turn.time, turn.attributes)
    except UsageError as error:
        raise Unusable(error.message) from error


def import_file(memory: Workspace, path: str | os.PathLike[str], *, progress: Progress = no_progress) -> ImportReport:
    """Write the conversations of a file into threads, without the messages that are there already.

    The file is memsync's own JSON Lines (docs/agents.md), or an export of ChatGPT or Claude. `wrong` in the
    report lists what could not be used. The daemon or the next sync indexes the new threads. Raises UsageError.
    """
    memory.syncer.refresh(progress=progress)  # otherwise an import would begin a second thread for a source
    return Importer(memory).write(read_conversations(Path(path), progress))


def exported(memory: Workspace, threads: Sequence[str], warn: Callable[[str], None]) -> Iterator[str]:
    """Yield threads (by path or name; default: all) as JSON Lines. Raises NoThread.

    Calls `warn` with a sentence about each thread that is in a merge conflict.
    """
    if threads:
        paths = [memory.existing_thread(name) for name in threads]
    else:
        with memory.as_of_now() as (reader, _):
            paths = [thread.path for thread in reader.threads()]
    for path in paths:
        note = memory.editor.read(path)
        if note is not None:
            for warning in conflict_in(path, note.lines):
                warn(warning)
            yield from export_lines(note)
