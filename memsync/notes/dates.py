"""Dates and times, as notes and as people write them. Pure."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

from memsync.errors import UsageError

_DATE = re.compile(r"([0-9]{4})([-_.]?)([0-9]{2})\2([0-9]{2})(?![0-9])")
_DAYS = re.compile(r"(\d{1,5}) ?d")
_TIME = r"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?![\d:])"
_LEADING_TIME = re.compile(r"\s*(?:\*\*|__|\[|\()?" + _TIME)


def date_in_name(name: str) -> str:
    """Return the date that a file name begins with as ISO text, or an empty string; 2026-02-30 is no date.

    It may be written as 2026-11-21, 2026_11_21, 2026.11.21 or 20261121.
    """
    return split_date(name)[0]


def split_date(name: str) -> tuple[str, str]:
    """Return the date that a file name begins with, as `date_in_name` does, and the rest of the name."""
    found = _DATE.match(name)
    if found is None:
        return "", name
    try:
        return date(int(found[1]), int(found[3]), int(found[4])).isoformat(), name[found.end() :]
    except ValueError:
        return "", name


def leading_time(text: str) -> str:
    """Return the time of day that `text` begins with as `HH:MM` or `HH:MM:SS`, or an empty string."""
    found = _LEADING_TIME.match(text)
    if found is None:
        return ""
    clock = f"{int(found['hour']):02d}:{found['minute']}"
    return f"{clock}:{found['second']}" if found["second"] else clock


def expires_at(text: str, since: str) -> datetime | None:
    """Return from when on something is out of date: a date or moment, or `30d` after the day `since`, as local time.

    A day begins at midnight. None when the text is neither, or names a day that no calendar has.
    """
    found = _DAYS.fullmatch(text.strip())
    try:
        if found is not None:
            return (datetime.fromisoformat(since[:10]) + timedelta(days=int(found.group(1)))).astimezone()
        moment = parse_moment(text)
        return datetime.fromisoformat(moment).astimezone() if moment else None
    except (OverflowError, ValueError):  # beyond the year 9999, in some zone at least
        return None


def parse_moment(text: str) -> str | None:
    """Return a date, `YYYY-MM-DD HH:MM[:SS]` or ISO 8601 moment as ISO text, or None if it is none of them.

    A zone that was written is kept; none is added.
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
_DAYS_AGO = re.compile(r"(?P<count>\d{1,4})d|(?:(?P<of_many>\d{1,4})|an?|one)\s*days?\s+ago", re.IGNORECASE)
_LAST_WEEKDAY = re.compile(r"last\s+(?P<day>(?:mon|tues|wednes|thurs|fri|satur|sun)day)", re.IGNORECASE)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_AGO = re.compile(r"(?:(?P<count>\d{1,4})|an?|one)\s*(?P<unit>minute|hour|day|week|month|year)s?\s+ago", re.IGNORECASE)
_SHORT = re.compile(r"(?P<count>\d{1,4})(?P<unit>[dwmy])", re.IGNORECASE)
_LAST = re.compile(r"last\s+(?P<unit>week|month|year)", re.IGNORECASE)
_UNIT_DAYS = {"d": 1, "day": 1, "w": 7, "week": 7, "m": 30.44, "month": 30.44, "y": 365.25, "year": 365.25}


def parse_when(text: str, now: datetime) -> str:
    """Return a date filter's value as ISO text, as exact as it was given. Raises UsageError with examples."""
    value = " ".join(text.split())
    day = _day(value, text, now)
    if day is not None:
        return day.isoformat()
    if _ISO.fullmatch(value):
        return _checked_iso(value, text)
    if value.lower() == "now":
        return now.isoformat(timespec="minutes")
    found = _AGO.fullmatch(value) or _SHORT.fullmatch(value)
    if found:
        return _before(now, int(found["count"] or 1), found["unit"].lower())
    if found := _LAST.fullmatch(value):
        return _before(now, 1, found["unit"].lower())
    raise UsageError(
        f"{text!r} is not a date", hint='Write 2026-11-21, 2026-11, yesterday, 3d, "2 weeks ago" or "last month".'
    )


def parse_day(text: str, now: datetime) -> date:
    """Return the day that a text names; no week, month, year or time. Raises UsageError with examples."""
    day = _day(" ".join(text.split()), text, now)
    if day is None:
        hint = 'Write 2026-11-21, today, yesterday, 3d, "3 days ago" or "last monday".'
        raise UsageError(f"{text!r} is not a day", hint=hint)
    return day


def _day(value: str, text: str, now: datetime) -> date | None:
    """Return the day that a value names, None when it names something else. Raises UsageError for no day of a month."""
    if _ISO_DAY.fullmatch(value):
        return date.fromisoformat(_checked_iso(value, text))
    lowered = value.lower()
    if lowered in ("today", "yesterday"):
        return (now - timedelta(days=lowered == "yesterday")).date()
    if found := _DAYS_AGO.fullmatch(value):
        return (now - timedelta(days=int(found["count"] or found["of_many"] or 1))).date()
    if found := _LAST_WEEKDAY.fullmatch(value):
        back = (now.weekday() - _WEEKDAYS.index(found["day"].lower())) % 7
        return (now - timedelta(days=back or 7)).date()
    return None


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
