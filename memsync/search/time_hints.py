"""Times that a question names in passing: "last week", "in March 2024", "before the move in 2024", "letzte Woche".

They are hints: what is dated then gets a little more, and nothing is left out; only filters (`after:`) leave out. A
question that asks for nothing else ("what happened yesterday") is answered with what is dated then, if there is any.
English and German are read; a time that is not read costs no answer. Pure.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import cache
from typing import NamedTuple

from memsync.model.query import Query, TimeHint
from memsync.search.stop_words import STOP_WORDS

MOST_CHARS = 1_000
"""How much of a question is read for times."""
LEAST_WORDS = 3
"""What must be left of a question without its times."""
MOST_CHARS_BEFORE = 80
"""How far before a time the words are looked for that say "before" or "after"."""


def _numbered(first: int, *lists: str) -> dict[str, int]:
    """Return the number of each word in lists of words, counted from `first`."""
    return {name: number for names in lists for number, name in enumerate(names.split(), first)}


_MONTH_NUMBERS = _numbered(
    1,
    "january february march april may june july august september october november december",
    "januar februar märz april mai juni juli august september oktober november dezember",
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "jan feb mär apr mai jun jul aug sept okt nov dez",
)
_ALSO_VERBS = frozenset({"may", "march", "mar"})
_WEEKDAY_NUMBERS = _numbered(
    0,
    "monday tuesday wednesday thursday friday saturday sunday",
    "montag dienstag mittwoch donnerstag freitag samstag sonntag",
)
_COUNTS = {
    **_numbered(1, "one two three four five six seven eight nine ten eleven twelve"),
    **_numbered(1, "einem zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"),
    "a": 1,
    "an": 1,
    "einer": 1,
    "a couple of": 2,
}
_LEAST_FEW, _MOST_FEW = 2, 6
"""What `a few` and `ein paar` stand for."""
_UNITS = {"tag": "day", "wochenende": "weekend", "woche": "week", "monat": "month", "jahr": "year"}
_DAYS = {"day": 1, "weekend": 2, "week": 7, "month": 30.44, "year": 365.25}
_DISTANCES = {
    "today": 0, "tonight": 0, "this morning": 0, "this afternoon": 0, "this evening": 0, "heute": 0,
    "yesterday": -1, "last night": -1, "gestern": -1, "the day before yesterday": -2, "vorgestern": -2,
    "tomorrow": 1, "übermorgen": 2,
}  # fmt: skip


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_MONTH = rf"(?P<month>{_any(_MONTH_NUMBERS)})\b\.?"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th|\.)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)(?![\w/]|[.:-]\w)"
# "2000 pounds", "RFC 2005": as many, or called so.
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
_APART = re.compile(rf"(?:{_COUNT} )?\b{_UNIT} (?:(?P<before>before|vor)|after|nach){_ARTICLE} ?$", re.IGNORECASE)
_UP_TO = re.compile(rf"\b(?:before|until|till|by|prior to|bis|vor){_ARTICLE} ?$", re.IGNORECASE)
_FROM = re.compile(rf"\b(?:after|since|seit|nach|ab){_ARTICLE} ?$", re.IGNORECASE)
# "nach Berlin im März" is no time after something: in German an event has its article.
_EVENT = r"(?: [^\W\d_]+){1,4}?(?: in| im| of)? ?$"
_UP_TO_EVENT = re.compile(rf"\b(?:before|until|till|(?:bis zu|vor) d(?:em|er|en)){_EVENT}", re.IGNORECASE)
_FROM_EVENT = re.compile(rf"\b(?:after|since|(?:seit|nach) d(?:em|er|en)){_EVENT}", re.IGNORECASE)
_FIRST_OF_TWO = re.compile(r"\b(?:between|from|zwischen|von|vom) ?$", re.IGNORECASE)
_SECOND_OF_TWO = re.compile(r" ?(?:to|and|until|till|bis|bis zum|und|-|–) ?(?:the )?", re.IGNORECASE)
_AT = "on|in|at|by|of|from|during|am|im|vom|in den"
_WORD = re.compile(r"[^\W_]+")
# Upper case and lower case of these differ by more than case: a pattern takes them for s, i and k, str.lower does not.
_LETTERS = str.maketrans("ſıİ\u212a", "siik")
_MONTH_LENGTH = timedelta(days=31)
# Words that ask for nothing beside a time.
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
    """A time in a question: where its words stand, its first and last day.

    `is_exact` tells a day from weeks, months and years. `is_named` tells a date from what is counted from now; without
    its year (`has_year`) the latest one is meant. `may_be_number`: nothing says that the year is one.
    """

    start: int
    end: int
    first: date
    last: date
    is_exact: bool = False
    is_named: bool = False
    has_year: bool = False
    may_be_number: bool = False

    @property
    def lacks_year(self) -> bool:
        """Whether it is a date without its year."""
        return self.is_named and not self.has_year

    def in_year(self, year: int) -> _Time:
        """Return the same day or month of another year."""
        day = min(self.first.day, monthrange(year, self.first.month)[1])
        first = self.first.replace(year=year, day=day)
        return self._replace(first=first, last=first if self.is_exact else _month_end(first))


def asks_when(text: str) -> bool:
    """Tell whether a question asks for a time."""
    return _ASKS_WHEN.search(text) is not None


def time_hints(text: str, today: date) -> tuple[TimeHint, ...]:
    """Return the times that a question names, in its order; most have none.

    What is counted from now (`last week`) gives way to a date with a year in the same question.
    """
    text = " ".join(text[:MOST_CHARS].split())
    letters = text.translate(_LETTERS)
    if not _HINTS_AT_TIME.search(letters):
        return ()
    times = list(_joined(letters, sorted(_times(letters, today))))
    if any(one.has_year and not one.may_be_number for one in times):
        times = [one for one in times if one.has_year]
    return tuple(_hint(text, one) for one in times)


def without_times(text: str, times: Iterable[TimeHint]) -> str:
    """Return a question without the days, weeks and months that it names, unless little is left of it.

    That is what its meaning is looked for by: entries have their dates beside their text. A year stays, as it is often
    part of a name.
    """
    left = " ".join(text.split())
    for time in times:
        if _is_short(time):
            words = re.escape(time.words)
            left = re.sub(rf"(?:\b(?:{_AT})(?: the)? )?{words},?", "", left, count=1, flags=re.IGNORECASE)
    left = " ".join(left.split())
    return left if len(_WORD.findall(left)) >= LEAST_WORDS else text


def asks_only_when(text: str, times: Sequence[TimeHint]) -> bool:
    """Tell whether a question asks for nothing but what happened at the times that it names.

    A number alone is looked for as it stands.
    """
    if not times or not any(letter.isalpha() for letter in text):
        return False
    text = " ".join(text.split())
    for time in times:
        text = text.replace(time.words, " ", 1)
    return all(word in _EMPTY_WORDS for word in _WORD.findall(text.lower()))


def of_its_times(query: Query) -> Query | None:
    """Return the query for all that is dated when a question asks, if it asks for nothing else; None if it does."""
    filters = query.filters
    if query.phrases or filters.after or filters.before or not asks_only_when(query.text, query.times):
        return None
    after = min(time.after for time in query.times)
    before = max((time.before for time in query.times), key=lambda day: day or date.max.isoformat())
    return replace(query, text="", words=(), filters=replace(filters, after=after, before=before))


def weekdays_in(times: Iterable[TimeHint]) -> frozenset[str]:
    """Return the weekdays that were read as days: any other Monday is no answer."""
    return frozenset(word for time in times for word in _WORD.findall(time.words.lower()) if word in _WEEKDAY_NUMBERS)


def _is_short(time: TimeHint) -> bool:
    """Tell whether it is at most a month."""
    if not time.after or not time.before:
        return False
    return date.fromisoformat(time.before) - date.fromisoformat(time.after) < _MONTH_LENGTH


def _times(text: str, today: date) -> Iterator[_Time]:
    """Yield each time; words that one rule has read are hidden from the next ones."""
    for rule, read in _rules():
        for match in rule.finditer(text):
            try:
                yield _widened(text, read(match, today))
            except (ValueError, OverflowError):  # 31 February, 9999 years ago, the last day of something
                continue
            text = text[: match.start()] + "\0" * (match.end() - match.start()) + text[match.end() :]


def _hint(text: str, time: _Time) -> TimeHint:
    words = text[time.start : time.end]
    after = "" if time.first == date.min else time.first.isoformat()
    return TimeHint(words, after, "" if time.last == date.max else time.last.isoformat())


def _joined(text: str, times: list[_Time]) -> Iterator[_Time]:
    """Yield the times, two as one where they are written so: `from … to …`, `March last year`."""
    while times:
        time, *times = times
        both = _both(text, time, times[0]) if times else None
        yield both or time
        times = times[1:] if both else times


def _both(text: str, one: _Time, other: _Time) -> _Time | None:
    """Return the time that two neighbouring ones name together; None where each is one of its own."""
    between = text[one.end : other.start]
    if date.min in (one.first, other.first) or date.max in (one.last, other.last):
        return None
    within, year = (other, one) if other.lacks_year else (one, other)
    if within.lacks_year and _OF.fullmatch(between) and year.last - year.first in _LENGTHS_OF_YEARS:
        return within.in_year(year.first.year)._replace(start=one.start, end=other.end)
    if not (_FIRST_OF_TWO.search(text[: one.start]) and _SECOND_OF_TWO.fullmatch(between)):
        return None
    first = one.first
    if one.lacks_year and other.is_named:
        first = one.in_year(other.first.year).first
        first = first if first <= other.first else one.in_year(other.first.year - 1).first
    return other._replace(start=one.start, first=min(first, other.first))


def _widened(text: str, time: _Time) -> _Time:
    """Return a time as the words before it have it: `before …`, `since …`, `two weeks before …`."""
    start = max(0, time.start - MOST_CHARS_BEFORE)
    before = text[start : time.start]
    if time.is_named and (found := _APART.search(before)):
        days = timedelta(days=round(_DAYS[_unit(found)] * (_MOST_FEW if found["few"] else _count(found))))
        wider = time._replace(start=start + found.start())
        return wider._replace(first=time.first - days) if found["before"] else wider._replace(last=time.last + days)
    after_event = time.is_named and not time.is_exact
    if found := _UP_TO.search(before) or (_UP_TO_EVENT.search(before) if after_event else None):
        return time._replace(start=start + found.start(), first=date.min)
    if found := _FROM.search(before) or (_FROM_EVENT.search(before) if after_event else None):
        return time._replace(start=start + found.start(), last=date.max)
    return time


# ------------------------------------------------------------------------------------------ what each rule reads


def _of_day(match: re.Match[str], today: date) -> _Time:
    month, day = _month(match), int(match["day"])
    if match["year"]:
        moment = date(int(match["year"]), month, day)
    elif match["month"].lower() in _ALSO_VERBS and not _follows_preposition(match):  # which 2 may I eat
        raise ValueError
    else:
        moment = _latest_day(month, day, today)
    return _Time(match.start(), match.end(), moment, moment, True, True, match["year"] is not None)


def _latest_day(month: int, day: int, today: date) -> date:
    """Return the latest such day that is not to come. Raises ValueError for one that no year has."""
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
    return _Time(start, match.end(), first, _month_end(first), False, True, match["year"] is not None)


def _of_year(match: re.Match[str], today: date) -> _Time:
    year = int(match["year"])
    if year > today.year + 1 or _NUMBER_OF.search(match.string[: match.start()]):
        raise ValueError
    may_be_number = not _follows_preposition(match)
    return _Time(match.start(), match.end(), date(year, 1, 1), date(year, 12, 31), False, True, True, may_be_number)


def _distant_day(match: re.Match[str], today: date) -> _Time:
    day = today + timedelta(days=_DISTANCES[" ".join(match.group().lower().split())])
    return _Time(match.start(), match.end(), day, day, is_exact=True)


def _ago(match: re.Match[str], today: date) -> _Time:
    """Read `three weeks ago` as the seven days around that day."""
    days, half = _DAYS[_unit(match)], timedelta(days=int(_DAYS[_unit(match)] / 2))
    least, most = (_LEAST_FEW, _MOST_FEW) if match["few"] else (_count(match), _count(match))
    first, last = (today - timedelta(days=round(days * count)) for count in (most, least))
    return _Time(match.start(), match.end(), first - half, min(last + half, today))


def _lately(match: re.Match[str], today: date) -> _Time:
    count = _MOST_FEW if match["few"] else _count(match)
    return _Time(match.start(), match.end(), today - timedelta(days=round(_DAYS[_unit(match)] * count)), today)


def _of_calendar(match: re.Match[str], today: date) -> _Time:
    """Read `last week` as the calendar's: from Monday to Sunday."""
    steps = -1 if match["last"] else 1 if match["next"] else 0
    unit = _unit(match)
    if unit == "day":  # of something else: the last day of a trip
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
    """Read `last March` as the latest one that is over, `next March` as the first to come."""
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
    return _Time(start, match.end(), day, day, is_exact=True)


def _month(match: re.Match[str]) -> int:
    name = match["month"].lower()
    return int(name) if name.isdigit() else _MONTH_NUMBERS[name]


def _month_end(first: date) -> date:
    return first.replace(day=monthrange(first.year, first.month)[1])


def _unit(match: re.Match[str]) -> str:
    name = match["unit"].lower()
    return _UNITS.get(name, name)


def _count(match: re.Match[str]) -> int:
    name = (match["count"] or "one").lower()
    return int(name) if name.isdigit() else _COUNTS[name]


_Read = Callable[[re.Match[str], date], _Time]

_NAMES = _any((*_MONTH_NUMBERS, *_WEEKDAY_NUMBERS, *_DISTANCES))
_HINTS_AT_TIME = re.compile(
    rf"\d{{4}}|\b(?:{_NAMES}|ago|last|past|this|next|previous|vor|(?:letzt|vorig|vergangen|dies|nächst|kommend)e[mnrs]?)\b",
    re.IGNORECASE,
)
"""A word without which no time is named: most questions have none, and are not looked through."""


@cache
def _rules() -> list[tuple[re.Pattern[str], _Read]]:
    """Return the rules, made at the first question that hints at a time."""
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
