"""Parse dates and times as notes and people write them; tell when a note was begun and last active. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import PurePosixPath

from memsync.errors import UsageError
from memsync.model.query import IndexedNote
from memsync.model.vocabulary import JsonValue, Kind, Tier


def numbered(first: int, *lists: str) -> dict[str, int]:
    """Return the number of each word in lists of words, counted from `first`."""
    return {name: number for names in lists for number, name in enumerate(names.split(), first)}


MONTH_NUMBERS = numbered(
    1,
    "january february march april may june july august september october november december",
    "januar februar märz april mai juni juli august september oktober november dezember",
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "jan feb mär apr mai jun jul aug sept okt nov dez",
)
MAX_DATE_CHARS = 300
"""A longer name or value is not searched for dates after so many characters."""

_MONTH = rf"(?P<month>{'|'.join(sorted(MONTH_NUMBERS, key=len, reverse=True))})"
_DAY = r"(?P<day>\d\d?)(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:1[6-9]|20)\d\d)"
# Not within a number, a telephone number or an ISBN, and no version (v2021.05.06).
_ALONE = r"(?<!\d)(?<!\d[-_.])(?<!v)"
_CLOCK = (
    r"(?:[ T_,-]|\bat\b)*(?P<hour>[01]\d|2[0-3]|\d(?=:))(?P<point>[:.h-]?)(?P<minute>[0-5]\d)"
    r"(?:(?P=point)(?P<second>[0-5]\d))?(?:\.\d+)?(?![-.]?\d) ?(?P<half>[ap]\.?m\b)?"
    r" ?(?P<zone>(?:GMT|UTC|Z)? ?(?:[+-]\d\d:?\d\d|(?<=[CTZ])\b))?"
)
# 2021-05-06, 2021_5_6, 2021/05/06, 2021.05.06, 20210506; but neither the versions 2021.5.6, 2021.05.06.1, 2021.05.06rc1
# nor the standard EN 1992-1-1.
_NUMBERS = (
    rf"{_ALONE}{_YEAR}(?P<rest>([-_/])(?:\d\d\3\d\d|(?<=20\d\d.)\d\d?\3\d\d?)(?!\d)|年\d\d?月\d\d?日"
    r"|\.\d\d\.\d\d(?!\.?\d|[-.]?(?:rc|dev|alpha|beta|post)\.?\d)|(?<![a-z]\d{4})\d{4})"
)
_IN_BETWEEN = r"(?: \d\d:\d\d:\d\d(?: [A-Z]{1,5})?)?"  # as `date` prints it: Fri Jul  5 10:02:00 CEST 2024
_GAP = r"[\s,._/-]{0,3}"
_WORDS = [
    rf"(?<![^\W_]){_GAP.join(order)}(?!\d)"
    for order in ((_DAY, rf"(?:of )?{_MONTH}", _YEAR), (_MONTH, _DAY + _IN_BETWEEN, _YEAR), (_YEAR, _MONTH, _DAY))
]
# 14.07.2024 and 12/25/2023, where the day cannot be the month.
_PLAIN_DAY, _PLAIN_MONTH = r"(?P<day>1[3-9]|[23]\d)", r"(?P<month>\d\d?)"
_YEAR_LAST = [
    rf"{_ALONE}{first}(?P<sep>[./-]){second}(?P=sep){_YEAR}(?!\.?\d)"
    for first, second in ((_PLAIN_DAY, _PLAIN_MONTH), (_PLAIN_MONTH, _PLAIN_DAY))
]
# Strings, because most commands need none of them: `re` compiles each at its first use.
_DAY_FORMS = [f"{form}(?:{_CLOCK})?(?!\\d)" for form in (_NUMBERS, *_WORDS, *_YEAR_LAST)]
_PERIOD_FORMS = [
    rf"{_ALONE}{_YEAR}(?:-?W(?P<week>\d\d)(?:-[1-7])?|[-_/](?P<rest>\d\d))(?![-_./]?\d)",
    rf"(?<![^\W_])(?<!\d[\s,._/-]){_MONTH}{_GAP}{_YEAR}(?!\d)",
]
_KEYS = r"(?:last|date|time|of|zuletzt)*(?:{})(?:date|time|stamp|at|on|am)*|{}"
CHANGED = _KEYS.format(
    "updated|modified|edited|changed|geändert|bearbeitet|aktualisiert",
    "lastmod|last(?:update|edit|change)|(?:update|modification)(?:date|time)|mtime",
)
CREATED = _KEYS.format("created|creation|added|erstellt|angelegt", "ctime|create(?:date|time)")
PUBLISHED = _KEYS.format(
    "published|posted|veröffentlicht", "date|datum|fecha|datetime|timestamp|(?:publish|publication|pub|post)date"
)
"""The keys of a change, of the creation and of other dates, in lower case without all that is no letter or digit."""
_DAYS = re.compile(r"(\d{1,5}) ?d")
_TIME = r"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?![\d:])"
_LEADING_TIME = re.compile(r"\s*(?:\*\*|__|\[|\()?" + _TIME)


def split_date(name: str) -> tuple[str, str]:
    """Return the date in digits at the start of a file name as ISO text, or an empty string, and the rest of the name.

    It may be written as 2026-11-21, 2026_11_21, 2026.11.21 or 20261121; 2026-02-30 is not a date.
    """
    match = re.match(_DAY_FORMS[0], name, re.IGNORECASE)
    day = _moment_of(match)[:10] if match else ""
    return (day, name[match.end("rest") :]) if match and day else ("", name)


def dates_in_path(path: str) -> tuple[str, str]:
    """Return two dates that a file name says as ISO text: its first day, and the beginning of its first week or month.

    The day has its time of day if that follows. `2021/05/06.md` is a day, too. What the name does not say is empty.
    """
    *folders, stem = PurePosixPath(path).with_suffix("").parts
    day = "/".join((*folders[-2:], stem)) if re.fullmatch(r"\d\d", stem) else stem
    return _first(_DAY_FORMS, day), _first(_PERIOD_FORMS, stem)


def read_date(value: JsonValue) -> str:
    """Return the date or moment that a value of front matter says, as ISO text; empty if it says none for certain.

    `07/05/2024` may be a day of May or of July.
    """
    while isinstance(value, list) and value:  # [[2024-07-05]] is a list to YAML
        value = value[0]
    text = str(value).strip() if isinstance(value, (str, int)) else ""
    if re.fullmatch(r"1\d{9}(?:\d{3})?", text):  # Dendron's seconds or milliseconds since 1970
        return datetime.fromtimestamp(int(text[:10]), UTC).isoformat(timespec="minutes")
    return (parse_moment(text) if ":" in text else "") or _first((*_DAY_FORMS, *_PERIOD_FORMS), text)


def _first(forms: Iterable[str], text: str) -> str:
    matches = (match for form in forms for match in re.finditer(form, text[:MAX_DATE_CHARS], re.IGNORECASE))
    return next(filter(None, map(_moment_of, matches)), "")


def _moment_of(match: re.Match[str]) -> str:
    """Return what a match of a day, week or month means as ISO text; empty if there is no such day or time."""
    found = match.groupdict()
    name = (found.get("month") or "").lower()
    month = name if name.isdecimal() else MONTH_NUMBERS.get(name, 0)
    month_and_day = re.findall(r"\d\d?", found.get("rest") or "") or [month, found.get("day") or 1]
    with suppress(ValueError):
        year, month, dom = map(int, (found["year"], *month_and_day, 1)[:3])
        day = date.fromisocalendar(year, int(found["week"]), 1) if found.get("week") else date(year, month, dom)
        if not found.get("hour"):
            return day.isoformat()
        hour = int(found["hour"]) % 12 + 12 * (found["half"][0] in "pP") if found["half"] else int(found["hour"])
        clock = f"{hour:02d}:{found['minute']}" + (f":{found['second']}" if found["second"] else "")
        zone = (found["zone"] or "").strip() and (re.sub(r"[^\d:+-]", "", found["zone"]) or "+00:00")
        return parse_moment(f"{day}T{clock}{zone}") or ""
    return ""


def is_date_key(key: str, keys: str = f"{CHANGED}|{CREATED}|{PUBLISHED}") -> bool:
    """Tell whether a key of front matter has a date of the note, in any spelling."""
    return re.fullmatch(keys, "".join(filter(str.isalnum, key.casefold()))) is not None


def dated_by(values: Mapping[str, JsonValue], keys: str) -> str:
    """Return the first date that front matter has under some keys (CHANGED, …) as ISO text; empty without any."""
    return next(filter(None, (read_date(value) for key, value in values.items() if is_date_key(key, keys))), "")


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
    if _ISO_DAY.fullmatch(text.strip()):
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
    of the date under `updated` (CHANGED) and the last change: people forget to set `updated`. The last change is the
    commit that gave the note its content, or otherwise the file's mtime.
    """
    changed = datetime.fromtimestamp(note.changed_ns // 10**9).date().isoformat()
    if note.kind is Kind.DAILY:
        active = max(note.last_time, note.date)
    elif note.kind is Kind.THREAD:
        active = note.last_time
    else:
        active = max(dated_by(note.front_matter, CHANGED), changed)
    return active[:10] or changed


def counted_from(note: IndexedNote) -> str:
    """Return the ISO day from which a note's age counts: its last activity, but not a day before it was imported."""
    return max(last_active(note), read_date(note.front_matter.get("imported"))[:10])


def here_since(note: IndexedNote) -> str:
    """Return the ISO day from which a note's age counts when deciding to archive it.

    The file's mtime counts as a change: a note that was cloned or pulled today is new here even if its commit is old.
    """
    return counted_from(note._replace(changed_ns=max(note.changed_ns, note.mtime_ns)))


def begun(note: IndexedNote) -> str:
    """Return the day from which `expires: 30d` counts: `created`, or otherwise the last activity (ISO 8601)."""
    return dated_by(note.front_matter, CREATED)[:10] or last_active(note)


def is_kept_for_good(note: IndexedNote) -> bool:
    """Tell whether a note must not be archived: it is personal, pinned or already archived."""
    return note.archived or note.pinned or note.tier is Tier.PERSONAL


def days_since(day: str, today: date) -> int:
    """Return the number of days from an ISO date until today."""
    return (today - date.fromisoformat(day)).days
