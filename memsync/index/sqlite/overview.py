"""Read whole notes from the index, and find the passages that several notes share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import apsw

from memsync.index.sqlite import queries
from memsync.index.sqlite.vectors import near_pairs
from memsync.model.query import IndexedNote
from memsync.model.upkeep import Place
from memsync.model.vocabulary import Kind, NotePath, Tier

Progress = Callable[[str, int, int], None]


class OverviewReader:
    """The part of the reader for whole notes."""

    _db: apsw.Connection

    def notes(self) -> list[IndexedNote]:
        """Return every note, by path."""
        return [_note(row) for row in self._db.execute(queries.NOTES)]

    def notes_where(self, key: str, value: str) -> list[NotePath]:
        """Return the notes, by path, that have this front matter or a chunk with this attribute; no archived ones."""
        rows = self._db.execute(queries.NOTES_WHERE, {"where": json.dumps([(key, value)])})
        return [NotePath(path) for (path,) in rows]

    def warnings(self) -> list[tuple[str, str]]:
        """Return (path, warning) of every warning, by path."""
        return [(path, text) for path, text in self._db.execute(queries.WARNINGS)]

    def repetitions(
        self, least_score: float, least_tokens: int, most: int, most_compared: int, progress: Progress
    ) -> tuple[list[tuple[float, Sequence[Place]]], int]:
        """Return groups of equal (score 1) or similar passages in several notes, highest score first.

        Passages with a cosine of `least_score` or more are joined into a group; the group's score is the lowest cosine
        that joined two of its parts. Leaves out passages under `least_tokens` tokens and archived notes. Considers the
        `most` nearest pairs of the `most_compared` longest passages; also returns the number of passages that were not
        compared. `progress` may raise to stop the work.
        """
        places: dict[int, list[Place]] = {}
        lengths: dict[int, int] = {}
        for passage, tokens, *place in self._db.execute(queries.SINGLE_ENTRIES, {"tokens": least_tokens}):
            places.setdefault(passage, []).append(Place(*place))
            lengths[passage] = tokens
        groups = _Groups(places)
        compared = sorted(places, key=lambda passage: -lengths[passage])[:most_compared]
        vectors = list(self._db.execute(queries.ACTIVE_VECTORS, {"passages": json.dumps(compared)}))
        # Passages of only one note are not compared with other passages of that note.
        homes = {passage: _only_home(found) or str(passage) for passage, found in places.items()}
        numbers = [number for number, _ in vectors]
        near = near_pairs(
            [value for _, value in vectors], [homes[number] for number in numbers], least_score, most, progress
        )
        for score, one, other in near:
            groups.join(numbers[one], numbers[other], score)
        return groups.across_notes(), len(places) - len(compared)


class _Groups:
    """Groups of similar passages. Pairs are joined nearest first: a group's score is the cosine of its last pair."""

    def __init__(self, places: dict[int, list[Place]]) -> None:
        self._places = places
        self._members = {passage: [passage] for passage in places}
        self._scores = dict.fromkeys(places, 1.0)
        self._leader = {passage: passage for passage in places}

    def join(self, one: int, other: int, score: float) -> None:
        first, second = self._leader[one], self._leader[other]
        if first == second:
            return
        moved = self._members.pop(second)
        self._members[first] += moved
        self._leader.update(dict.fromkeys(moved, first))
        self._scores[first] = score

    def across_notes(self) -> list[tuple[float, Sequence[Place]]]:
        found = []
        for leader, members in self._members.items():
            places = sorted(
                (place for passage in members for place in self._places[passage]),
                key=lambda place: (place.path, place.start_line),
            )
            if len({place.path for place in places}) > 1:
                found.append((self._scores[leader], places))
        return sorted(found, key=lambda group: (-group[0], group[1][0].path, group[1][0].start_line))


def _only_home(places: Sequence[Place]) -> str:
    """Return a key for the note that all places are in; empty if they are in several notes."""
    homes = {place.path for place in places}
    return f"={homes.pop()}" if len(homes) == 1 else ""


def _note(row: tuple[Any, ...]) -> IndexedNote:
    path, kind, tier, title, date, last_time, pinned, archived, head, mtime_ns, changed_ns = row
    return IndexedNote(
        path=path,
        kind=Kind(kind),
        tier=Tier(tier),
        title=title,
        date=date,
        last_time=last_time,
        pinned=bool(pinned),
        archived=bool(archived),
        front_matter=json.loads(head),
        mtime_ns=mtime_ns,
        changed_ns=changed_ns,
    )
