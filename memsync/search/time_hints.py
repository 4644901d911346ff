"""Find the times that a question names: "last week", "in March 2024", "before July 10", "letzte Woche".

They are hints: entries of these dates get a small bonus, and no entry is left out, as a filter (`after:`) would do. A
question that asks for nothing else ("what happened yesterday") is answered with the entries dated then, if there are
any. It understands English and German; a time that it does not understand only misses the bonus. Pure.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, timedelta
from functools import cache
from typing import NamedTuple

from msgspec.structs import replace

from memsync.model.query import Query, TimeHint
from memsync.model.words import PLAIN_WORD
from memsync.notes.dates import MONTH_NUMBERS, numbered
from memsync.search.stop_words import STOP_WORDS

MAX_CHARS = 1_000
"""How many characters of a question are searched for times."""
MIN_WORDS = 3
"""Minimum words of a question without its times; if fewer are left, the times stay in its text."""


_ALSO_VERBS = frozenset({"may", "march", "mar"})
_WEEKDAY_NUMBERS = numbered(
    0,
    "monday tuesday wednesday thursday friday saturday sunday",
    "montag dienstag mittwoch donnerstag freitag samstag sonntag",
)
_COUNTS = {
    **numbered(1, "one two three four five six seven eight nine ten eleven twelve"),
    **numbered(1, "einem zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"),
    "a": 1,
    "an": 1,
    "einer": 1,
    "a couple of": 2,
}
_FEW = (2, 6)
"""The range of numbers that `a few` and `ein paar` mean."""
_UNITS = {"tag": "day", "wochenende": "weekend", "woche": "week", "monat": "month", "jahr": "year"}
_DAYS = {"day": 1, "weekend": 2, "week": 7, "month": 30.44, "year": 365.25}
_DISTANCES = {
    "today": 0, "tonight": 0, "this morning": 0, "this afternoon": 0, "this evening": 0, "heute": 0,
    "yesterday": -1, "last night": -1, "gestern": -1, "the day before yesterday": -2, "vorgestern": -2,
    "tomorrow": 1, "übermorgen": 2,
}  # fmt: skip


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_MONTH = rf"(?P<month>{_any(MONTH_NUMBERS)})\b\.?"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th|\.)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)(?![\w/]|[.:-]\w)"
# Not years: "2000 pounds" is an amount, "RFC 2005" a name.
_COUNTED = (
    r"(?! (?:pounds|euros?|dollars|people|words|lines|pages|times|years|days|hours|steps|calories|[kmg]b|[km]g|k?m|ms"
    r"|jahre|tage|stunden|zeilen|seiten|leute)\b)"
)
_NUMBER_OF = re.compile(
    r"\b(?:rfc|port|version|room|line|page|issue|number|no|nr|zimmer|zeile|seite)\.? $", re.IGNORECASE
)
_UNIT = r"(?P<unit>day|week|weekend|month|year|tag|woche|wochenende|monat|jahr)(?:s|e|en|n)?\b"
_COUNT = rf"(?:(?P<count>\d{{1,3}}|{_any(_COUNTS)})|(?P<few>(?:a )?few|ein paar|einigen))"
_WHICH = (
    r"(?:(?P<last>last|previous|letzte[mnrs]?|vorige[mnrs]?|vergangene[mnrs]?)"
    r"|(?P<this>this|diese[mnrs]?)|(?P<next>next|nächste[mnrs]?|kommende[mnrs]?))"
)
_ROLLING = r"(?:the )?(?:last|past|previous|letzten|vergangenen)"
_IN = (
    r"(?:in|during|of|since|before|after|until|till|by|early|late|mid|between|from|to"
    r"|im|seit|vor|nach|bis|anfang|mitte|ende|ab|zwischen|von)"
)
_ARTICLE = r"(?: (?:the|early|late|mid|dem|der|den|end of|anfang|mitte|ende|zum|zur))*"
_UP_TO = re.compile(rf"\b(?:before|until|till|by|prior to|bis|vor){_ARTICLE} ?$", re.IGNORECASE)
_FROM = re.compile(rf"\b(?:after|since|seit|nach|ab){_ARTICLE} ?$", re.IGNORECASE)
_FIRST_OF_TWO = re.compile(r"\b(?:between|from|zwischen|von|vom) ?$", re.IGNORECASE)
_SECOND_OF_TWO = re.compile(r" ?(?:to|and|until|till|bis|bis zum|und|-|–) ?(?:the )?", re.IGNORECASE)
_AT = "on|in|at|by|of|from|during|am|im|vom|in den"
# re.IGNORECASE matches these characters as s, i and k, but str.lower does not map them to those.
_LETTERS = str.maketrans("ſıİ\u212a", "siik")
_MONTH_LENGTH = timedelta(days=31)
# A question that consists of these words, stop words and a time only asks what happened then.
_EMPTY = """
    happen happened happens happening doing done go going went gone new news note notes noted log logged logs entry
    entries write wrote written all anything everything something show list we us
    ich wir war waren ist gab geschah passiert passierte gemacht machte getan tat los neues notiert geschrieben alles
    was habe haben hat der die das den dem am im um und so
