"""Forget a user: take the user's threads, messages and other parts out of the notes, put them back, or delete them.

A thread whose front matter has `user: NAME` is the user's as a whole. In all other notes the user's parts are messages,
sections and list items with the attribute `user=NAME`, and sections under a heading `user:NAME` in preferences.md and
in threads.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Annotated, NamedTuple

import yaml
from msgspec import Meta
from msgspec.structs import replace

from memsync.edit.addition import lines_with_ends
from memsync.edit.forgotten import Removed
from memsync.edit.journal import missing
from memsync.edit.markdown import one_line
from memsync.edit.note_end import read_end
from memsync.edit.runs import NoteChange
from memsync.errors import MemsyncError, NoteError, UsageError, WriteRefused
from memsync.index.fields import bigrams, cjk_runs, without_cjk
from memsync.model.note import Block, Note, Section, with_children
from memsync.model.status import Failure
from memsync.model.text import count
from memsync.model.upkeep import Forgetting, ForgottenPart, Purge, Restoring
from memsync.model.vocabulary import Kind, NotePath
from memsync.notes.decode import BinaryFileError
from memsync.notes.frontmatter import value_span
from memsync.notes.message_format import body_of
from memsync.notes.parse import MAX_HEADING_CHARS, MAX_STRUCTURED_BYTES, parse_note
from memsync.notes.rules import ARCHIVE_FOLDER, PREFERENCES
from memsync.operation import Cli, operation
from memsync.past import drop_states
from memsync.ports import Progress, no_progress
from memsync.search.stop_words import STOP_WORDS

if TYPE_CHECKING:
    from memsync.notes.parse import NoteReader
    from memsync.workspace import Workspace

_USER = re.compile(r"user:\s*(\S.*)", re.IGNORECASE)
_SPOKEN = re.compile(r"\s+@\s.*")
"""The time after the user's name in the heading of a thread's section, `## user:ada @ 2026-11-21`."""
_UNSEEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs")

SAME_WORDS = 0.8
"""Minimum share of words, without stop words, that a line keeps when it is edited."""
_ATTRIBUTES = re.compile(r"\s*\{[^{}]*\}\s*$")

OfUser = Annotated[str, Meta(description="Only what was deleted of this user. [default: of everyone]")]


@operation(writes=True, is_slow=True, is_local=True)
def forget(
    memory: Workspace,
    *,
    user: Annotated[
        str, Meta(description="Whose threads, messages, preferences and patterns to delete."), Cli(metavar="NAME")
    ],
    apply: Annotated[bool, Meta(description="Delete them. Without it they are only shown.")] = False,
    progress: Progress = no_progress,
) -> Forgetting:
    """Return the parts of the notes that belong to a user; with `apply`, take them out and keep copies.

    `undo_forget` puts them back until `purge_forgotten` deletes the copies. With `apply` no other memsync writes from
    the first look at the notes to the last change, and the states of the past are deleted. Raises UsageError for an
    empty name.
    """
    owner = _Owner(user)
    if not apply:
        return _look(memory, owner, progress)[0]
    with memory.writer.lock():
        drop_states(memory.settings.index_dir)
        result, changes = _look(memory, owner, progress)
        outcome = memory.forgotten.carry_out(changes, f"memsync forget: {count(len(changes), 'note')}", owner.name)
        _settle(memory, owner)
    return replace(
        result,
        done=tuple(outcome.paths),
        failed=(*result.failed, *outcome.failed),
        warnings=(*result.warnings, *filter(None, [outcome.complaint])),
        pending_text=_indexed(memory),
        applied=True,
    )


@operation(writes=True, is_slow=True, is_local=True)
def undo_forget(memory: Workspace, *, user: OfUser = "") -> Restoring:
    """Put back what `forget` took out, byte for byte, except in notes that somebody has changed since.

    Raises UsageError when there is nothing to put back.
    """
    outcome = memory.forgotten.undo(_Owner(user).name if user else "")
    warnings = tuple(filter(None, [outcome.complaint]))
    return Restoring(tuple(outcome.paths), tuple(outcome.failed), warnings, _indexed(memory))


@operation(writes=True, is_slow=True, is_local=True)
def purge_forgotten(memory: Workspace, *, user: OfUser = "") -> Purge:
    """Delete what `forget` kept for good, also from the journal of appends, and delete all recorded questions."""
    name = _Owner(user).name if user else ""
    with memory.writer.lock():
        drop_states(memory.settings.index_dir)
        notes = appends = queries = 0
        for owner, removed in memory.forgotten.removed(name).items():
            traces = _Traces(memory, _Owner(owner), removed)
            notes += len(removed)
            appends += memory.writer.journal.drop(traces.has_append)
            queries += memory.usage.forget([part.path for part in removed if part.is_whole])
        memory.forgotten.purge(name)
    return Purge(notes, appends, queries)


def _settle(memory: Workspace, owner: _Owner) -> None:
    """Mark the user's missing appends as settled, so that `recover` does not offer them."""
    traces = _Traces(memory, owner, memory.forgotten.removed(owner.name).get(owner.name, []))
    gone = []
    for path, entries in memory.writer.journal.by_path().items():
        theirs = {entry.id for entry in entries if traces.has_append(path, entry.text)}
        if theirs:
            note = memory.editor.read(path)
            lost = missing(entries, "\n".join(note.lines) if note else "")
            gone += [entry.id for entry in lost if entry.id in theirs]
    if gone:
        memory.writer.journal.settle(gone)


