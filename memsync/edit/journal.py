"""The journal of all appends. It can restore text that an editor overwrote by saving an old buffer.

Writers hold the writers' lock, so appends are in the order of time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

from memsync.model.grouped import grouped
from memsync.model.text import whole_characters
from memsync.model.vocabulary import NotePath
from memsync.notes.attributes import cut_attributes
from memsync.notes.message_format import read_message_heading
from memsync.system import clock
from memsync.system.state_file import StateFile

KEEP_DAYS = 30
_EXPIRE = "DELETE FROM append WHERE at < ? AND id IN (SELECT id FROM append ORDER BY id LIMIT 10)"
"""Deletes some of the oldest appends: each append may delete more than it adds."""
SIMILAR = 0.8
"""Minimum similarity of a line to an entry without a time to count as its edited version."""
COMPARED = 150
"""How many characters of a line to compare: time is quadratic in their number, and difflib is exact under 200."""
_SECTION = re.compile(r"## (?P<heading>[^\n]+)\n\n[-*+] .*", re.DOTALL)
_STAMP = re.compile(
    r"\s*(?:(?:[-*+]|\d+[.)])\s+(?:\[.\]\s+)?(?=\d)|#+ .* @ )"
    r"(\d{1,2}:\d{2}(?::\d{2})?|\d{4}-\d{2}-\d{2}[T ][\d:]+)"
)
"""Matches the time at the beginning of a log entry or of a message heading in a thread."""


@dataclass(frozen=True, slots=True)
class Appended:
    """One append at a Unix time: `text` has no line end at its end; `head` begins the note if it has to be created.

    `branch` is the branch or commit of git that was checked out; empty without git.
    """

    id: str
    at: float
    path: NotePath
    text: str
    head: str = ""
    branch: str = ""

    @property
    def heading(self) -> str:
        """The heading of the section that was created together with the entry; empty if none was."""
        match = _SECTION.fullmatch(self.text)
        column, attributes = cut_attributes(match["heading"]) if match else (0, {})
        is_section = match and read_message_heading(match["heading"][:column], attributes) is None
        return match["heading"] if match and is_section else ""

    @property
    def entry(self) -> str:
        """The text without that heading, so that the entry is found even if the section was renamed."""
        return self.text.removeprefix(f"## {self.heading}\n\n") if self.heading else self.text


class Journal:
    """The appends to one memory root; `branch` returns the branch of each."""

    def __init__(self, state: StateFile, branch: Callable[[], str] = str) -> None:
        self._state = state
        self._branch = branch

    def append(self, path: NotePath, text: str, *, head: str = "", replaces: Sequence[str] = ()) -> Appended:
        """Record an append before it is made. Raises FilesystemError.

        The appends with the ids in `replaces` no longer count as missing, unless this append is undone.
        """
        at, text, branch = clock.file_seconds(), whole_characters(text), self._branch()
        with self._state.writing() as database:
            database.execute(_EXPIRE, (at - KEEP_DAYS * 86_400,))
            database.execute(
                "INSERT INTO append (at, path, text, head, branch) VALUES (?, ?, ?, ?, ?)",
                (at, path, text, head, branch),
            )
            number = database.last_insert_rowid()
            database.executemany(
                "UPDATE append SET replaced_by = ? WHERE id = ? AND replaced_by IS NULL",
                [(number, int(old)) for old in replaces],
            )
        return Appended(str(number), at, path, text, head, branch)

    def settle(self, ids: Iterable[str]) -> None:
        """Delete these appends: they were rewritten, or deleted on purpose."""
        with self._state.writing() as database:
            database.executemany("DELETE FROM append WHERE id = ?", [(int(settled),) for settled in ids])

    def undo(self, appended: Appended) -> None:
        """Delete an append that was not made; the appends that it replaced count again."""
        with self._state.writing() as database:
            database.execute("DELETE FROM append WHERE id = ?", (int(appended.id),))
            database.execute("UPDATE append SET replaced_by = NULL WHERE replaced_by = ?", (int(appended.id),))

    def moved(self, path: NotePath, target: NotePath) -> None:
        """Let the appends to a note that was moved be those to its new path."""
        with self._state.writing() as database:
            database.execute("UPDATE append SET path = ? WHERE path = ?", (target, path))
            database.execute("UPDATE OR REPLACE ending SET path = ? WHERE path = ?", (target, path))

    def drop(self, is_forgotten: Callable[[NotePath, str], bool]) -> int:
        """Delete the appends whose note and text are forgotten; return how many."""
        rows = self._state.rows("SELECT id, path, text FROM append")
        forgotten = [str(number) for number, path, text in rows if is_forgotten(path, text)]
        if forgotten:
            self.settle(forgotten)
        return len(forgotten)

    def by_path(self) -> dict[NotePath, list[Appended]]:
        """Return all appends of each note that may be missing, oldest first."""
        return grouped((append.path, append) for append in self.since(0.0))

    def last(self, path: NotePath) -> Appended | None:
        """Return the last append to a note that may be missing."""
        rows = self._state.rows(
            "SELECT id, at, path, text, head, branch FROM append WHERE path = ? AND replaced_by IS NULL"
            " ORDER BY id DESC LIMIT 1",
            (path,),
        )
        return next((Appended(str(number), *row) for number, *row in rows), None)

    def since(self, moment: float, path: NotePath | None = None) -> list[Appended]:
        """Return the appends since a Unix time that may be missing, oldest first; with `path`, only of one note."""
        condition, values = ("path = ?", (path,)) if path is not None else ("TRUE", ())
        rows = self._state.rows(
            "SELECT id, at, path, text, head, branch FROM append"
            f" WHERE {condition} AND at >= ? AND replaced_by IS NULL ORDER BY id",
            (*values, moment),
        )
        return [Appended(str(number), *row) for number, *row in rows]


def missing(appends: Iterable[Appended], content: str) -> list[Appended]:
    """Return the appends to one note that its content lacks, oldest first.

    If a text was appended more often than the note contains it, the newest of those appends are missing.
    """
    appended: Counter[str] = Counter()
    note, lost = _Lines(content), []
    for append in appends:
        appended[append.entry] += 1
        if appended[append.entry] > note.times(append.entry):
            lost.append(append)
    return lost


class _Lines:
    """The lines of a note, in which each text is found at once: a thread of many messages has many appends."""

    def __init__(self, content: str) -> None:
        self._lines = content.replace("\r\n", "\n").split("\n")
        self._counts = Counter(self._lines)

    @cached_property
    def _places(self) -> Mapping[str, Sequence[int]]:
        return grouped((line, number) for number, line in enumerate(self._lines))

    def times(self, text: str) -> int:
        """Return how often the note contains a text as whole lines, none of them twice."""
        first, *rest = wanted = text.split("\n")
        times = free = 0
        for place in self._places.get(first, ()) if rest else ():
            if place >= free and self._lines[place : place + len(wanted)] == wanted:
                times, free = times + 1, place + len(wanted)
        return times if rest else self._counts[first]


def has_messages(append: Appended) -> bool:
    """Tell whether an append has a heading of a message."""
    return bool(_message_headings(append.text))


def unread(appends: Sequence[Appended], content: str) -> list[Appended]:
    """Return the missing ones of all appends to a note, if whoever saved it cannot have read them.

    He had read a message of which the heading is left. To put back each one that is missing would undo the edits of
    people, and of programs that rewrite a note at once.
    """
    lost = missing(appends, content)
    gone = {append.id for append in lost}
    there = [append for append in appends if append.id not in gone]
    left = _message_headings(content.replace("\r\n", "\n"))
    left.subtract(_message_headings("\n".join(append.text for append in there)))
    found = []
    for append in lost:
        headings = _message_headings(append.text)
        if not headings & left:
            found.append(append)
        left -= headings
    return found


def _message_headings(text: str) -> Counter[str]:
    return Counter(line for line in text.split("\n") if line.startswith("## ") and " @ " in line)


def edited(appends: Sequence[Appended], lost: Sequence[Appended], content: str) -> set[str]:
    """Return the ids of lost appends that a person may have edited.

    The note then has a line that no other append wrote, with the entry's time stamp or, if the entry has none, like the
    entry's first line. Of several lost entries of one minute, all count as edited: which one it was is not known.
    """
    spare = Counter(content.replace("\r\n", "\n").split("\n"))
    lost_ids = {append.id for append in lost}
    for append in appends:
        if append.id not in lost_ids:
            spare.subtract(append.entry.split("\n"))
    lines = [line for line, times in spare.items() if times > 0]
    stamps = {match[1] for match in map(_STAMP.match, lines) if match}
    without_stamp = [line[:COMPARED] for line in lines if not _STAMP.match(line)]

    def is_edited(first: str) -> bool:
        if match := _STAMP.match(first):
            return match[1] in stamps
        return bool(get_close_matches(first[:COMPARED], without_stamp, 1, SIMILAR))

    return {append.id for append in lost if is_edited(append.entry.partition("\n")[0])}


def times_in(text: str, content: str) -> int:
    """Return how often a note contains a text as whole lines; LF and CR LF are equal."""
    return _Lines(content).times(text)
