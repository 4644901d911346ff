"""Tell which entries no longer hold, or not yet, and what replaces them (docs/format.md).

What replaces something is in the index as an attribute of an entry or in the front matter of a note. So each answer is
computed from the files as they are; nothing is stored about what was replaced.

A mark counts only for text whose origin is trusted no more than that of the mark itself. So it is decided for each
entry, because the lines of one note may be of several origins.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from memsync.model.answer import IN_PART
from memsync.model.answer import SUPERSEDED_BY as REPLACED_BY
from memsync.model.grouped import grouped
from memsync.model.note import Chunk, Entry
from memsync.model.query import IndexedChunk, IndexedNote
from memsync.model.vocabulary import Form, Kind, NotePath, Origin, citation, trust
from memsync.notes.naming import by_titles, folded
from memsync.notes.origin import origin_of
from memsync.notes.validity_marks import (
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
MAX_MARKS = 10
"""Marks of one note about one line or text: a stranger's page can say a thousand times that it replaces a note."""
OF_A_NOTE = (0, 2**31)
"""The lines of a whole note."""
Marks = Mapping[str, list[str]]
Heads = Mapping[NotePath, tuple[str, Marks]]
"""The origin of the front matter of notes, and its marks."""
Read = Callable[[NotePath], tuple[Sequence[str], Sequence[Chunk]]]
"""Returns the lines and chunks of a note, none if it cannot be read."""


class MarkedLines(NamedTuple):
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


UNKNOWN = MarkedLines(NotePath(""))


class Pair(NamedTuple):
    """An old place, and the new one that replaces it: UNKNOWN if only the old one is known.

    `mark` is the place that says so, and `by` the origin of the text there.
    """

    old: MarkedLines
    new: MarkedLines
    mark: MarkedLines
    by: str

    def may_replace(self, origin: str) -> bool:
        """Tell whether the mark counts for text of this origin."""
        return trust(self.by) >= trust(origin)


@dataclass(slots=True)
class Validity:
    """What the notes of an index say about what holds. Empty for most memories.

    `replaced` has the pairs of an old place under its path, and there under each of its lines (0: all of the note), the
    digest of its text, or its time. `notes` has the origin of front matter with its marks. `void` are the pairs that
    count for nothing, because the new place is older than the old one, as in a circle.
    """

    replaced: Mapping[NotePath, Mapping[str | int, Sequence[Pair]]] = field(default_factory=dict)
    notes: Heads = field(default_factory=dict)
    void: Sequence[Pair] = ()

    @classmethod
    def of(cls, index: IndexReader, usual: str) -> Validity:
        """Read the marks of an index; `usual` is as for `origin_of`."""
        chunks, heads = index.marked()
        if not chunks and not heads:
            return cls()
        names = _Names(index, usual)
        notes = {
            path: (_at_most(origin_of(head, "", (), usual), names.kind(path)), marks)
            for path, _, head in heads
            if (marks := marks_of(head))
        }
        pairs = list(_pairs(chunks, {path: day for path, day, _ in heads}, notes, names))
        sound = dict.fromkeys(_without_circles(pairs))
        return cls(_by_name(sound), notes, [pair for pair in pairs if pair not in sound])

    def reason(self, path: NotePath, entry: Entry, text_of: Callable[[], str | None], day: str, origin: str) -> str:
        """Return why an entry of this origin does not hold on a day, as words for people; empty if it does.

        It begins with IN_PART if that is true of only some of its statements: memsync does not cut short paragraphs and
        lists. `text_of` returns the entry's text, None if it has changed; it is called only if there is a mark.
        """
        by, of_note = self.notes.get(path, (origin, {}))
        for marks in (marks_of(entry.attributes), of_note if trust(by) >= trust(origin) else {}):
            for until in marks.get(VALID_UNTIL, ()):
                if until < day[: len(until)]:
                    return f"valid until {until}"
            for since in marks.get(VALID_FROM, ()):
                if since > day[: len(since)]:
                    return f"valid from {since}"
        return self._replaced(path, entry, text_of, day, origin) or entry.attributes.get(PAST, "")

    def _replaced(self, path: NotePath, entry: Entry, text_of: Callable[[], str | None], day: str, origin: str) -> str:
        """Return by what an entry, or a statement in it, was replaced."""
        if path not in self.replaced:
            return ""

        def by(*names: str | int) -> str:
            news = (pair.new for pair in self._naming(path, entry, names) if pair.may_replace(origin))
            new = next((new for new in news if new.time[:10] <= day), None)
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

    def refused(self, path: NotePath, entry: Entry, text: str, origin: str) -> Iterator[tuple[MarkedLines, Pair]]:
        """Yield the marks that would replace an entry, or a statement in it, that is trusted more, and what that is."""
        said: list[tuple[MarkedLines, Sequence[str | int]]]
        said = [(MarkedLines(path, entry.start_line, entry.end_line), (0, entry.time[:16] or 0))]
        said += [
            (MarkedLines(path, one.first, one.last), (one.digest, *range(one.first, one.last + 1)))
            for one in statements(text.split("\n"), entry.start_line)
        ]
        for place, names in said if path in self.replaced else ():
            yield from ((place, pair) for pair in self._naming(path, entry, names) if not pair.may_replace(origin))

    def all_refused(self, read: Read) -> Iterator[tuple[MarkedLines, Pair, str]]:
        """Yield each mark of an index that counts for nothing, with the first text that it is about, and its origin."""
        seen = set[Pair]()
        for path in sorted(self.replaced):
            lines, chunks = read(path)
            for chunk in chunks:
                for entry in chunk.entries if chunk.form != Form.HEADING else ():
                    text = "\n".join(lines[entry.start_line - 1 : entry.end_line])
                    for place, pair in self.refused(path, entry, text, chunk.origin):
                        if pair not in seen:
                            yield place, pair, chunk.origin
                        seen.add(pair)

    def _naming(self, path: NotePath, entry: Entry, names: Iterable[str | int]) -> Iterator[Pair]:
        """Yield the pairs whose old place has one of these names, without those of the entry itself."""
        pairs = (pair for name in names for pair in self.replaced[path].get(name, ()))
        return (pair for pair in pairs if not pair.new.overlaps(path, entry.start_line, entry.end_line))

    def paths(self) -> Set[NotePath]:
        """Return the notes that may have something that does not hold."""
        return self.replaced.keys() | self.notes.keys()