"""
_EMPTY_WORDS = STOP_WORDS | frozenset(_EMPTY.split())
_AT_TIME = re.compile(rf"\b(?:{_IN}|on|am|vom) (?:the )?$", re.IGNORECASE)
_OF = re.compile(r",? ?(?:of|in|im|des)? ?(?:the )?", re.IGNORECASE)
_LENGTHS_OF_YEARS = (timedelta(days=364), timedelta(days=365))
_ASKS_WHEN = re.compile(
    r"\b(?:when|how long|(?:what|which) (?:day|date|week|month|year|time)|wann|wie lange|seit wann)\b", re.IGNORECASE
)


class _Time(NamedTuple):
    """A time in a question: the position of its words, its first and last day.

    `has_year`: it is a date with its year. `lacks_year`: it is a date without one, and means the latest such date. All
    other times are relative to now, or a number that may be a year.
    """

    start: int
    end: int
    first: date
    last: date
    has_year: bool = False
    lacks_year: bool = False

    def in_year(self, year: int) -> _Time:
        """Return the same day or month of another year."""
        day = min(self.first.day, monthrange(year, self.first.month)[1])
        first = self.first.replace(year=year, day=day)
        return self._replace(first=first, last=first if self.first == self.last else _month_end(first))


def asks_when(text: str) -> bool:
    """Tell whether a question asks for a time."""
    return _ASKS_WHEN.search(text) is not None


def time_hints(text: str, today: date) -> tuple[TimeHint, ...]:
    """Return the times that a question names, in its order; most questions name none.

    If a question has a date with a year, its other times (`last week`) are ignored.
    """
    text = " ".join(text[:MAX_CHARS].split())
    letters = text.translate(_LETTERS)
    times = list(_joined(letters, sorted(_times(letters, today))))
    if any(time.has_year for time in times):
        times = [time for time in times if time.has_year]
    return tuple(_hint(text, time) for time in times)


def without_times(text: str, times: Iterable[TimeHint]) -> str:
    """Return a question without the days, weeks and months that it names, unless fewer than MIN_WORDS are left.

    This text is embedded, because the text of entries does not contain their dates. A year stays, because it is often
    part of a name.
    """
    left = " ".join(text.split())
    for time in times:
        if _is_short(time):
            words = re.escape(time.words)
            left = re.sub(rf"(?:\b(?:{_AT})(?: the)? )?{words},?", "", left, count=1, flags=re.IGNORECASE)
    left = " ".join(left.split())
    return left if len(PLAIN_WORD.findall(left)) >= MIN_WORDS else text


def asks_only_when(text: str, times: Sequence[TimeHint]) -> bool:
    """Tell whether a question only asks what happened at the times that it names.

    Never for a question without letters: a number alone is searched for as text.
    """
    if not times or not any(letter.isalpha() for letter in text):
        return False
    text = " ".join(text.split())
    for time in times:
        text = text.replace(time.words, " ", 1)
    return all(word in _EMPTY_WORDS for word in PLAIN_WORD.findall(text.lower()))


def of_its_times(query: Query) -> Query | None:
    """Return the query for all entries dated at the question's times; None if it also asks for something else."""
    filters = query.filters
    if query.phrases or filters.after or filters.before or not asks_only_when(query.text, query.times):
        return None
    after = min(time.after for time in query.times)
    before = max((time.before for time in query.times), key=lambda day: day or date.max.isoformat())
    return replace(query, text="", words=(), filters=replace(filters, after=after, before=before))


def weekdays_in(times: Iterable[TimeHint]) -> frozenset[str]:
    """Return the weekdays that were understood as dates; searching for the word would find every other Monday, too."""
    return frozenset(PLAIN_WORD.findall(" ".join(time.words for time in times).lower())) & _WEEKDAY_NUMBERS.keys()


def _is_short(time: TimeHint) -> bool:
    """Tell whether a time is at most a month long."""
    if not time.after or not time.before:
        return False
    return date.fromisoformat(time.before) - date.fromisoformat(time.after) < _MONTH_LENGTH


