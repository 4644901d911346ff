"""Tell when a note was begun and when it was last active. Pure."""

from __future__ import annotations

from datetime import date, datetime

from memsync.model.query import IndexedNote
from memsync.model.vocabulary import Kind, Tier
from memsync.notes.dates import parse_moment


def last_active(note: IndexedNote) -> str:
    """Return the day of a note's last activity (ISO 8601).

    For a daily log this is its date or latest entry, for a thread its last message. For any other note it is the later
    of `updated` and the last change: people forget to set `updated`. The last change is the commit that gave the note
    its content, or otherwise the file's mtime.
    """
    changed = datetime.fromtimestamp(note.changed_ns // 10**9).date().isoformat()
    if note.kind is Kind.DAILY:
        active = max(note.last_time, note.date)
    elif note.kind is Kind.THREAD:
        active = note.last_time
    else:
        active = max(_moment(note, "updated"), changed)
    return active[:10] or changed


def counted_from(note: IndexedNote) -> str:
    """Return the day from which a note's age counts (ISO 8601).

    This is the day of its last activity, but for an imported conversation not before the import.
    """
    return max(last_active(note), _moment(note, "imported")[:10])


def here_since(note: IndexedNote) -> str:
    """Return the day from which a note's age counts when deciding to archive it (ISO 8601).

    The file's mtime counts as a change: a note that was cloned or pulled today is new here even if its commit is old.
    """
    return counted_from(note._replace(changed_ns=max(note.changed_ns, note.mtime_ns)))


def begun(note: IndexedNote) -> str:
    """Return the day from which `expires: 30d` counts: `created`, or otherwise the last activity (ISO 8601)."""
    return _moment(note, "created")[:10] or last_active(note)


def _moment(note: IndexedNote, key: str) -> str:
    value = note.front_matter.get(key)
    return (parse_moment(value) if isinstance(value, str) else None) or ""


def is_kept_for_good(note: IndexedNote) -> bool:
    """Tell whether a note must not be archived: it is personal, pinned or already archived."""
    return note.archived or note.pinned or note.tier is Tier.PERSONAL


def days_since(day: str, today: date) -> int:
    """Return how many days ago an ISO date was."""
    return (today - date.fromisoformat(day)).days
