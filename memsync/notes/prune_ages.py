"""Tell which notes are due for archive/, and which are no longer used. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime

from memsync.model.query import IndexedNote
from memsync.model.text import count, quoted
from memsync.model.upkeep import NoteUse, Retirement
from memsync.model.vocabulary import NotePath, Tier
from memsync.notes.dates import begun, counted_from, days_since, expires_at, here_since, is_kept_for_good, last_active
from memsync.notes.rules import ARCHIVE_FOLDER, describes_folder


def due(notes: Iterable[IndexedNote], now: datetime, task_days: int) -> tuple[list[Retirement], list[str]]:
    """Return the notes that are due at `now`, by path, and a warning for each `expires` that cannot be parsed.

    A note with `expires` is due at that time. Task memory without it is due when it is older than `task_days`; a note
    that a clone or pull brought ages from its arrival. Never due: personal and pinned notes, a README.md that
    describes its folder, and a note whose `expires` cannot be parsed.
    """
    retirements, warnings = [], []
    for note in notes:
        if is_kept_for_good(note) or describes_folder(note.path):
            continue
        expires = note.front_matter.get("expires")
        if expires is None:
            age = days_since(here_since(note), now.date())
            reason = f"{note.tier}, {count(age, 'day')} old" if note.tier is Tier.TASK and age > task_days else ""
        else:
            moment = expires_at(expires, begun(note)) if isinstance(expires, str) else None
            if moment is None:
                unclear = quoted(str(expires))
                warnings.append(f"{note.path} is kept: cannot parse expires {unclear}: write 2026-11-21 or 30d")
            reason = f"expired {moment:%Y-%m-%d}" if moment is not None and moment <= now else ""
        if reason:
            target = NotePath(f"{ARCHIVE_FOLDER}{note.path}")
            shown = last_active(note) if expires is not None else here_since(note)
            retirements.append(Retirement(note.path, target, shown, reason))
    return retirements, warnings


def unused(notes: Iterable[IndexedNote], used: Mapping[NotePath, NoteUse], today: date, days: int) -> Sequence[NoteUse]:
    """Return the notes that are older than `days` and were not retrieved for that long, oldest first.

    Personal and pinned notes never count as unused: every context includes them.
    """
    unused_notes = []
    for note in notes:
        if is_kept_for_good(note) or days_since(counted_from(note), today) <= days:
            continue
        use = used.get(note.path, NoteUse(note.path))
        if not use.last_retrieved or (today - date.fromisoformat(use.last_retrieved[:10])).days > days:
            unused_notes.append(NoteUse(note.path, use.retrieved, use.last_retrieved, last_active(note)))
    return sorted(unused_notes, key=lambda use: (use.last_active, use.path))
