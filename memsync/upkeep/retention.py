"""Which notes are due to leave for archive/, and which are only old. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime

from memsync.model import IndexedNote, NotePath, NoteUse, Retirement, Tier
from memsync.notes.dates import expires_at
from memsync.notes.rules import ARCHIVE_FOLDER, describes_folder
from memsync.upkeep.activity import begun, counted_from, here_since, last_active

MOST_SHARE = 0.1
"""Of the notes: more than that is not moved at once unless somebody insists."""


def due(notes: Iterable[IndexedNote], now: datetime, task_days: int) -> tuple[list[Retirement], list[str]]:
    """Return the notes that are due to retire at a moment, by path, and what of `expires` was not understood.

    `expires` decides where it stands, the age of `task_days` else, of task memory alone; of a note that a clone or a
    pull brought, that age counts from its arrival. Personal and pinned notes never retire, nor does the README.md that
    describes its folder. What is not understood keeps its note where it is.
    """
    found, warnings = [], []
    for note in notes:
        if _is_for_good(note) or describes_folder(note.path):
            continue
        expires = note.front_matter.get("expires")
        if expires is None:
            age = _days_since(here_since(note), now.date())
            reason = f"{note.tier}, {age} days old" if note.tier is Tier.TASK and age > task_days else ""
        else:
            moment = expires_at(expires, begun(note)) if isinstance(expires, str) else None
            if moment is None:
                warnings.append(f"{note.path} stays: expires {expires!r} names no day: write 2026-11-21 or 30d")
            reason = f"expired {moment:%Y-%m-%d}" if moment is not None and moment <= now else ""
        if reason:
            target = NotePath(f"{ARCHIVE_FOLDER}{note.path}")
            shown = last_active(note) if expires is not None else here_since(note)
            found.append(Retirement(note.path, target, shown, reason))
    return found, warnings


def is_too_much(count: int, notes: int) -> bool:
    """Tell whether so many of the notes are more than should retire at once."""
    return count > notes * MOST_SHARE


def unused(notes: Iterable[IndexedNote], used: Mapping[NotePath, NoteUse], today: date, days: int) -> Sequence[NoteUse]:
    """Return the notes that are older than `days` and were not retrieved for as long, the oldest first.

    Personal and pinned notes are there for every context, and do not count as unused.
    """
    found = []
    for note in notes:
        if _is_for_good(note) or _days_since(counted_from(note), today) <= days:
            continue
        use = used.get(note.path, NoteUse(note.path))
        if not use.last_retrieved or (today - date.fromisoformat(use.last_retrieved[:10])).days > days:
            found.append(NoteUse(note.path, use.retrieved, use.last_retrieved, last_active(note)))
    return sorted(found, key=lambda one: (one.last_active, one.path))


def _is_for_good(note: IndexedNote) -> bool:
    """Tell whether a note stays where it is: personal, pinned, or in the archive already."""
    return note.archived or note.pinned or note.tier is Tier.PERSONAL


def _days_since(day: str, today: date) -> int:
    return (today - date.fromisoformat(day)).days
