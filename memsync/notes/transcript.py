"""Message headings of a thread: `## role @ time {attributes}`."""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

from memsync.model.note import Message, Note, Section
from memsync.model.vocabulary import Trait
from memsync.notes.attributes import cut_attributes
from memsync.notes.dates import parse_moment

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


MESSAGE_LEVEL = 2

_ROLE = r"(?:user|assistant|system|tool|router|handoff|agent:[^\s@{}]+)"
_HEADING = re.compile(r" {0,3}(#{1,2})[ \t]+")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
# What begins and ends without a space can be told from the spaces around it in one pass, however many there are.
_MESSAGE = re.compile(rf"(?P<role>{_ROLE})(?:\s*@\s*(?P<time>[^\s{{}}](?:[^{{}}]*[^\s{{}}])?))?\s*")


def read_message_heading(heading: str) -> tuple[str, str] | None:
    """Return the role and the time (ISO text, or empty) that a level-2 heading names, or None if it is no message.

    `heading` comes without its attributes. A time that cannot be read makes it an ordinary section.
    """
    found = _MESSAGE.fullmatch(heading.strip())
    if found is None:
        return None
    if found["time"] is None:
        return found["role"], ""
    moment = parse_moment(found["time"])
    return None if moment is None else (found["role"], moment)


def fences(lines: Sequence[str]) -> Iterator[str]:
    """Yield for each line the fence that is open after it, empty outside of fences, as `find_headings` sees them."""
    fence = ""
    for line in lines:
        found = _FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif found:
            fence = found[1]
        yield fence


def open_fence(lines: Sequence[str]) -> str:
    """Return the fence that lines leave open, as `find_headings` sees it; empty when none is."""
    return next(iter(deque(fences(lines), maxlen=1)), "")


def find_headings(lines: Sequence[str], first_line: int) -> Iterator[tuple[Section, int]]:
    """Yield each heading that begins or ends a message, as its section, and the column of its attributes or 0.

    For threads that are too large to be parsed. A heading in a fence is none; what else may hide one (an HTML block
    that nobody has closed) is not looked for, nor are headings that are underlined.
    """
    before = ""
    body = lines[first_line - 1 :]
    for number, (line, fence) in enumerate(zip(body, fences(body), strict=True), first_line):
        heading = None if fence or before else _HEADING.match(line)
        before = fence
        if heading:
            column, attributes = cut_attributes(line)
            text = line[heading.end() : column].strip().rstrip("#").strip()
            level = len(heading[1])
            role, time = (read_message_heading(text) if level == MESSAGE_LEVEL else None) or ("", "")
            yield Section((text,), number, number, role, time, attributes, level), column if attributes else 0


def messages_of(note: Note) -> Iterator[Message]:
    """Yield the messages of a thread, in order; any other note has none."""
    begun: Section | None = None
    for section in note.sections:
        if 0 < section.level <= MESSAGE_LEVEL:
            if begun is not None:
                yield _message(note, begun, section.start_line - 1)
            begun = section if section.role else None
    if begun is not None:
        yield _message(note, begun, len(note.lines))


def _message(note: Note, section: Section, last: int) -> Message:
    body = section.start_line + 1
    while last >= body and not note.lines[last - 1].strip():
        last -= 1
    return Message(section.role, section.time, section.start_line, body, last, section.attributes)


def written_time(note: Note, message: Message) -> str:
    """Return a message's time as its heading has it, empty without one."""
    line = note.lines[message.start_line - 1]
    found = _MESSAGE.fullmatch(line[: cut_attributes(line)[0]].strip().strip("#").strip())
    return (found["time"] or "").strip() if found else ""


def body_of(note: Note, message: Message) -> str:
    """Return the lines below a message's heading, without the empty ones around them."""
    return body_text(note.lines[message.body_line - 1 : message.end_line])


def body_text(lines: Sequence[str]) -> str:
    """Return the lines that follow a message's heading as one text, without the empty ones around them."""
    last = len(lines)
    while last and not lines[last - 1].strip():
        last -= 1
    return "\n".join(lines[:last]).lstrip("\n")