def _indexed(memory: Workspace) -> int:
    """Bring the index up to date, and return how many changed files it still lacks."""
    with memory.as_of_now() as (_, pending):
        return pending


# ---------------------------------------------------------------------------------------------- whose it is


class _Owner:
    """A user, and which names in the notes are this user's: the same name to the letter, in upper and lower case."""

    def __init__(self, name: str) -> None:
        """Take a user's name. Raises UsageError if no character of it is visible."""
        if all(unicodedata.category(character) in _UNSEEN for character in name):
            raise UsageError("a user needs a name", hint="Write: memsync forget --user NAME")
        self.name = _plain(name)

    def owns(self, value: object) -> bool:
        """Tell whether a value of the front matter or of an attribute is the name; a truth value is none."""
        return isinstance(value, (str, int, float)) and not isinstance(value, bool) and _plain(str(value)) == self.name

    def nearly_owns(self, value: object) -> bool:
        """Tell whether a value is the name in another case."""
        return isinstance(value, str) and not self.owns(value) and _plain(value).casefold() == self.name.casefold()

    def is_named(self, heading: str, *, is_spoken: bool = False) -> bool:
        """Tell whether a heading is `user:NAME`; with `is_spoken`, a time may follow."""
        match = _USER.fullmatch(heading)
        if match is None or len(heading) >= MAX_HEADING_CHARS:  # a longer heading is cut, and may be another user's
            return False
        names = {match[1], _SPOKEN.sub("", match[1])} if is_spoken else {match[1]}
        return one_line(self.name) in map(_plain, names)


def _plain(name: str) -> str:
    return unicodedata.normalize("NFC", name.strip())


class _Found(NamedTuple):
    """What one note has of a user: its parts, or the reason why they cannot be taken out."""

    change: NoteChange | None
    parts: tuple[ForgottenPart, ...] = ()
    failure: str = ""
    warnings: tuple[str, ...] = ()


def _look(memory: Workspace, owner: _Owner, progress: Progress) -> tuple[Forgetting, list[NoteChange]]:
    """Read all notes; return what they have of a user, and the changes that take it out, by path."""
    scan = memory.files.scan()
    failed, changes = list(scan.failures), list[NoteChange]()
    parts, warnings = list[ForgottenPart](), list[str]()
    for number, path in enumerate(sorted(scan.files), 1):
        try:
            found = _found(memory, owner, path, memory.files.read(path)[0])
        except FileNotFoundError:
            continue
        except NoteError as error:
            found = _Found(None, failure=error.message)
        parts += found.parts
        warnings += [f"{path}: {text}" for text in found.warnings]
        failed += [Failure(path, found.failure)] if found.failure else []
        changes += [found.change] if found.change else []
        progress("reading notes", number, len(scan.files))
    counts = dict(sorted(Counter(part.what for part in parts).items()))
    notes = len({part.path for part in parts})
    return Forgetting(owner.name, tuple(parts), counts, notes, (), tuple(failed), tuple(warnings)), changes


def _found(memory: Workspace, owner: _Owner, path: NotePath, content: bytes) -> _Found:
    """Return what one note has of a user."""
    reader = memory.reader
    if b"user" not in content.lower() and b"\\" not in content and b"\0" not in content:
        return _Found(None)  # most notes name no user, and parsing is slow
    try:
        note = _parsed(reader, path, content)
    except BinaryFileError:
        return _Found(None)
    warnings = _warnings(note, owner, is_large=len(content) > MAX_STRUCTURED_BYTES)
    if _is_whole(note, owner):
        last = max(1, len(note.lines))
        whole = ForgottenPart(path, 1, last, "thread")
        others = {user for message in note.messages if (user := message.attributes.get("user"))}
        if not all(map(owner.owns, others)):
            warnings = (*warnings, "it goes as a whole, with the messages of other users")
        return _Found(NoteChange(path, _former(memory, path), content, None, ((1, last),)), (whole,), warnings=warnings)
    parts = _merged(_parts(note, owner))
    if not parts:
        return _Found(None, warnings=warnings)
    try:
        after = _cut(reader, owner, note, content, parts)
    except MemsyncError as error:
        return _Found(None, parts, f"{error.message}: take {parts[0].citation} out by hand", warnings)
    lines = tuple((part.start_line, part.end_line) for part in parts)
    return _Found(NoteChange(path, _former(memory, path), content, after, lines), parts, warnings=warnings)


