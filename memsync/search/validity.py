"""Tell which entries no longer hold, or not yet, and what replaces them (docs/format.md).

What replaces something is in the index as an attribute of an entry or in the front matter of a note. So each answer is
computed from the files as they are; nothing is stored about what was replaced.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from memsync.model.answer import IN_PART
from memsync.model.answer import SUPERSEDED_BY as REPLACED_BY
from memsync.model.note import Entry
from memsync.model.query import IndexedChunk, IndexedNote
from memsync.model.vocabulary import Kind, NotePath, citation
from memsync.notes.naming import folded, names_of
from memsync.notes.validity import (
    PAST,
    STATUS,
    SUPERSEDED_BY,
    SUPERSEDES,
    VALID_FROM,
    VALID_UNTIL,
    marks_of,
    reference_of,
    statements,
)
from memsync.ports import IndexReader
from memsync.system import clock

MAX_LINES = 1_000
"""A place of more lines counts as the whole note."""
OF_A_NOTE = (0, 2**31)
"""The lines of a whole note."""
Marks = Mapping[str, list[str]]


class Place(NamedTuple):
    """Lines of a note; `time` is that of the entry, or the date of the note.

    Of these lines, only the statements with a `digest`, or the entries `at` a time are meant, if they are set.
    """

    path: NotePath
    first: int = OF_A_NOTE[0]
    last: int = OF_A_NOTE[1]
    time: str = ""
    digest: str = ""
    at: str = ""

    @property
    def citation(self) -> str:
        """`path:line`, or the path of a whole note."""
        return self.path if (self.first, self.last) == OF_A_NOTE else citation(self.path, self.first, self.last)

    def overlaps(self, path: NotePath, first: int, last: int) -> bool:
        """Tell whether a place has one of some lines."""
        return self.path == path and self.first <= last and first <= self.last


UNKNOWN = Place(NotePath(""))
Pair = tuple[Place, Place]
"""An old place, and the new one that replaces it: UNKNOWN if only the old one is known."""


@dataclass(slots=True)
class Validity:
    """What the notes of an index say about what holds. Empty for most memories.

    `replaced` has the pairs of an old place under its path, and there under each of its lines (0: all of the note), the
    digest of its text, or its time. `notes` has the marks in front matter. `void` are the pairs that count for nothing,
    because the new place is older than the old one, as in a circle.
    """

    replaced: Mapping[NotePath, Mapping[str | int, Sequence[Pair]]] = field(default_factory=dict)
    notes: Mapping[NotePath, Marks] = field(default_factory=dict)
    void: Sequence[Pair] = ()

    @classmethod
    def of(cls, index: IndexReader) -> Validity:
        """Read the marks of an index."""
        chunks, heads = index.marked()
        if not chunks and not heads:
            return cls()
        notes = {path: marks for path, _, head in heads if (marks := marks_of(head))}
        pairs = list(_pairs(chunks, {path: day for path, day, _ in heads}, notes, index))
        sound = list(_without_circles(pairs))
        return cls(_by_name(sound), notes, [pair for pair in pairs if pair not in sound])

    def reason(self, path: NotePath, entry: Entry, text_of: Callable[[], str | None], day: str) -> str:
        """Return why an entry does not hold on a day, as words for people; empty if it does.

        It begins with IN_PART if that is true of only some of its statements: memsync does not cut short paragraphs and
        lists. `text_of` returns the entry's text, None if it has changed; it is called only if there is a mark.
        """
        for marks in (marks_of(entry.attributes), self.notes.get(path, {})):
            for until in marks.get(VALID_UNTIL, ()):
                if until < day[: len(until)]:
                    return f"valid until {until}"
            for since in marks.get(VALID_FROM, ()):
                if since > day[: len(since)]:
                    return f"valid from {since}"
        return self._replaced(path, entry, text_of, day) or entry.attributes.get(PAST, "")

    def _replaced(self, path: NotePath, entry: Entry, text_of: Callable[[], str | None], day: str) -> str:
        """Return by what an entry, or a statement in it, was replaced."""
        by_name = self.replaced.get(path)
        if by_name is None:
            return ""

        def by(*names: str | int) -> str:
            news = (new for name in names for _, new in by_name.get(name, ()))
            new = next(
                (n for n in news if n.time[:10] <= day and not n.overlaps(path, entry.start_line, entry.end_line)), None
            )
            return "" if new is None else f"{REPLACED_BY}{new.citation}" if new.path else "superseded"

        if reason := by(0, entry.time[:16] or 0):
            return reason
        said = list(statements((text_of() or "").split("\n"), entry.start_line))
        reasons = [by(one.digest, *range(one.first, one.last + 1)) for one in said]
        if reasons and all(reasons):
            return reasons[0]
        if entry.attributes.get(PAST):
            return ""
        return next((f"{IN_PART}{one.first}: {why}" for one, why in zip(said, reasons, strict=True) if why), "")

    def paths(self) -> Set[NotePath]:
        """Return the notes that may have something that does not hold."""
        return self.replaced.keys() | self.notes.keys()


def _without_circles(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Yield the pairs whose new place is not older than the old one: so a circle ends at its newest place.

    Of two notes without dates that supersede each other, the last by path holds.
    """
    paths = {(old.path, new.path) for old, new in pairs}
    for old, new in pairs:
        if old.time and new.time:
            is_wrong = new.time[: len(old.time)] < old.time[: len(new.time)]
        else:
            is_wrong = old.path > new.path and (new.path, old.path) in paths
        if not is_wrong:
            yield old, new


