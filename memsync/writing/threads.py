"""Threads: conversations in notes of their own, which are begun, appended to, shown, retired and taken up again."""

from __future__ import annotations

import itertools
import os
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from memsync.errors import MemsyncError, NoSuchNote, NoteError, NoThread, UsageError
from memsync.model import (
    Conversation,
    JsonValue,
    Kind,
    Message,
    Neighbours,
    Note,
    NotePath,
    Thread,
    ThreadMessage,
    Written,
)
from memsync.model.plain import visible
from memsync.notes.rules import ARCHIVE_FOLDER, THREADS_FOLDER
from memsync.notes.threads import body_of
from memsync.writing.attempts import Done
from memsync.writing.author import Author, tags_of
from memsync.writing.beneath import note_path, numbered
from memsync.writing.head import head_of, set_field
from memsync.writing.moving import move
from memsync.writing.retiring import Retiring
from memsync.writing.shape import WRITING_ATTRIBUTES, message, one_line, text_of_message, whole_characters

STATUSES = ("active", "paused", "completed", "archived")
MOST_SLUG_CHARS = 60
MOST_MESSAGE_CHARS = 500_000


class ThreadAuthor:
    """Writes the threads of one memory root; `known` returns what the index says of one, `titled` those of a title."""

    def __init__(
        self,
        author: Author,
        known: Callable[[NotePath], Thread | None],
        titled: Callable[[str], Sequence[NotePath]],
        retiring: Retiring,
    ) -> None:
        self._author = author
        self._known = known
        self._titled = titled
        self._retiring = retiring

    def new(self, title: str, session: str, user: str, project: str, prompt: str, tags: Sequence[str]) -> Written:
        """See Calls.new_thread."""
        title = one_line(title)
        slug = slug_of(title)
        if not slug:
            raise UsageError("a thread needs a title", hint="Write: memsync thread new TITLE")
        fields: dict[str, JsonValue] = {
            "title": title,
            "session": whole_characters(session),
            "user": whole_characters(user),
            "project": whole_characters(project),
            "status": "active",
            "prompt": whole_characters(prompt),
            "tags": tags_of(tags),
        }
        titled = self._titled(title)  # before the lock: it takes a comparison of files, for which no writer should wait
        with self._author.writer.lock():
            path = free_path(self._author.root, slug)
            self._author.refuse_instructions(path)
            same_slug = itertools.takewhile(lambda one: one != path, numbered(NotePath(f"{THREADS_FOLDER}{slug}.md")))
            taken = next((one for one in (*titled, *same_slug) if self._is_called(one, title)), None)
            if taken is not None:
                name = taken.rpartition("/")[2].removesuffix(".md")
                hint = f"Append to it: memsync thread append {name} ROLE TEXT; or choose another title."
                raise UsageError(f"there is a thread {title!r} already: {taken}", hint=hint)
            return self._author.write("thread", title, lambda: self._author.writer.create(path, head_of(fields)))

    def _is_called(self, path: NotePath, title: str) -> bool:
        note = self._author.read(path)
        return note is not None and note.title.casefold() == title.casefold()

    def append(
        self, thread: str, role: str, text: str, time: str, attributes: Sequence[str], *, force: bool
    ) -> Written:
        """See Calls.append_message."""
        if len(text) > MOST_MESSAGE_CHARS:
            raise UsageError(
                f"a message of {len(text)} characters is too long", hint="Put it into a note, and name that one."
            )
        moment = time.strip() or f"{datetime.now():%Y-%m-%d %H:%M:%S}"
        addition = message(role, text, moment, _pairs(attributes))
        return self._write(
            thread, f"{role}: {text}", lambda path: self._author.writer.append(path, addition, force=force)
        )

    def set_status(self, thread: str, status: str) -> Written:
        """See Calls.set_thread_status."""
        if status not in STATUSES:
            raise UsageError(f"status {status!r} is not known", hint=f"Write {', '.join(STATUSES)}.")

        def edit(path: NotePath, text: str) -> str:
            changed = set_field(text, "status", status)
            was_archived = self._author.parse(path, text.encode("utf-8", "surrogateescape")).archived
            is_archived = status == "archived"
            return set_field(changed, "archived", is_archived) if is_archived or was_archived else changed

        return self._write(
            thread,
            f"{status}: {thread}",
            lambda path: self._author.writer.rewrite(path, lambda text: edit(path, text)),
            comes_back=status != "archived",
        )

    def _write(self, thread: str, about: str, act: Callable[[NotePath], Done], *, comes_back: bool = True) -> Written:
        """Write to a thread; one that was retired comes back for it, and goes again if it cannot be written."""
        named = self.existing(thread)  # by its title that takes a comparison of files, for which no writer should wait

        def once_it_is_there() -> Done:
            path = self.existing(named)
            self._author.refuse_instructions(path)
            if not comes_back or not path.startswith(ARCHIVE_FOLDER):
                return act(path)
            target = self._retiring.came_from(path)
            self._author.refuse_instructions(target)
            move(self._author.root, path, target)
            try:
                return replace(act(target), moved_from=path)
            except MemsyncError:
                with suppress(MemsyncError, FileNotFoundError):
                    move(self._author.root, target, path)
                raise

        return self._author.write("thread", about, once_it_is_there)

    def show(self, thread: str, last: int) -> Conversation:
        """See Calls.thread."""
        path = self.existing(thread)
        note = self._author.read(path)
        known = self._known(path)
        if note is None or known is None:
            raise NoteError(f"{path} has just gone, or is no thread", hint="See: memsync thread list")
        chosen = note.messages[-last:] if last else note.messages
        head = note.front_matter
        messages = tuple(_message(note, one) for one in chosen)
        return Conversation(known, str(head.get("prompt") or ""), str(head.get("summary") or ""), messages)

    def neighbours(self, path: str, start_line: int, end_line: int, count: int) -> Neighbours:
        """See Calls.neighbours."""
        if start_line < 1 or end_line < 0 or count < 0:
            raise UsageError("lines count from 1, and messages from 0", hint="Name the lines as a hit does.")
        place = note_path(path)
        note = self._author.read(place) if self._author.holds(place) else None
        if note is None:
            raise NoSuchNote(f"{path} does not exist", hint="Name it as search results do.")
        before = [one for one in note.messages if one.end_line < start_line][-count:] if count else []
        after = [one for one in note.messages if one.start_line > max(start_line, end_line)][:count]
        return Neighbours(*(tuple(_message(note, one) for one in side) for side in (before, after)))

    def existing(self, thread: str) -> NotePath:
        """Return the path of a thread that is there, named by its path, as in threads/, or by its title.

        What was retired is looked for where it was moved to. Raises NoThread, UsageError when several have that title.

        Nothing of one in threads/ is read for that: an append to a long thread must not cost a reading of it.
        """
        paths = thread_paths(thread)
        retired = (p for path in paths for p in (*self._retiring.retired_to(path), NotePath(f"{ARCHIVE_FOLDER}{path}")))
        for path in (*paths, *retired):
            if self._author.holds(path):
                if self._author.is_of_kind(path, Kind.THREAD):
                    return path
                raise NoThread(f"{path} is no thread", hint="Threads are in threads/: memsync thread list")
        titled = self._titled(" ".join(thread.split()))
        if len(titled) > 1:
            raise UsageError(f"several threads are called {thread!r}", hint=f"Name one: {', '.join(titled)}")
        if not titled:
            hint = "See: memsync thread list; or begin it: memsync thread new"
            raise NoThread(f"there is no thread {thread!r}", hint=hint)
        return titled[0]