def _times(text: str, today: date) -> Iterator[_Time]:
    """Yield each time; the words that one rule has used are hidden from the next rules."""
    for rule, read in _rules():
        for match in rule.finditer(text):
            try:
                yield _widened(text, read(match, today))
            except (ValueError, OverflowError):  # not a time: 31 February, 9999 years ago, "the last day of the trip"
                continue
            text = text[: match.start()] + "\0" * (match.end() - match.start()) + text[match.end() :]


def _hint(text: str, time: _Time) -> TimeHint:
    words = text[time.start : time.end]
    after = "" if time.first == date.min else time.first.isoformat()
    return TimeHint(words, after, "" if time.last == date.max else time.last.isoformat())


def _joined(text: str, times: list[_Time]) -> Iterator[_Time]:
    """Yield the times, joining two that belong together: `from … to …`, `March last year`."""
    while times:
        time, *times = times
        both = _both(text, time, times[0]) if times else None
        yield both or time
        times = times[1:] if both else times


def _both(text: str, left: _Time, right: _Time) -> _Time | None:
    """Return the time that two neighbouring times name together; None if they are separate."""
    between = text[left.end : right.start]
    if date.min in (left.first, right.first) or date.max in (left.last, right.last):
        return None
    within, year = (right, left) if right.lacks_year else (left, right)
    if within.lacks_year and _OF.fullmatch(between) and year.last - year.first in _LENGTHS_OF_YEARS:
        return within.in_year(year.first.year)._replace(start=left.start, end=right.end)
    if not (_FIRST_OF_TWO.search(text[: left.start]) and _SECOND_OF_TWO.fullmatch(between)):
        return None
    first = left.first
    if left.lacks_year:
        first = left.in_year(right.first.year).first
        first = first if first <= right.first else left.in_year(right.first.year - 1).first
    return right._replace(start=left.start, first=min(first, right.first))


def _widened(text: str, time: _Time) -> _Time:
    """Return a time as changed by the words before it: `before …`, `since …`."""
    before = text[: time.start]
    if match := _UP_TO.search(before):
        return time._replace(start=match.start(), first=date.min)
    if match := _FROM.search(before):
        return time._replace(start=match.start(), last=date.max)
    return time


# ------------------------------------------------------------------------------------------ what each rule reads


def _of_day(match: re.Match[str], today: date) -> _Time:
    month, day = _month(match), int(match["day"])
    if match["year"]:
        moment = date(int(match["year"]), month, day)
    elif match["month"].lower() in _ALSO_VERBS and not _follows_preposition(match):  # a verb: "which 2 may I eat"
        raise ValueError
    else:
        moment = _latest_day(month, day, today)
    return _Time(match.start(), match.end(), moment, moment, bool(match["year"]), not match["year"])


def _latest_day(month: int, day: int, today: date) -> date:
    """Return the latest such day that is not in the future. Raises ValueError for a day that no year has."""
    for year in range(today.year, today.year - 9, -1):
        if day <= monthrange(year, month)[1] and date(year, month, day) <= today:
            return date(year, month, day)
    raise ValueError


def _follows_preposition(match: re.Match[str]) -> bool:
    return _AT_TIME.search(match.string[: match.start()]) is not None


def _of_month(match: re.Match[str], today: date) -> _Time:
    month = _month(match)
    first = date(int(match["year"] or today.year - (month > today.month)), month, 1)
    start = match.start() if match["year"] else match.start("month")
    return _Time(start, match.end(), first, _month_end(first), bool(match["year"]), not match["year"])


def _of_year(match: re.Match[str], today: date) -> _Time:
    year = int(match["year"])
    if year > today.year + 1 or _NUMBER_OF.search(match.string[: match.start()]):
        raise ValueError
    return _Time(match.start(), match.end(), date(year, 1, 1), date(year, 12, 31), _follows_preposition(match))


def _distant_day(match: re.Match[str], today: date) -> _Time:
    day = today + timedelta(days=_DISTANCES[" ".join(match.group().lower().split())])
    return _Time(match.start(), match.end(), day, day)


def _ago(match: re.Match[str], today: date) -> _Time:
    """Read `three weeks ago` as the seven days around that day."""
    half = timedelta(days=int(_DAYS[_unit(match)] / 2))
    shortest, longest = _distances(match)
    return _Time(match.start(), match.end(), today - longest - half, min(today - shortest + half, today))


def _lately(match: re.Match[str], today: date) -> _Time:
    _, longest = _distances(match)
    return _Time(match.start(), match.end(), today - longest, today)


