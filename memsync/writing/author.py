"""What people and agents add to a memory: log entries, things to remember, notes; and what editors overwrote of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memsync.errors import NoteError, UsageError, WriteRefused
from memsync.model import Kind, Note, NotePath, Overwritten, Tier, Written
from memsync.notes.dates import leading_time, split_date
from memsync.notes.files import NoteFiles
from memsync.notes.reader import NoteReader
from memsync.notes.rules import ARCHIVE_FOLDER
from memsync.notes.when import parse_day
from memsync.writing import repository
from memsync.writing.attempts import Done
from memsync.writing.beneath import new_note_path, note_path
from memsync.writing.daily import log_of
from memsync.writing.edits import end_of_section, find_section, insert_after
from memsync.writing.head import head_of
from memsync.writing.join import Addition
from memsync.writing.journal import Appended, edited, missing
from memsync.writing.shape import as_it_was, cleaned, list_item, one_line
from memsync.writing.writer import NoteWriter

RetiredTo = Callable[[NotePath], Sequence[NotePath]]
"""Returns where notes of a path have been moved to and still are."""

IndexNow = Callable[[NotePath], tuple[int, tuple[str, ...]]]
"""Brings one note into the index: its generation (0 when that is left for later), and what has to be said about it."""

REMEMBERED = "Remembered"
NOTE_OF_TIER = {Tier.PERSONAL: "MEMORY.md", Tier.PROJECT: "notes/project.md", Tier.TASK: "notes/task.md"}
TITLE_OF_MEMORY = "Memory"
_TAG = re.compile(r"[^\W\d_][\w/-]*")


class Author:
    """Writes to one memory root as people ask for it; every write is indexed, and committed if `commits` is true."""

    def __init__(
        self,
        files: NoteFiles,
        reader: NoteReader,
        writer: NoteWriter,
        index_now: IndexNow,
        retired_to: RetiredTo,
        *,
        commits: bool,
    ) -> None:
        self.writer = writer
        self._files = files
        self._reader = reader
        self._index_now = index_now
        self._retired_to = retired_to
        self._commits = commits

    # ------------------------------------------------------------------------------------------ writing

    def log(self, text: str, day: str, time: str, tags: Sequence[str], *, force: bool) -> Written:
        """See Calls.log."""
        now = datetime.now()
        of_day = parse_day(day, now) if day else now.date()
        clock = _clock(time) if time else f"{now:%H:%M}" if of_day == now.date() else ""
        addition = list_item(text, time=clock, tags=tags_of(tags))
        path = log_of(of_day, self._files, self._reader.rules)
        head = f"# {of_day}\n"
        return self.write("log", text, lambda: self.writer.append(path, addition, head=head, force=force))

    def remember(self, text: str, section: str, note: str, tier: str, tags: Sequence[str], *, force: bool) -> Written:
        """See Calls.remember."""
        wanted = _tier(tier) if tier else Tier.PERSONAL
        path = note_path(note or NOTE_OF_TIER[wanted])
        if self.is_of_kind(path, Kind.THREAD):  # a section of that name would be a message
            raise UsageError(f"{path} is a thread", hint="Append to it: memsync thread append")
        addition = list_item(text, tags=tags_of(tags))
        heading = one_line(section) or REMEMBERED
        fields = {"tier": str(wanted)} if tier and path != NOTE_OF_TIER[Tier.PERSONAL] else {}
        title = TITLE_OF_MEMORY if path == NOTE_OF_TIER[Tier.PERSONAL] else title_of(path)
        head = f"{head_of(fields)}# {title}\n"
        return self.write("remember", text, lambda: self.add_to_section(path, heading, addition, head, force=force))

    def new_note(self, path: str, text: str, title: str, tier: str, tags: Sequence[str]) -> Written:
        """See Calls.new_note."""
        place = new_note_path(path)
        if self._files.leaves_out(place):
            raise UsageError(
                f"{place} would not be a note: .gitignore or [files] exclude leaves it out", hint="Name another place."
            )
        head = head_of({"tier": str(_tier(tier)) if tier else "", "tags": list(tags_of(tags))})
        body = f"\n{cleaned(text)}\n" if text.strip() else ""
        content = f"{head}# {one_line(title) or title_of(place)}\n{body}"
        return self.write("note", title or place, lambda: self.writer.create(place, content))

    def add_to_section(
        self,
        path: NotePath,
        heading: str,
        addition: Addition,
        head: str,
        *,
        force: bool = False,
        replaces: Sequence[str] = (),
    ) -> Done:
        """Put an item at the end of a section, which is made if it is not there; none is put there twice."""
        note = self.read(path)
        replaces = replaces or self._lost_like(path, addition, note)
        if self._files.leaves_out(path):
            raise WriteRefused(f"{path} is no note: .gitignore or [files] exclude leaves it out", hint="Name another.")
        section = find_section(note, heading) if note else None
        if note is None or section is None:
            new = Addition(f"## {heading}\n\n{addition.text}")
            done = self.writer.append(path, new, head=head, force=force, replaces=replaces)
            return Done(path, done.line + 2, done.warnings)
        last = end_of_section(note, section)
        lines = addition.text.split("\n")
        for number in range(section.start_line, last + 1):
            if list(note.lines[number - 1 : number - 1 + len(lines)]) == lines:
                return Done(path, number, ("Already there; not added again.",))
        if not any(line.strip() for line in note.lines[last:]):
            return self.writer.append(path, addition, force=force, replaces=replaces)

        def edit(text: str) -> str:
            now, _ = self._reader.read(path, text.encode("utf-8", "surrogateescape"))
            place = find_section(now, heading)
            return insert_after(path, text, end_of_section(now, place) if place else len(now.lines), addition)

        return self.writer.rewrite(path, edit, adds=True, force=force, replaces=replaces)

    def _lost_like(self, path: NotePath, addition: Addition, note: Note | None) -> list[str]:
        """Return the ids of equal items that were overwritten: the one that comes now stands for them."""
        same = [one for one in self.writer.journal.since(0.0, path) if one.entry == addition.text]
        return [one.id for one in missing(same, "\n".join(note.lines) if note else "")]

    # ----------------------------------------------------------------------------------------- recovery

    def _text_of(self, path: NotePath) -> str | None:
        """Return a note's text, with that of those of its name that were retired since; None when there is none."""
        retired = (*self._retired_to(path), NotePath(f"{ARCHIVE_FOLDER}{path}"))
        notes = [note for place in dict.fromkeys((path, *retired)) if (note := self.read(place)) is not None]
        return "\n".join(line for note in notes for line in note.lines) if notes else None

    def _lost(self, days: int) -> list[tuple[Appended, Overwritten]]:
        """Return what was appended within so many days and is not there, in the order in which it was appended."""
        since = (datetime.now(UTC) - timedelta(days=days)).timestamp()
        by_path: dict[NotePath, list[Appended]] = {}
        for one in self.writer.journal.since(0.0):
            by_path.setdefault(one.path, []).append(one)
        found = []
        for path, appends in by_path.items():
            if all(one.at < since for one in appends):
                continue
            text = self._text_of(path)
            lost = missing(appends, text or "")
            changed = edited(appends, lost, text or "")
            for one in lost:
                moment = datetime.fromtimestamp(one.at, UTC).isoformat(timespec="seconds")
                about = Overwritten(one.id, path, moment, one.text, one.id in changed, note_deleted=text is None)
                found += [(one, about)] if one.at >= since else []
        return sorted(found, key=lambda pair: (pair[0].at, pair[0].id))

    def overwritten(self, days: int) -> tuple[Overwritten, ...]:
        """See Calls.overwritten."""
        return tuple(about for _, about in self._lost(days))

    def recover(self, ids: Sequence[str]) -> tuple[Written, ...]:
        """See Calls.recover."""
        named = self._named(ids)
        return tuple(self._recover(one) for one in named)

    def _recover(self, one: Appended) -> Written:
        """Append an entry again; until it is there, the journal has it as lost."""
        head = one.head or self._head_of(one.path)

        def append() -> Done:
            if all(left.id != one.id for left in self.writer.journal.since(0.0, one.path)):
                # The append of the one before, or another process, has put it back by now.
                return Done(one.path, self._last_line_of(one))
            if one.heading:
                entry = as_it_was(one.entry)
                return self.add_to_section(one.path, one.heading, entry, head, replaces=[one.id])
            return self.writer.append(one.path, as_it_was(one.text), head=head, replaces=[one.id])

        return self.write("recover", one.entry, append)

    def _last_line_of(self, one: Appended) -> int:
        """Return the line at which an entry begins, for the last time if it is there several times; else the end."""
        note, first = self.read(one.path), one.entry.partition("\n")[0]
        lines = note.lines if note else ()
        return max((number for number, line in enumerate(lines, 1) if line == first), default=len(lines) or 1)

    def _head_of(self, path: NotePath) -> str:
        """Return how a note begins that was deleted and comes back, when the journal does not know."""
        if self._reader.rules.kind(path) is Kind.THREAD:
            return head_of({"title": title_of(path), "status": "active"})
        return f"# {title_of(path)}\n"

    def dismiss(self, ids: Sequence[str]) -> int:
        """See Calls.dismiss."""
        named = self._named(ids)
        with self.writer.lock():
            self.writer.journal.settle([one.id for one in named])
        return len(named)

    def _named(self, ids: Sequence[str]) -> list[Appended]:
        """Return lost appends by their ids, each once, in the order in which they were appended. Raises UsageError."""
        lost = [one for one, _ in self._lost(36_500)]
        unknown = set(ids).difference(one.id for one in lost)
        if unknown:
            raise UsageError(f"nothing overwritten is called {min(unknown)}", hint="See: memsync recover")
        return [one for one in lost if one.id in ids]

    # ------------------------------------------------------------------------------------------- common

    def write(self, what: str, about: str, act: Callable[[], Done]) -> Written:
        """Do one write, commit it and bring it into the index."""
        commit, complaint = "", ""
        with self.writer.lock():
            done = act()
            if self._commits:
                first = next((line.strip() for line in about.splitlines() if line.strip()), "")
                message = f"memsync {what}: {first[:60]}"
                commit, complaint = (
                    repository.commit_moves(self._files.root, [(done.moved_from, done.path)], message)
                    if done.moved_from
                    else repository.commit(self._files.root, done.path, message)
                )
        generation, indexing = self._index_now(done.path)
        warnings = (*done.warnings, *filter(None, [complaint]), *indexing)
        return Written(done.path, done.line, generation, commit, warnings)

    @property
    def root(self) -> Path:
        """The memory root."""
        return self._files.root

    def holds(self, path: NotePath) -> bool:
        """Tell whether there is a note of that path, without reading it; what is ignored is none."""
        return self._files.identity(path) is not None and self._files.holds(path)

    def refuse_instructions(self, path: NotePath) -> None:
        """Refuse to write a conversation where it would instruct agents. Raises WriteRefused."""
        if self._reader.rules.instructs(path):
            raise WriteRefused(f"{path} instructs agents", hint="Only people write to it, in an editor.")

    def refuses_import(self, path: NotePath) -> str:
        """Return why no import may write to a path; empty where it may."""
        return self._reader.rules.refuses_import(path)

    def is_of_kind(self, path: NotePath, kind: Kind) -> bool:
        """Tell whether a note is of a kind: by its path, or else, which takes reading it, by its head."""
        if self._reader.rules.kind(path) is kind:
            return True
        note = self.read(path)
        return note is not None and note.kind is kind

    def read(self, path: NotePath) -> Note | None:
        """Return a note as it is now; None when it is not there. Raises NoteError for one that cannot be read."""
        try:
            content, _ = self._files.read(path)
            return self.parse(path, content)
        except FileNotFoundError:
            return None

    def parse(self, path: NotePath, content: bytes) -> Note:
        """Return the note that bytes are. Raises NoteError for what is no text."""
        try:
            return self._reader.read(path, content)[0]
        except ValueError as error:
            raise NoteError(f"{path} is {error}") from error


def title_of(path: NotePath) -> str:
    """Return a title for a new note: its name, in words; a date that it begins with is written as 2026-11-21."""
    date, rest = split_date(path.rpartition("/")[2].rpartition(".")[0])
    words = " ".join(filter(None, (date, rest.replace("-", " ").replace("_", " ").strip())))
    return words[:1].upper() + words[1:]


def _clock(text: str) -> str:
    clock = leading_time(text)
    if not clock or clock.lstrip("0") != text.strip().lstrip("0"):
        raise UsageError(f"{text!r} is no time of day", hint="Write it as 10:02.")
    return clock


def _tier(text: str) -> Tier:
    if text not in list(Tier):
        raise UsageError(f"tier {text!r} is not known", hint=f"Write {', '.join(Tier)}.")
    return Tier(text)


def tags_of(tags: Sequence[str]) -> list[str]:
    """Return tags without their `#`. Raises UsageError for what is none."""
    names = [tag.removeprefix("#") for tag in tags]
    wrong = next((name for name in names if not _TAG.fullmatch(name)), None)
    if wrong is not None:
        raise UsageError(f"{wrong!r} is no tag", hint="Write letters, digits, - and /, and begin with a letter.")
    return names
