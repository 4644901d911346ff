"""What a line of a log, or the beginning of a text, tells of itself: who says it, whether it asks, what it is about."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from memsync.model.vocabulary import Trait

OPENING_WORDS = 12
"""A text mostly says in its first words what it is about."""

_MARKER = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?")
_CLOCK = re.compile(
    r"(?:\*\*|__|\[|\()?(?:\d{4}-\d{2}-\d{2}[T ])?(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?![\d:])(?:\*\*|__|\]|\))?"
    r"(?:\s+[-–—])?\s+"
)
_SPEAKER = re.compile(r"\*\*(?P<name>[^*\n]{1,60}?)(?::\*\*|\*\*\s*:)")
_WORD = re.compile(r"[^\W_]+")
_SUFFIX = re.compile(r"(?<=\w{3})(?:ings?|edly|ed|ers?|es|ies|ly|s|y|e)$")
_POSSESSIVE = re.compile(r"['’]s\b")
_TIME_WORDS = re.compile(
    r"""\b(?:
        yesterday|today|tonight|tomorrow|ago|last|next|since|recently|weekend|morning|evening|days?|weeks?|months?|years?
      | (?:mon|tues|wednes|thurs|fri|satur|sun)day
      | january|february|march|april|may|june|july|august|september|october|november|december
      | gestern|heute|morgen|vor|letzte[nrs]?|nächste[nrs]?|seit|woche|monat|jahr
      | montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag
      | januar|februar|märz|mai|juni|juli|oktober|dezember
      | \d{4}(?:-\d{2}){0,2}
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)


def said(text: str) -> str:
    """Return the lines of a log without list markers, check boxes and clock times, which say nothing of the matter."""
    return "\n".join(_said(line) for line in text.split("\n"))


def _said(line: str) -> str:
    marker = _MARKER.match(line)
    if marker is None:
        return line
    line = line[marker.end() :]
    clock = _CLOCK.match(line)
    return line[clock.end() :] if clock else line


def speaker_of(text: str) -> str:
    """Return who says a list item, written `- 10:02 **Anna**: …`, in lower case; empty when it does not tell."""
    found = _SPEAKER.match(_said(text.split("\n", 1)[0]))
    return found["name"].strip().lower() if found else ""


def traits_of(text: str) -> Trait:
    """Return whether a text asks and whether it names a time; of a list item, not counting the time it begins with."""
    traits = Trait(0)
    if text.rstrip().endswith(("?", "？")):
        traits |= Trait.QUESTION
    if _TIME_WORDS.search(said(text)):
        traits |= Trait.NAMES_TIME
    return traits


def opening_of(text: str) -> tuple[int, ...]:
    """Return the stems of the first words of a text as numbers, its headings and list markers left out."""
    lines = (_said(line) for line in text.split("\n") if not line.lstrip().startswith("#"))
    words = (stem for line in lines for stem in stems(line))
    return tuple(map(stem_number, islice(words, OPENING_WORDS)))


def stems(text: str) -> Iterator[str]:
    """Yield the stem of each word of a text, in order, possessive endings left out."""
    return (stem(found.group()) for found in _WORD.finditer(_POSSESSIVE.sub("", text)))


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Return a word without a common English ending: enough to tell relatives apart from others, not to search by."""
    return _SUFFIX.sub("", word.lower())


def stem_number(word_stem: str) -> int:
    """Return a number below 2^16 that stands for a stem; of 70,000 pairs of stems, one has the same."""
    return zlib.crc32(word_stem.encode()) & 0xFFFF
