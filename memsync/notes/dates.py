"""Parse dates and times as notes and people write them; tell when a note was begun and last active. Pure."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

from memsync.errors import UsageError
from memsync.model.query import IndexedNote
from memsync.model.vocabulary import Kind, Tier

_DATE = re.compile(r"([0-9]{4})([-_.]?)([0-9]{2})\2([0-9]{2})(?![0-9])")
_DAYS = re.compile(r"(\d{1,5}) ?d")
_TIME = r"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?![\d:])"
_LEADING_TIME = re.compile(r"\s*(?:\*\*|__|\[|\()?" + _TIME)


def split_date(name: str) -> tuple[str, str]:
    """Return the date at the start of a file name as ISO text, or an empty string, and the rest of the name.

    It may be written as 2026-11-21, 2026_11_21, 2026.11.21 or 20261121; 2026-02-30 is not a date.
    """
    match = _DATE.match(name)
    if match is None:
        return "", name
    try:
        return date(int(match[1]), int(match[3]), int(match[4])).isoformat(), name[match.end() :]
    except ValueError:
        return "", name


def leading_time(text: str) -> str:
    """Return the time of day at the start of `text` as `HH:MM` or `HH:MM:SS`, or an empty string."""
    match = _LEADING_TIME.match(text)
    if match is None:
        return ""
    clock = f"{int(match['hour']):02d}:{match['minute']}"
    return f"{clock}:{match['second']}" if match["second"] else clock


def expires_at(text: str, since: str) -> datetime | None:
    """Return the local time at which a note expires: a date or moment, or `30d` counted from the day `since`.

    A day begins at midnight. Returns None if the text is neither or the day does not exist.
    """
    days = _DAYS.fullmatch(text.strip())
    try:
        if days is not None:
            return (datetime.fromisoformat(since[:10]) + timedelta(days=int(days.group(1)))).astimezone()
        moment = parse_moment(text)
        return datetime.fromisoformat(moment).astimezone() if moment else None
    except (OverflowError, ValueError):  # beyond the year 9999, in some zone at least
        return None


def parse_moment(text: str) -> str | None:
    """Return a date, `YYYY-MM-DD HH:MM[:SS]` or ISO 8601 moment as ISO text, or None if it is none of them.

    Keeps a time zone, but adds none.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text.strip()):
        return text.strip()
    return moment.isoformat(timespec="seconds" if moment.second else "minutes")


_ISO = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?)?)?")
_ISO_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_WEEKDAY = re.compile(r"(?P<last>last\s+)?(?P<day>(?:mon|tues|wednes|thurs|fri|satur|sun)day)", re.IGNORECASE)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_AGO = re.compile(r"(?:(?P<count>\d{1,4})|an?|one)\s*(?P<unit>minute|hour|day|week|month|year)s?\s+ago", re.IGNORECASE)
_SHORT = re.compile(r"(?P<count>\d{1,4})(?P<unit>[dwmy])", re.IGNORECASE)
_LAST = re.compile(r"last\s+(?P<unit>week|month|year)", re.IGNORECASE)
_UNIT_DAYS = {"w": 7, "week": 7, "m": 30.44, "month": 30.44, "y": 365.25, "year": 365.25}


def parse_when(text: str, now: datetime) -> str:
    """Return a date filter's value as ISO text, as precise as the input. Raises UsageError with examples."""
    value = " ".join(text.split())
    day = _day(value, text, now)
    if day is not None:
        return day.isoformat()
    if _ISO.fullmatch(value):
        return _checked_iso(value, text)
    if value.lower() == "now":
        return now.isoformat(timespec="minutes")
    if (age := _age(value)) is not None:
        return _before(now, *age)
    raise UsageError(
        f"{text!r} is not a date", hint='Write 2026-11-21, 2026-11, yesterday, 3d, "2 weeks ago" or "last month".'
    )


def end_of(moment: str, *, before: bool = False) -> datetime:
    """Return the last second of the year, month, day, minute or second that `parse_when` returned.

    With `before`, return the last second before it. Times are local.
    """
    first = datetime.fromisoformat(moment + "0000-01-01"[len(moment) : 10] if len(moment) < 10 else moment)
    if before:
        return first - timedelta(seconds=1)
    if len(moment) < 10:
        later = first.replace(day=28) + timedelta(days=4) if len(moment) == 7 else first.replace(month=12, day=31)
        first = later - timedelta(days=later.day) if len(moment) == 7 else later
    lengths = {16: timedelta(minutes=1), 19: timedelta(seconds=1)}
    return first + lengths.get(len(moment), timedelta(days=1)) - timedelta(seconds=1)


def parse_day(text: str, now: datetime) -> date:
    """Return the day that a text names. Raises UsageError with examples, also for a week, month, year or time."""
    day = _day(" ".join(text.split()), text, now)
    if day is None:
        hint = 'Write 2026-11-21, today, yesterday, monday, 3d, "3 days ago" or "last monday".'
        raise UsageError(f"{text!r} is not a day", hint=hint)
    return day


def _day(value: str, text: str, now: datetime) -> date | None:
    """Return the day that a value names, or None for anything else. Raises UsageError if the day does not exist."""
    if _ISO_DAY.fullmatch(value):
        return date.fromisoformat(_checked_iso(value, text))
    lowered = value.lower()
    if lowered in ("today", "yesterday"):
        return (now - timedelta(days=lowered == "yesterday")).date()
    if (age := _age(value)) is not None and age[1] in ("d", "day"):
        return (now - timedelta(days=age[0])).date()
    if match := _WEEKDAY.fullmatch(value):
        days_back = (now.weekday() - _WEEKDAYS.index(match["day"].lower())) % 7
        return (now - timedelta(days=days_back or 7 * bool(match["last"]))).date()
    return None


def _age(value: str) -> tuple[int, str] | None:
    """Return the count and the unit of an age such as `3d`, `2 weeks ago` or `last month`; None for anything else."""
    match = _AGO.fullmatch(value) or _SHORT.fullmatch(value) or _LAST.fullmatch(value)
    return (int(match.groupdict().get("count") or 1), match["unit"].lower()) if match else None


def _checked_iso(value: str, text: str) -> str:
    full = value + "0000-01-01"[len(value) : 10] if len(value) < 10 else value
    try:
        datetime.fromisoformat(full)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a date: {error}", hint="Write it as 2026-11-21.") from error
    return value.replace(" ", "T")


def _before(now: datetime, count: int, unit: str) -> str:
    try:
        if unit in ("minute", "hour"):
            moment = now - timedelta(**{f"{unit}s": count})
            return moment.isoformat(timespec="minutes")
        return (now - timedelta(days=count * _UNIT_DAYS[unit])).date().isoformat()
    except OverflowError as error:
        raise UsageError(f"{count} {unit}s ago is before all dates", hint="Write a later date.") from error


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
    """Return the ISO day from which a note's age counts: its last activity, but not a day before it was imported."""
    return max(last_active(note), _moment(note, "imported")[:10])


def here_since(note: IndexedNote) -> str:
    """Return the ISO day from which a note's age counts when deciding to archive it.

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
    """Return the number of days from an ISO date until today."""
    return (today - date.fromisoformat(day)).days