def _of_calendar(match: re.Match[str], today: date) -> _Time:
    """Read `last week` as a calendar week, from Monday to Sunday; the same for months and years."""
    steps = -1 if match["last"] else 1 if match["next"] else 0
    unit = _unit(match)
    if unit == "day":  # it belongs to something else: "the last day of the trip"
        raise ValueError
    if unit == "year":
        first, last = date(today.year + steps, 1, 1), date(today.year + steps, 12, 31)
    elif unit == "month":
        months = today.year * 12 + today.month - 1 + steps
        first = date(months // 12, months % 12 + 1, 1)
        last = _month_end(first)
    else:
        monday = today - timedelta(days=today.weekday()) + timedelta(weeks=steps)
        first = monday + timedelta(days=5 * (unit == "weekend"))
        last = monday + timedelta(days=6)
    return _Time(match.start(), match.end(), first, last)


def _of_named_month(match: re.Match[str], today: date) -> _Time:
    """Read `last March` as the latest one that is over, `next March` as the first in the future."""
    number = _month(match)
    year = today.year - (number >= today.month) if match["last"] else today.year
    year += bool(match["next"]) and number <= today.month
    first = date(year, number, 1)
    return _Time(match.start(), match.end(), first, _month_end(first))


def _of_weekday(match: re.Match[str], today: date) -> _Time:
    """Read a weekday as the last one before today, `this` as the first from today on, `next` as one after today."""
    distance = (_WEEKDAY_NUMBERS[match["weekday"].lower()] - today.weekday()) % 7
    if match["next"]:
        distance = distance or 7
    day = today + timedelta(days=distance if match["this"] or match["next"] else distance - 7)
    start = match.start() if match["last"] or match["this"] or match["next"] else match.start("weekday")
    return _Time(start, match.end(), day, day)


def _month(match: re.Match[str]) -> int:
    name = match["month"].lower()
    return int(name) if name.isdigit() else MONTH_NUMBERS[name]


def _month_end(first: date) -> date:
    return first.replace(day=monthrange(first.year, first.month)[1])


def _unit(match: re.Match[str]) -> str:
    name = match["unit"].lower()
    return _UNITS.get(name, name)


def _distances(match: re.Match[str]) -> tuple[timedelta, timedelta]:
    """Return the shortest and the longest time that a count and a unit mean, such as `two weeks` or `a few days`."""
    name = (match["count"] or "one").lower()
    count = int(name) if name.isdigit() else _COUNTS[name]
    shortest, longest = _FEW if match["few"] else (count, count)
    days = _DAYS[_unit(match)]
    return timedelta(days=round(days * shortest)), timedelta(days=round(days * longest))


_Read = Callable[[re.Match[str], date], _Time]


@cache
def _rules() -> list[tuple[re.Pattern[str], _Read]]:
    """Return the rules, compiled at the first question: writing a note needs none of them."""
    return [(re.compile(rf"(?<![\w/.:#-]){pattern}", re.IGNORECASE), read) for pattern, read in _PATTERNS]


_PATTERNS: tuple[tuple[str, _Read], ...] = (
    (r"(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)-(?P<day>\d\d)(?![\w/-])", _of_day),
    (r"(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)(?![\w/-])", _of_month),
    (rf"(?P<day>[0-3]?\d)\. ?(?P<month>[01]?\d)\. ?{_YEAR}", _of_day),
    (rf"{_DAY}(?: of)? {_MONTH},?(?: {_YEAR})?", _of_day),
    (rf"{_MONTH} (?:the )?{_DAY}(?!\d)(?:,? ?{_YEAR})?", _of_day),
    (rf"{_MONTH},?(?: of)? {_YEAR}", _of_month),
    (rf"(?:{_any(_DISTANCES)})\b", _distant_day),
    (rf"{_COUNT} {_UNIT} ago\b", _ago),
    (rf"vor {_COUNT} {_UNIT}", _ago),
    (rf"{_ROLLING} {_COUNT} {_UNIT}", _lately),
    (rf"(?:the )?past(?: {_COUNT})? {_UNIT}", _lately),
    (rf"{_WHICH} {_UNIT}", _of_calendar),
    (rf"{_WHICH} {_MONTH}", _of_named_month),
    (rf"(?:on|am|and|und|{_IN}|{_WHICH}) (?P<weekday>{_any(_WEEKDAY_NUMBERS)})\b", _of_weekday),
    (rf"{_IN} {_MONTH}(?P<year>(?!))?", _of_month),
    (rf"{_YEAR}{_COUNTED}", _of_year),
)