def _by_name(pairs: Iterable[Pair]) -> Mapping[NotePath, Mapping[str | int, Sequence[Pair]]]:
    """Return pairs by the path of the old place, and all that may find it there."""
    by_path: dict[NotePath, dict[str | int, list[Pair]]] = {}
    for old, new in pairs:
        names: Iterable[str | int] = range(old.first, old.last + 1)
        if old.at or old.digest:
            names = [old.at or old.digest]
        elif old.last - old.first >= MAX_LINES:
            names = [0]
        for name in names:
            by_path.setdefault(old.path, {}).setdefault(name, []).append((old, new))
    return by_path


def _pairs(
    chunks: Iterable[IndexedChunk], days: Mapping[NotePath, str], notes: Mapping[NotePath, Marks], index: IndexReader
) -> Iterator[Pair]:
    """Yield a pair for each mark. A mark that names nothing that exists gives none."""
    names = _Names(index)
    for chunk in chunks:
        for entry in chunk.entries:
            own = Place(chunk.path, entry.start_line, entry.end_line, entry.time or chunk.note_date)
            marks = marks_of(entry.attributes)
            yield from ((old, own) for old in names.places(marks.get(SUPERSEDES, []), own))
            yield from ((own, new) for new in names.places(marks.get(SUPERSEDED_BY, []), own))
            if STATUS in entry.attributes:
                whole = Place(chunk.path, time=chunk.note_date)
                yield from ((whole, new) for new in names.places([entry.attributes[STATUS]], own) or [UNKNOWN])
    for path, head in notes.items():
        own = Place(path, time=days[path])
        yield from ((old, own) for old in names.places(head.get(SUPERSEDES, []), own))
        if SUPERSEDED_BY in head:
            yield from ((own, new) for new in names.places(head[SUPERSEDED_BY], own) or [UNKNOWN])


class _Names:
    """Finds the places that marks name."""

    def __init__(self, index: IndexReader) -> None:
        self._index = index

    @cached_property
    def _notes(self) -> Mapping[NotePath, IndexedNote]:
        return {note.path: note for note in self._index.notes()}

    @cached_property
    def _named(self) -> Mapping[str, Set[NotePath]]:
        named: dict[str, set[NotePath]] = {}
        for note in self._notes.values():
            for name in names_of(note):
                named.setdefault(folded(name), set()).add(note.path)
        return named

    @cached_property
    def _logs(self) -> Mapping[str, Sequence[NotePath]]:
        logs: dict[str, list[NotePath]] = {}
        for note in self._notes.values():
            if note.kind is Kind.DAILY:
                logs.setdefault(note.date, []).append(note.path)
        return logs

    def places(self, texts: list[str], source: Place) -> Sequence[Place]:
        """Return the places that the texts of a mark name, relative to its note. A name may have a comma."""
        places: list[Place] = []
        for text in texts:
            whole = self._of(text, source)
            places += whole or [place for part in text.split(", ") for place in self._of(part, source)]
        return places

    def _of(self, text: str, source: Place) -> list[Place]:
        named = reference_of(text)
        if named.time:
            moment = named.time if len(named.time) > 5 else f"{source.time[:10]}T{named.time:0>5}"
            return [Place(path, time=moment, at=moment) for path in self._logs.get(moment[:10], ())]
        path = self._path(named.name, source.path)
        if path is None:
            return []
        lines = (named.first, named.last) if named.first else OF_A_NOTE
        return [Place(path, *lines, time=self._notes[path].date, digest=named.digest)]

    def _path(self, name: str, source: NotePath) -> NotePath | None:
        """Return the note that is meant: a path from the root or from the note that has the mark, or a unique name."""
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(source), name))
        for path in (name, f"{name}.md", beside, f"{beside}.md"):
            if path in self._notes:
                return NotePath(path)
        found = self._named.get(folded(name), set())
        return next(iter(found)) if len(found) == 1 else None


def today() -> str:
    """Return the present day."""
    return clock.today().isoformat()
