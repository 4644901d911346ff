"""Which notes are due to leave for archive/, and which are only old. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from memsync.model import IndexedNote, NotePath, NoteUse, Retirement, Tier
from memsync.notes.dates import expires_on
from memsync.notes.rules import ARCHIVE_FOLDER

MOST_SHARE = 0.1
"""Of the notes: more than that is not moved at once unless somebody insists."""


def due(notes: Iterable[IndexedNote], today: date, task_days: int) -> tuple[list[Retirement], list[str]]:
    """Return the notes that are due to retire, by path, and what of `expires` was not understood.

    `expires` decides where it stands, the age of `task_days` else, of task memory alone. Personal and pinned notes
    never retire. What cannot be understood keeps its note where it is.
    """
    found, warnings = [], []
    for note in notes:
        if note.archived or note.pinned or note.tier is Tier.PERSONAL:
            continue
        expires = note.front_matter.get("expires")
        if expires is None:
            age = age_days(note, today)
            reason = f"{note.tier}, {age} days old" if note.tier is Tier.TASK and age > task_days else ""
        else:
            day = expires_on(expires, _begun(note)) if isinstance(expires, str) else None
            if day is None:
                warnings.append(f"{note.path} stays: expires {expires!r} is not a date or a number of days like 30d")
            reason = f"expired {day}" if day is not None and day <= today else ""
        if reason:
            target = NotePath(f"{ARCHIVE_FOLDER}{note.path}")
            found.append(Retirement(note.path, target, note.last_active, reason))
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
        if note.archived or note.pinned or note.tier is Tier.PERSONAL or age_days(note, today) <= days:
            continue
        use = used.get(note.path, NoteUse(note.path))
        if not use.last_retrieved or (today - date.fromisoformat(use.last_retrieved[:10])).days > days:
            found.append(NoteUse(note.path, use.retrieved, use.last_retrieved, note.last_active))
    return sorted(found, key=lambda one: (one.last_active, one.path))


def age_days(note: IndexedNote, today: date) -> int:
    """Return for how many days nothing has happened in a note."""
    return (today - date.fromisoformat(note.last_active)).days


def _begun(note: IndexedNote) -> str:
    """Return the day that a number of days counts from: `created`, else that of the note's last activity."""
    created = note.front_matter.get("created")
    return note.date if created and note.date and not note.front_matter.get("updated") else note.last_active
