"""Exact text for programs: whole notes, and threads whose messages are given back as they were.

A program may change a note only if it knows its text, so no edit of a person is lost. A thread may be named by a
program's own id, `id:ABC`, which is compared exactly and found without a search.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from memsync.edit.addition import Addition, lines_with_ends
from memsync.edit.append import Done
from memsync.edit.markdown import exact_message
from memsync.edit.note_end import read_end
from memsync.edit.note_paths import checked_path, id_of_thread
from memsync.edit.runs import NoteChange
from memsync.edit.set_fields import head_of
from memsync.errors import NoSuchNote, NoteChanged, NoteError, NoThread, WriteRefused
from memsync.model.conversation import NewMessage, ThreadMessage
from memsync.model.note import Message
from memsync.model.text import count
from memsync.model.vocabulary import NotePath
from memsync.model.written import Written
from memsync.notes.decode import split_lines
from memsync.notes.files import identity_of
from memsync.notes.message_format import attributes_of, read_messages, text_of_message
from memsync.operation import operation
from memsync.search.excerpt import content_of
from memsync.system import clock

if TYPE_CHECKING:
    from memsync.workspace import Workspace

SECTION = "Notes"

MAX_MESSAGES = 2**53
Path = Annotated[str, Meta(description="The note's path, with its ending; or `id:` and a program's id of a thread.")]
Expected = Annotated[str | None, Meta(description="The whole text that the note has now. [default: there is no note]")]
Indexed = Annotated[bool, Meta(description="Index it before it returns; otherwise the next search does.")]
ThreadName = Annotated[str, Meta(description="The thread: its name, path or title, or `id:` and a program's own id.")]


# -------------------------------------------------------------------------------------------------- notes


@operation()
def read_note(memory: Workspace, path: Path) -> str:
    """Return the whole text of a note, with its last line end. Raises NoSuchNote, NoteError."""
    return _text(memory, _path_of(memory, path))


@operation(writes=True)
def write_note(
    memory: Workspace,
    path: Path,
    text: Annotated[str, Meta(description="The whole text.")],
    *,
    expected: Expected = None,
    index: Indexed = True,
) -> Written:
    """Give a note exactly this text; make it if none is expected.

    Raises NoteChanged if there is another text, or a note although none is expected; NoSuchNote if it is gone;
    WriteRefused for a note that instructs agents, and one that .gitignore or [files] leaves out.
    """
    note = _path_of(memory, path)

    def change() -> Done:
        memory.writer.refuse_instructions(note)
        if memory.files.leaves_out(note):
            hint = "End its name in .md, or change [files] suffixes, [files] exclude or .gitignore."
            raise WriteRefused(f"{note} would not be a note", hint=hint)
        if expected is None:
            if os.path.lexists(memory.files.root / note):
                raise NoteChanged(f"{note} exists already", hint="Read it, and pass its text as `expected`.")
            return memory.writer.create(note, text)
        try:
            return memory.writer.rewrite(note, lambda now: _if_expected(note, now, expected, text))
        except FileNotFoundError as error:
            raise NoSuchNote(f"{note} does not exist", hint="Pass no `expected` to make it.") from error

    return memory.write("note", note, change, is_indexed=index)


@operation(writes=True)
def delete_note(memory: Workspace, path: Path, *, expected: Expected = None) -> Written:
    """Delete a note; `undo_forget(user=path)` puts it back. Raises NoSuchNote, NoteChanged, WriteRefused."""
    note = _path_of(memory, path)

    def change() -> Done:
        memory.writer.refuse_instructions(note)
        text = _text(memory, note)
        if expected is not None:
            _if_expected(note, text, expected, "")
        content = text.encode()
        gone = NoteChange(note, note, content, None, ((1, max(1, text.count("\n"))),))
        outcome = memory.forgotten.carry_out([gone], "", note)
        if outcome.failed:
            raise WriteRefused(outcome.failed[0].reason, hint="Try again.")
        return Done(note, 1)

    return memory.write("delete", note, change, is_indexed=False)  # there is nothing to index: a search compares files


def _path_of(memory: Workspace, text: str) -> NotePath:
    return memory.thread_of_id(own) if (own := id_of_thread(text)) is not None else checked_path(text)


def _thread_path(memory: Workspace, thread: str) -> NotePath:
    return memory.thread_of_id(own) if (own := id_of_thread(thread)) is not None else memory.existing_thread(thread)


def _text(memory: Workspace, path: NotePath) -> str:
    try:
        return content_of(memory.files, path).decode()
    except FileNotFoundError as error:
        raise NoSuchNote(f"{path} does not exist", hint="Name it as search results do.") from error
    except UnicodeDecodeError as error:
        raise NoteError(f"{path} is not UTF-8", hint="Read it in an editor.") from error


def _if_expected(path: NotePath, now: str, expected: str, text: str) -> str:
    if now != expected:
        raise NoteChanged(f"{path} has another text by now", hint="Read it again.")
    return text


# ------------------------------------------------------------------------------------------------ threads


@operation()
def read_thread(
    memory: Workspace,
    thread: ThreadName,
    *,
    last: Annotated[int, Meta(ge=0, le=MAX_MESSAGES, description="Only the last N messages. [default: all]")] = 0,
) -> tuple[ThreadMessage, ...]:
    """Return the messages of a thread from its file alone, each with its text as it was written. Raises NoThread."""
    path = _thread_path(memory, thread)
    lines = split_lines(_whole(memory, path, _thread_text(memory, path)))
    messages = read_messages(lines)
    return tuple(_said(path, lines, one) for one in (messages[-last:] if last else messages))


@operation(writes=True)
def append_messages(
    memory: Workspace,
    thread: ThreadName,
    messages: Annotated[Sequence[NewMessage], Meta(min_length=1, description="The messages, oldest first.")],
    *,
    index: Indexed = True,
) -> Written:
    """Append messages to a thread in one write, each text as it is. A thread with an `id:` begins with them.

    Raises NoThread, UsageError, WriteRefused.
    """
    own = id_of_thread(thread)
    path = _thread_path(memory, thread)
    now = clock.now().isoformat(timespec="seconds")
    added = [exact_message(one.role, one.text, one.time or now, one.attributes) for one in messages]
    whole = Addition("\n\n".join(one.text for one in added))

    def append() -> Done:
        memory.writer.refuse_instructions(path)
        is_new = own is not None and not os.path.lexists(memory.files.root / path)
        head = head_of({"title": own, "session": own}) if is_new else ""
        _cut_torn(memory, path)
        return memory.writer.append(path, whole, head=head)

    return memory.write("thread", f"{messages[0].role}: {count(len(messages), 'message')}", append, is_indexed=index)


@operation(writes=True)
def truncate_thread(
    memory: Workspace,
    thread: ThreadName,
    keep: Annotated[
        int, Meta(ge=-MAX_MESSAGES, le=MAX_MESSAGES, description="How many to keep; -1: all but the last.")
    ],
    *,
    index: Indexed = True,
) -> tuple[ThreadMessage, ...]:
    """Keep only the first messages of a thread, and return the others. Raises NoThread, WriteRefused."""
    path, gone = _thread_path(memory, thread), list[ThreadMessage]()

    def change() -> Done:
        memory.writer.refuse_instructions(path)
        _cut_torn(memory, path)  # what readers do not count
        return _cut(memory, path, keep, gone)

    memory.write("truncate", path, change, is_indexed=index)
    return tuple(gone)


def _said(path: NotePath, lines: Sequence[str], one: Message) -> ThreadMessage:
    text = text_of_message("\n".join(lines[one.body_line - 1 : one.end_line]), one.attributes)
    return ThreadMessage(path, "", one.start_line, one.end_line, one.role, one.time, attributes_of(one), text)


def _thread_text(memory: Workspace, path: NotePath) -> str:
    with _telling_what_is_missing(path):
        return memory.files.read(path)[0].decode("utf-8", "surrogateescape")


@contextmanager
def _telling_what_is_missing(path: NotePath) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NoThread(f"there is no thread {path}", hint="append_messages begins it.") from error


def _whole(memory: Workspace, path: NotePath, text: str) -> str:
    """Return a thread without what a killed process has half written: a beginning of an append that was not finished.

    The coarse rule, to cut off what has no line end, would delete what a person has written in an editor. One that ends
    at a line end stays: it may be another append that was finished.
    """
    written = _unfinished(memory, path) if not text.endswith("\n") else ""
    first = re.escape(written.partition("\n")[0])
    starts = [*(one.start() for one in re.finditer(f"^{first}\r?$", text, re.MULTILINE)), text.rfind("\n") + 1]
    near = (at for at in starts if written and 0 < len(text) - at <= len(written) + written.count("\n"))
    tails = ((at, text[at:].replace("\r\n", "\n").removesuffix("\r")) for at in near)
    return text[: next((at for at, tail in tails if written.startswith(tail) and written != tail), len(text))]


def _unfinished(memory: Workspace, path: NotePath) -> str:
    """Return the last append to a note if it was perhaps not made to its end; otherwise an empty text."""
    last = memory.writer.journal.last(path)
    return last.text if last is not None and last.id != memory.writer.ends.appended(path) else ""


def _cut_torn(memory: Workspace, path: NotePath) -> None:
    if _unfinished(memory, path):
        with suppress(NoThread, NoteError):  # the writer says why
            _rewrite(memory, path, lambda text: _whole(memory, path, text))


def _cut(memory: Workspace, path: NotePath, keep: int, taken: list[ThreadMessage]) -> Done:
    """Cut out the messages after the first `keep`, and let `taken` be those. Sections of people stay."""

    def cut(text: str) -> str:
        lines = split_lines(text)
        gone = read_messages(lines)[keep:]
        taken[:] = [_said(path, lines, one) for one in gone]  # replaced: a note that changes meanwhile is cut again
        rest = lines_with_ends(text)
        for one in reversed(gone):
            del rest[one.start_line - 1 : one.end_line]
        return "".join(rest).rstrip("\r\n") + "\n" if gone else text  # blanks at an end belong to a message

    return _rewrite(memory, path, cut)


def _rewrite(memory: Workspace, path: NotePath, edit: Callable[[str], str]) -> Done:
    with _telling_what_is_missing(path):
        done = memory.writer.rewrite(path, edit)
    _keep_end(memory, path)
    return done


def _keep_end(memory: Workspace, path: NotePath) -> None:
    """Remember how a thread ends now: the next append then restores nothing that a killed process has begun before."""
    with suppress(FileNotFoundError, NoteError):
        content, stamp = memory.files.read(path)
        status = os.stat(memory.files.root / path, follow_symlinks=False)
        if identity_of(status) == (stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.inode):
            last = memory.writer.journal.last(path)
            memory.writer.ends.put(path, status, read_end(path, content), last.id if last else "")