def _former(memory: Workspace, path: NotePath) -> NotePath:
    return memory.archive.came_from(path) if path.startswith(ARCHIVE_FOLDER) else path


def _cut(reader: NoteReader, owner: _Owner, note: Note, content: bytes, parts: Sequence[ForgottenPart]) -> bytes:
    """Return a note's content without some lines. Raises WriteRefused if the rest would be read differently."""
    read_end(note.path, content)  # raises WriteRefused for UTF-16 and conflict markers
    if any(_is_shared(note, part, owner) for part in parts):
        raise WriteRefused(f"{note.path}: a part of the user has a part of another user in it")
    gone = {line for part in parts for line in range(part.start_line, part.end_line + 1)}
    lines = lines_with_ends(content.decode("utf-8", "surrogateescape"))
    kept = [line for number, line in enumerate(lines, 1) if number not in gone]
    after = "".join(kept).encode("utf-8", "surrogateescape")
    rest = _parsed(reader, note.path, after)
    if any(_parts(rest, owner)) or _outline(rest, set()) != _outline(note, gone):
        raise WriteRefused(f"{note.path}: the rest would be read differently")
    return after


def _parsed(reader: NoteReader, path: NotePath, content: bytes) -> Note:
    return parse_note(path, content, reader.rules)


# ------------------------------------------------------------------------------------ parts of a note, pure


def _is_whole(note: Note, owner: _Owner) -> bool:
    """Tell whether a note is a thread of the user, by its front matter as YAML reads it or as it is written."""
    if note.kind is not Kind.THREAD or _is_damaged(note):
        return False
    return owner.owns(note.front_matter.get("user")) or owner.owns(_as_written(note))


def _is_damaged(note: Note) -> bool:
    """Tell whether keys of the front matter were read one by one: it may name a second user."""
    return any(warning.startswith("front matter cannot be read") for warning in note.warnings)


def _as_written(note: Note) -> str | None:
    """Return `user` of the front matter as it is written: YAML reads `user: 007` and `user: yes` as other values."""
    if not isinstance(note.front_matter.get("user"), (int, float)):
        return None
    text = "\n".join(note.lines[1 : note.head_lines - 1])
    try:
        span = value_span(text, "user")
    except yaml.YAMLError:
        return None
    return text[span[0] : span[1]] if span else None


def _parts(note: Note, owner: _Owner) -> Iterator[ForgottenPart]:
    """Yield the parts of a note that are the user's; they may overlap."""
    is_thread = note.kind is Kind.THREAD
    for section, blocks in zip(note.sections, note.blocks, strict=True):
        title = section.heading_path[-1] if section.heading_path else ""
        is_border = 0 < section.level <= 2
        what = ""
        if is_thread and is_border and section.is_message and owner.owns(section.attributes.get("user")):
            what = "message"
        elif is_thread and is_border and owner.is_named(title, is_spoken=True):
            what = "section"
        elif note.path == PREFERENCES and _preferring(section, owner):
            what = "preferences"
        elif not is_thread and section.level and owner.owns(section.attributes.get("user")):
            what = "section"
        if what:
            depth = 2 if is_thread else section.level
            yield ForgottenPart(note.path, section.start_line, _last_line(note, section, depth), what)
        elif not is_thread:  # a list item of a thread is part of what somebody said
            for block in with_children(blocks):
                if owner.owns(block.attributes.get("user")):
                    yield ForgottenPart(note.path, block.start_line, block.end_line, "item")


def _preferring(section: Section, owner: _Owner) -> bool:
    """Tell whether a section of preferences.md has the user's lines: the outermost `user:NAME` above it counts."""
    named = next((title for title in section.heading_path if _USER.fullmatch(title)), "")
    return owner.is_named(named)


def _last_line(note: Note, section: Section, depth: int) -> int:
    """Return the last line before the next heading of this level or above it."""
    following = note.sections[note.sections.index(section) + 1 :]
    return next((other.start_line - 1 for other in following if 0 < other.level <= depth), len(note.lines))


def _is_shared(note: Note, part: ForgottenPart, owner: _Owner) -> bool:
    """Tell whether a part has a section or a list item of another user in it; a message is what one user said."""
    if part.what not in ("section", "item"):
        return False
    marked: list[Section | Block] = [*note.sections]
    if note.kind is not Kind.THREAD:
        marked += with_children(chain.from_iterable(note.blocks))
    users = (
        place.attributes["user"]
        for place in marked
        if "user" in place.attributes and part.start_line < place.start_line <= part.end_line
    )
    return not all(map(owner.owns, users))