def _without_circles(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Yield the pairs whose new place is not older than the old one: so a circle ends at its newest place.

    Of two notes without dates that supersede each other, the last by path holds. A mark that is trusted less makes no
    circle.
    """
    marks = {(pair.old.path, pair.new.path, trust(pair.by)) for pair in pairs}
    for pair in pairs:
        old, new = pair.old, pair.new
        if old.time and new.time:
            is_wrong = new.time[: len(old.time)] < old.time[: len(new.time)]
        else:
            back = ((new.path, old.path, trusted) in marks for trusted in range(trust(pair.by), 1))
            is_wrong = old.path > new.path and any(back)
        if not is_wrong:
            yield pair


def _by_name(pairs: Iterable[Pair]) -> Mapping[NotePath, Mapping[str | int, Sequence[Pair]]]:
    """Return pairs by the path of the old place, and all that may find it there."""
    by_path: dict[NotePath, dict[str | int, list[Pair]]] = {}
    marks = Counter[tuple[object, ...]]()
    for pair in pairs:
        old = pair.old
        marks[pair.old, pair.mark.path, pair.by] += 1
        if marks[pair.old, pair.mark.path, pair.by] > MAX_MARKS:
            continue
        names: Iterable[str | int] = range(old.first, old.last + 1)
        if old.at or old.digest:
            names = [old.at or old.digest]
        elif old.last - old.first >= MAX_LINES:
            names = [0]
        for name in names:
            mark = old.path, name, pair.mark.path, pair.by
            marks[mark] += 1
            if marks[mark] <= MAX_MARKS:
                by_path.setdefault(old.path, {}).setdefault(name, []).append(pair)
    return by_path


def _pairs(chunks: Iterable[IndexedChunk], days: Mapping[NotePath, str], notes: Heads, names: _Names) -> Iterator[Pair]:
    """Yield a pair for each mark. A mark that names nothing that exists gives none.

    What people paste into a message is not theirs: about other text, a conversation counts no more than an agent.
    """
    for chunk in chunks:
        own_by, by = chunk.origin, _at_most(chunk.origin, chunk.kind)
        for entry in chunk.entries:
            own = MarkedLines(chunk.path, entry.start_line, entry.end_line, entry.time or chunk.note_date)
            marks = marks_of(entry.attributes)
            yield from (Pair(old, own, own, by) for old in names.places(marks.get(SUPERSEDES, []), own, by))
            yield from (Pair(own, new, own, own_by) for new in names.places(marks.get(SUPERSEDED_BY, []), own, own_by))
            if STATUS in entry.attributes:
                whole = MarkedLines(chunk.path, time=chunk.note_date)
                places = names.places([entry.attributes[STATUS]], own, by) or [UNKNOWN]
                yield from (Pair(whole, new, own, by) for new in places)
    for path, (by, head) in notes.items():
        own = MarkedLines(path, time=days[path])
        yield from (Pair(old, own, own, by) for old in names.places(head.get(SUPERSEDES, []), own, by))
        if SUPERSEDED_BY in head:
            yield from (Pair(own, new, own, by) for new in names.places(head[SUPERSEDED_BY], own, by) or [UNKNOWN])


def _at_most(origin: str, kind: str) -> str:
    """Return for whose text a mark in a note of this kind counts: a program writes the front matter of a thread."""
    return min(origin, Origin.AGENT, key=trust) if kind == Kind.THREAD else origin


class _Names:
    """Finds the places that marks name. Of several notes with a name, the most trusted one has it."""

    def __init__(self, index: IndexReader, usual_origin: str) -> None:
        self._index = index
        self._usual_origin = usual_origin

    @cached_property
    def _notes(self) -> Mapping[NotePath, IndexedNote]:
        return {note.path: note for note in self._index.notes()}

    @cached_property
    def _named(self) -> Mapping[str, Sequence[NotePath]]:
        return by_titles(self._notes.values())

    @cached_property
    def _logs(self) -> Mapping[str, Sequence[NotePath]]:
        return grouped((note.date, note.path) for note in self._notes.values() if note.kind is Kind.DAILY)

    @cached_property
    def _trusted(self) -> Mapping[NotePath, int]:
        """How far each note is trusted: as its most trusted text and its front matter, a thread never as the owner."""
        best: dict[NotePath, int] = {}
        for path, origin in self._index.origins():
            best[path] = max(trust(origin), best.get(path, trust(origin)))
        for note in self._notes.values():
            own = trust(origin_of(note.front_matter, "", (), self._usual_origin))
            most = trust(Origin.AGENT) if note.kind is Kind.THREAD else own
            best[note.path] = min(own, most, best.get(note.path, own))
        return best

    def kind(self, path: NotePath) -> str:
        """Return the kind of a note."""
        return self._notes[path].kind

    def places(self, texts: list[str], source: MarkedLines, by: str) -> Sequence[MarkedLines]:
        """Return the places that the texts of a mark name, relative to its note. A name may have a comma."""
        places: list[MarkedLines] = []
        for text in texts:
            whole = self._of(text, source, by)
            places += whole or [place for part in text.split(", ") for place in self._of(part, source, by)]
        return places

    def _of(self, text: str, source: MarkedLines, by: str) -> list[MarkedLines]:
        named = reference_of(text)
        if named.time:
            moment = named.time if len(named.time) > 5 else f"{source.time[:10]}T{named.time:0>5}"
            return [MarkedLines(path, time=moment, at=moment) for path in self._logs.get(moment[:10], ())]
        path = self._path(named.name, source.path)
        if path is None:
            return []
        lines = (named.first, named.last) if named.first else OF_A_NOTE
        # By its own date, a note that is trusted less could say that the mark does not count, or not yet.
        day = self._notes[path].date if self._trusted[path] >= trust(by) else ""
        return [MarkedLines(path, *lines, time=day, digest=named.digest)]

    def _path(self, name: str, source: NotePath) -> NotePath | None:
        """Return the note that is meant: a path from the root or from the note that has the mark, or a unique name."""
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(source), name))
        paths = [NotePath(p) for p in (name, f"{name}.md", beside, f"{beside}.md") if p in self._notes]
        found = list(dict.fromkeys([*paths, *sorted(self._named.get(folded(name), ()))]))
        if len(found) > 1:
            most = max(map(self._trusted.__getitem__, found))
            found = [path for path in found if self._trusted[path] == most]
        return found[0] if found and (found[0] in paths or len(found) == 1) else None


def today() -> str:
    """Return the present day."""
    return clock.today().isoformat()
