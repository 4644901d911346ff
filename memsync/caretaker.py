"""Upkeep of one memory root: what retires and comes back, what repeats itself, what is used and what is not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from memsync.answering import Answering
from memsync.errors import NoteError, UsageError, WriteRefused
from memsync.model import (
    Collections,
    Duplicates,
    IndexedNote,
    NoteAbout,
    Notes,
    NoteUse,
    Place,
    Pruning,
    Repetition,
    Retirement,
    Stale,
    Stats,
)
from memsync.notes.files import NoteFiles
from memsync.notes.naming import existing_folder
from memsync.notes.reader import NoteReader
from memsync.ports import Progress
from memsync.settings import Settings
from memsync.upkeep.activity import last_active
from memsync.upkeep.folders import collections
from memsync.upkeep.retention import due, is_too_much, unused
from memsync.usage import Usage
from memsync.writing.retiring import Moved, Retiring

LEAST_TOKENS = 8
"""What is shorter ("Yes.", "Open questions") says the same in many notes without repeating anything."""
MOST_PAIRS = 10_000
MOST_COMPARED = 40_000
"""Passages that are compared each with each unless all are asked for: ten seconds' work, and four times that for twice
as many."""
LEAST_SIMILARITY = 0.7
MOST_DAYS = 36_500


class Caretaker:
    """The part of `memsync.calls` that is about upkeep, in this process."""

    def __init__(
        self,
        settings: Settings,
        files: NoteFiles,
        reader: NoteReader,
        answering: Answering,
        retiring: Retiring,
        usage: Usage,
    ) -> None:
        self._files = files
        self._reader = reader
        self._answering = answering
        self._usage = usage
        self._task_days: int = settings["prune.task_days"]
        self._retiring = retiring
        self._is_counting: bool = settings["usage.count"]
        self.by_name: Mapping[str, Callable[..., Any]] = {
            "prune": self._prune,
            "undo_prune": self._undo_prune,
            "duplicates": self._duplicates,
            "stale": self._stale,
            "notes": self._listed,
            "collections": self._collections,
            "stats": self._stats,
        }

    def _notes(self) -> tuple[list[IndexedNote], int]:
        """Return every note as the files are now, and how many changed files are not in that."""
        with self._answering.as_of_now() as (reader, pending):
            return reader.notes(), pending

    # --------------------------------------------------------------------------------------- retirement

    def _prune(self, days: int, *, apply: bool, force: bool) -> Pruning:
        _check_days(days)
        notes, pending = self._notes()
        found, warnings = due(notes, datetime.now().astimezone(), days or self._task_days)
        found = self._retiring.with_free_targets(found)
        kept = sum(not note.archived for note in notes)
        is_refused = is_too_much(len(found), kept) and not force
        plan = Pruning(tuple(found), (), kept, is_refused, (), tuple(warnings), pending)
        if not apply:
            return plan
        if is_refused:
            raise WriteRefused(
                f"{len(found)} of {kept} notes are due, more than a tenth, and none was moved",
                hint="Look at them with memsync prune; if that is right: memsync prune --apply --force",
            )
        return self._done(plan, self._retiring.retire(found, {note.path: note.mtime_ns for note in notes}))

    def _undo_prune(self) -> Pruning:
        moved = self._retiring.undo()
        back = tuple(Retirement(source, target, "", "moved back") for source, target in moved.moves)
        return self._done(Pruning(back, (), 0), moved)

    def _done(self, plan: Pruning, moved: Moved) -> Pruning:
        """Return what became of a plan, once the index has it."""
        notes, pending = self._notes()
        sources = {source for source, _ in moved.moves}
        known = {note.path for note in notes}
        unseen = next((target for _, target in moved.moves if target not in known), "") if not pending else ""
        left_out = f"no search finds {unseen}: .gitignore or [files] exclude leaves it out" if unseen else ""
        return replace(
            plan,
            moved=tuple(one for one in plan.due if one.path in sources),
            notes=plan.notes or sum(not note.archived for note in notes),
            failed=tuple(moved.failed),
            warnings=(*plan.warnings, *filter(None, (left_out, moved.complaint))),
            pending_text=pending,
        )

    # -------------------------------------------------------------------------------------- repetitions

    def _duplicates(self, similarity: float, limit: int) -> Duplicates:
        return self.duplicates(similarity, limit, MOST_COMPARED, lambda what, done, total: None)

    def duplicates(self, similarity: float, limit: int, most_compared: int, progress: Progress) -> Duplicates:
        """See Memory.duplicates."""
        if not LEAST_SIMILARITY <= similarity <= 1:
            raise UsageError(
                f"similarity {similarity:g} is not from {LEAST_SIMILARITY:g} to 1",
                hint="Below that, passages are only about the same matter.",
            )
        with self._answering.as_of_now() as (reader, pending):
            found, left_out = reader.repetitions(similarity, LEAST_TOKENS, MOST_PAIRS, most_compared, progress)
            space = reader.active_space()
            waiting = reader.pending(space) if space else reader.counts().passages
        return Duplicates(tuple(self._repetition(*one) for one in found[:limit]), pending, waiting, left_out)

    def _repetition(self, score: float, places: Sequence[Place]) -> Repetition:
        texts = {self._quote(place) for place in places} if score == 1 else set()
        return Repetition(score, tuple(places), self._quote(places[0]), is_equal=len(texts) == 1)

    def _quote(self, place: Place) -> str:
        """Return the lines of a place as they are now; empty when they have just gone."""
        try:
            content, _ = self._files.read(place.path)
            lines = self._reader.read(place.path, content)[0].lines
        except (OSError, ValueError, NoteError):
            return ""
        return "\n".join(lines[place.start_line - 1 : place.end_line])

    # ------------------------------------------------------------------------------------------- usage

    def _stale(self, days: int, limit: int) -> Stale:
        _check_days(days)
        notes, pending = self._notes()
        used = self._usage.used("")
        found = unused(notes, used.notes, date.today(), days)
        return Stale(tuple(found[:limit]), used.counted_since, self._counting_faults(), pending)

    def _listed(self, folder: str, *, archived: bool) -> Notes:
        notes, pending = self._notes()
        inside = existing_folder(self._files.root, folder, [note.path for note in notes]) if folder else ""
        found = (
            NoteAbout(one.path, one.title, one.kind, one.tier, last_active(one), one.pinned, one.archived)
            for one in notes
            if one.path.startswith(inside) and (archived or not one.archived)
        )
        return Notes(tuple(found), pending)

    def _collections(self) -> Collections:
        notes, pending = self._notes()
        return Collections(tuple(collections(notes)), pending)

    def _stats(self, days: int, limit: int) -> Stats:
        _check_days(days)
        notes, pending = self._notes()
        since = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds")
        used = self._usage.used(since)
        there = {note.path: note for note in notes if not note.archived}
        retrieved = [use for path, use in used.notes.items() if path in there]
        never = [NoteUse(path, 0, "", last_active(note)) for path, note in there.items() if path not in used.notes]
        return Stats(
            since=since,
            counted_since=used.counted_since,
            searches=len(used.milliseconds),
            empty=used.empty,
            p50_ms=_share_of(used.milliseconds, 0.5),
            p95_ms=_share_of(used.milliseconds, 0.95),
            most_retrieved=tuple(
                NoteUse(use.path, use.retrieved, use.last_retrieved, last_active(there[use.path]))
                for use in sorted(retrieved, key=lambda use: (-use.retrieved, use.path))[:limit]
            ),
            never_retrieved=tuple(sorted(never, key=lambda use: (use.last_active, use.path))[:limit]),
            never_count=len(never),
            growth=tuple(used.growth),
            queries=tuple(used.queries),
            warnings=self._counting_faults(),
            pending_text=pending,
        )

    def _counting_faults(self) -> tuple[str, ...]:
        off = "" if self._is_counting else "nothing is counted: [usage] count is off in the settings"
        return tuple(filter(None, [off, self._usage.fault]))


def _check_days(days: int) -> None:
    if not 0 <= days <= MOST_DAYS:
        raise UsageError(f"{days} days are not from 0 to {MOST_DAYS}", hint="Name another number of days.")


def _share_of(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that such a share of the values does not exceed; 0 without any."""
    return round(ordered[max(0, math.ceil(len(ordered) * share) - 1)], 1) if ordered else 0.0