def _merged(parts: Iterator[ForgottenPart]) -> tuple[ForgottenPart, ...]:
    """Return parts without those inside of others, by line."""
    merged: list[ForgottenPart] = []
    for part in sorted(parts, key=lambda part: (part.start_line, -part.end_line)):
        if not merged or part.start_line > merged[-1].end_line:
            merged.append(part)
    return tuple(merged)


def _outline(note: Note, gone: set[int]) -> list[object]:
    """Return what must not change when the lines `gone` go: front matter, headings, messages and attributes."""
    sections = [
        (section.heading_path, section.role, section.time, dict(section.attributes))
        for section in note.sections
        if section.level and section.start_line not in gone
    ]
    messages = [
        (message.role, message.time, body_of(note, message))
        for message in note.messages
        if message.start_line not in gone
    ]
    items = [
        (note.lines[block.start_line - 1], dict(block.attributes))
        for block in with_children(chain.from_iterable(note.blocks))
        if block.attributes and block.start_line not in gone
    ]
    return [note.lines[: note.head_lines], sections, messages, items]


def _warnings(note: Note, owner: _Owner, *, is_large: bool) -> tuple[str, ...]:
    """Return what a person should look at in a note that may have more of the user."""
    warnings = []
    user = note.front_matter.get("user")
    if isinstance(user, Sequence) and not isinstance(user, str) and any(map(owner.owns, user)):
        warnings.append("its front matter names several users: only the parts that name this user alone are deleted")
    if note.kind is not Kind.THREAD and owner.owns(user):
        warnings.append("its front matter names the user, but it is no thread and stays")
    if owner.nearly_owns(user):
        warnings.append(f"{user!r} is another user, because of the case of its letters")
    is_unread = (not note.front_matter or _is_damaged(note)) and any(map(_names_user, note.lines[:100]))
    if note.kind is Kind.THREAD and is_unread and any(warning.startswith("front matter") for warning in note.warnings):
        warnings.append("its front matter cannot be read: see for yourself whose thread it is")
    if is_large and note.kind is not Kind.THREAD:
        warnings.append("it is too large to be parsed: its sections and list items are not looked at")
    return tuple(warnings)


def _names_user(line: str) -> bool:
    return line.lstrip().lower().startswith(("user:", '"user"', "'user'"))


# ------------------------------------------------------------------------------------------------- purging


class _Traces:
    """Recognises what is left of removed text in the journal of appends."""

    def __init__(self, memory: Workspace, owner: _Owner, removed: Sequence[Removed]) -> None:
        self._owner = owner
        self._parse: Callable[[NotePath, bytes], Note] = memory.editor.parse
        self._read = cache(memory.editor.read)
        self._whole = {path for part in removed if part.is_whole for path in (part.path, part.former)}
        self._said: dict[NotePath, set[frozenset[str]]] = {}  # the words of each removed line
        for part in removed:
            for path in (part.path, part.former):
                self._said.setdefault(path, set()).update(filter(None, map(_words_said, part.lines)))

    def has_append(self, path: NotePath, text: str) -> bool:
        """Tell whether an append to a note is the user's: to a removed note, of removed lines, or marked so."""
        # It may be a removed line as it was before the name was added (any note), or edited otherwise (this note).
        appended = set(map(_words_said, text.splitlines()))
        is_removed = any(not appended.isdisjoint(removed) for removed in self._said.values())
        if path in self._whole or is_removed or self._was_edited(path, text):
            return True
        if "user" not in text.lower():
            return False
        with suppress(MemsyncError):
            return any(_parts(self._parse(path, text.encode("utf-8", "surrogateescape")), self._owner))
        return False

    def _was_edited(self, path: NotePath, text: str) -> bool:
        """Tell whether a note no longer has a line, and most of its words were in one removed line, or the reverse.

        Comparing whole lines is not enough: who adds a user's name to a line may change more of it.
        """
        if path not in self._said:
            return False
        note = self._read(path)
        present = {line.strip() for line in (note.lines if note else ())}
        gone = [_words_said(line) for line in text.splitlines() if line.strip() not in present]
        return any(
            len(said & other) >= SAME_WORDS * min(len(said), len(other))
            for said in filter(None, gone)
            for other in self._said[path]
        )


def _words_said(line: str) -> frozenset[str]:
    """Return the words of a line without its attributes and stop words; none for a heading, which has role and time."""
    if line.lstrip().startswith("#"):
        return frozenset()
    text = _ATTRIBUTES.sub("", line.casefold())
    pairs = (pair for run in cjk_runs(text) for pair in bigrams(run))
    return frozenset({*re.findall(r"\w+", without_cjk(text)), *pairs} - STOP_WORDS)
