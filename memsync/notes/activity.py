"""When something last happened in a note, and when it was begun. Pure."""

from __future__ import annotations

from datetime import date, datetime

from memsync.model.query import IndexedNote
from memsync.model.vocabulary import Kind, Tier
from memsync.notes.dates import parse_moment


def last_active(note: IndexedNote) -> str:
    """Return the day on which something last happened in a note (ISO 8601).

    Of a daily log its name tells, of a thread its last message, of anything else `updated` or its last change,
    whichever is later: a note that is worked on is not old because its head was forgotten. The last change is that of
    the commit that gave the note its content, else the file's mtime.
    """
    changed = datetime.fromtimestamp(note.changed_ns // 10**9).date().isoformat()
    if note.kind is Kind.DAILY:
        told = max(note.last_time, note.date)
    elif note.kind is Kind.THREAD:
        told = note.last_time
    else:
        told = max(_told(note, "updated"), changed)
    return told[:10] or changed


def counted_from(note: IndexedNote) -> str:
    """Return the day from which a note's age counts (ISO 8601).

    That of its last activity; of an imported conversation the day of the import, however old its messages are.
    """
    return max(last_active(note), _told(note, "imported")[:10])


def here_since(note: IndexedNote) -> str:
    """Return the day from which a note's age counts for retiring it: never before its file came here (ISO 8601).

    A note that was cloned or pulled today is new here, even if its commit is old: nobody here has seen it yet.
    """
    return counted_from(note._replace(changed_ns=max(note.changed_ns, note.mtime_ns)))


def begun(note: IndexedNote) -> str:
    """Return the day that a number of days counts from: `created`, else that of the last activity (ISO 8601)."""
    return _told(note, "created")[:10] or last_active(note)


def _told(note: IndexedNote, key: str) -> str:
    value = note.front_matter.get(key)
    return (parse_moment(value) if isinstance(value, str) else None) or ""


def is_kept_for_good(note: IndexedNote) -> bool:
    """Tell whether a note stays where it is: personal, pinned, or in the archive already."""
    return note.archived or note.pinned or note.tier is Tier.PERSONAL


def days_since(day: str, today: date) -> int:
    """Return how many days ago an ISO date was."""
    return (today - date.fromisoformat(day)).days