def thread_paths(thread: str) -> list[NotePath]:
    """Return what a thread may be called that is named by its path or as in threads/. Raises UsageError."""
    in_folder = thread if "/" in thread else f"{THREADS_FOLDER}{thread}"
    return list(dict.fromkeys((note_path(in_folder), thread_path(thread))))


def _message(note: Note, one: Message) -> ThreadMessage:
    text = text_of_message(body_of(note, one), one.attributes)
    says = _told(one.attributes)
    return ThreadMessage(note.path, note.session, one.start_line, one.end_line, one.role, one.time, says, text)


def thread_path(name: str) -> NotePath:
    """Return the path of a thread that is named by it, or as in threads/. Raises UsageError."""
    return note_path(name if "/" in name or name.endswith((".md", ".markdown")) else f"{THREADS_FOLDER}{name}")


def free_path(root: Path, slug: str) -> NotePath:
    """Return the first name in threads/ that nothing has: the slug, then with a number."""
    return next(path for path in numbered(NotePath(f"{THREADS_FOLDER}{slug}.md")) if not os.path.lexists(root / path))


def _pairs(attributes: Sequence[str]) -> dict[str, str]:
    """Return `key=value` texts as attributes. Raises UsageError, also where a value means nothing under its key."""
    pairs: dict[str, str] = {}
    for one in attributes:
        key, equals, value = one.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"{one!r} is no attribute", hint="Write it as key=value.")
        pairs[key.strip()] = value
    for key in ("in", "out"):
        if key in pairs and not (pairs[key].isascii() and pairs[key].isdigit()):
            raise UsageError(f"{key}={pairs[key]} is no number of tokens", hint="Write it as in=812.")
    if "cost" in pairs and not re.fullmatch(r"\d{1,6}(\.\d{1,12})?", pairs["cost"]):
        raise UsageError(f"cost={pairs['cost']} is no amount of US dollars", hint="Write it as cost=0.0031.")
    return pairs


def _told(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes without those that only say how the text is written."""
    return {name: value for name, value in attributes.items() if name not in WRITING_ATTRIBUTES}


def slug_of(title: str) -> str:
    """Return a file name for a title: its words in lower case, with hyphens; empty for a title without words."""
    words = re.findall(r"\w+", visible(unicodedata.normalize("NFC", title)).lower())
    slug = "-".join(words).replace("_", "-").strip("-")
    while len(slug.encode()) > MOST_SLUG_CHARS:
        slug = slug.rpartition("-")[0] or slug[: MOST_SLUG_CHARS // 4]
    return slug
