"""Dates and times as notes write them, as ISO 8601 text."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

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
