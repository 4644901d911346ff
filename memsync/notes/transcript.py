"""Parse message headings, list items and attributes: `## role @ time {#id .class key=value key="two words"}`.

As in Pandoc, an unquoted value ends at the next space. The parser of mdit-py-plugins cannot be used, because it refuses
dots in unquoted values (`cost=0.0031`).
"""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

from memsync.model.note import Message, Note, Section
from memsync.model.text import encodable
from memsync.model.vocabulary import Trait
from memsync.notes.dates import parse_moment

_BRACES = re.compile(r"[ \t]*(?<!\\)\{([^{}]*)\}[ \t]*$")
_ITEM = re.compile(
    r"""\s*(?:
        \#(?P<id>[^\s{}.#="]+)
      | \.(?P<class>[^\s{}.#="]+)
      | (?P<key>[A-Za-z_:][\w:.-]*)=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s"{}]+))
    )(?=\s|$)""",
    re.VERBOSE,
)
ESCAPES = {"n": "\n", "r": "\r", "(": "{", ")": "}"}
"""Letters that follow a backslash in a quoted value, and the characters they mean.

`\\u0007` means the character of that code point; any other character after a backslash means itself.
"""
_ESCAPED = re.compile(r"\\(u[0-9a-f]{4}|.)")
MAX_BLOCK_CHARS = 2_000


def cut_attributes(line: str) -> tuple[int, Mapping[str, str]]:
    """Return the column where `line`'s attribute block (with the spaces before it) begins, and its attributes.

    Returns `(len(line), {})` if the line does not end in a block that parses: its braces are then ordinary text. So are
    braces after a backslash. Classes are joined under the key `class`; the last of two equal keys wins.
    """
    if not line.rstrip().endswith("}"):
        return len(line), {}
    braces = _BRACES.search(line, max(0, len(line) - MAX_BLOCK_CHARS))
    attributes = _parse_attributes(braces.group(1)) if braces else {}
    return (braces.start(), attributes) if braces and attributes else (len(line), {})


def _parse_attributes(block: str) -> dict[str, str]:
    attributes: dict[str, str] = {}
    position, end = 0, len(block.rstrip())
    while position < end:
        item = _ITEM.match(block, position, end)
        if item is None:
            return {}
        position = item.end()
        if item["id"]:
            attributes["id"] = item["id"]
        elif item["class"]:
            attributes["class"] = f"{attributes.get('class', '')} {item['class']}".strip()
        else:
            value = item["bare"] if item["bare"] is not None else _ESCAPED.sub(_unescaped, item["quoted"])
            attributes[item["key"]] = value
    return attributes


def _unescaped(match: re.Match[str]) -> str:
    name = match[1]
    if len(name) == 1:
        return ESCAPES.get(name, name)
    return encodable(chr(int(name[1:], 16)))


OPENING_WORDS = 12
"""A text's first words usually tell its subject."""

ITEM_MARKER = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?")
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
    """Return the lines of a log without list markers, check boxes and clock times: they do not tell its subject."""
    return "\n".join(_said(line) for line in text.split("\n"))


def _said(line: str) -> str:
    marker = ITEM_MARKER.match(line)
    if marker is None:
        return line
    line = line[marker.end() :]
    clock = _CLOCK.match(line)
    return line[clock.end() :] if clock else line


def speaker_of(text: str) -> str:
    """Return the speaker of a list item such as `- 10:02 **Anna**: …` in lower case; empty if it names none."""
    match = _SPEAKER.match(_said(text.split("\n", 1)[0]))
    return match["name"].strip().lower() if match else ""


def traits_of(text: str) -> Trait:
    """Tell whether a text is a question, and whether it names a time other than that of its list item."""
    traits = Trait(0)
    if text.rstrip().endswith(("?", "？")):
        traits |= Trait.QUESTION
    if _TIME_WORDS.search(said(text)):
        traits |= Trait.NAMES_TIME
    return traits


def opening_of(text: str) -> tuple[int, ...]:
    """Return the stem numbers of a text's first words, without its headings and list markers."""
    lines = (_said(line) for line in text.split("\n") if not line.lstrip().startswith("#"))
    words = (stem for line in lines for stem in stems(line))
    return tuple(map(stem_number, islice(words, OPENING_WORDS)))


def stems(text: str) -> Iterator[str]:
    """Return an iterator over the stem of each word of a text, in order, without possessive endings."""
    return (stem(match.group()) for match in _WORD.finditer(_POSSESSIVE.sub("", text)))


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Return a word without a common English ending: good enough to recognize related words, not to search."""
    return _SUFFIX.sub("", word.lower())


def stem_number(word_stem: str) -> int:
    """Return a hash of a stem below 2^16; about one of 70,000 pairs of stems collides."""
    return zlib.crc32(word_stem.encode()) & 0xFFFF


MESSAGE_LEVEL = 2

_ROLE = r"(?:user|assistant|system|tool|router|handoff|agent:[^\s@{}]+)"
_HEADING = re.compile(r" {0,3}(#{1,2})[ \t]+")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
# The time begins and ends with a non-space, so that the pattern takes linear time even on many spaces.
_MESSAGE = re.compile(rf"(?P<role>{_ROLE})(?:\s*@\s*(?P<time>[^\s{{}}](?:[^{{}}]*[^\s{{}}])?))?\s*")


def read_message_heading(heading: str) -> tuple[str, str] | None:
    """Return the role and the time (ISO text, or empty) of a message's level-2 heading; None for any other heading.

    `heading` comes without its attributes. A heading with a time that cannot be parsed begins an ordinary section.
    """
    match = _MESSAGE.fullmatch(heading.strip())
    if match is None:
        return None
    if match["time"] is None:
        return match["role"], ""
    moment = parse_moment(match["time"])
    return None if moment is None else (match["role"], moment)


def fences(lines: Sequence[str]) -> Iterator[str]:
    """Yield for each line the fence that is open after it, as `find_headings` sees it; empty outside fences."""
    fence = ""
    for line in lines:
        match = _FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif match:
            fence = match[1]
        yield fence


def open_fence(lines: Sequence[str]) -> str:
    """Return the fence that is open after the last line, as `find_headings` sees it, or an empty string."""
    return next(iter(deque(fences(lines), maxlen=1)), "")


def find_headings(lines: Sequence[str], first_line: int) -> Iterator[tuple[Section, int]]:
    """Yield (section, column of its attributes or 0) of each heading that begins or ends a message.

    This is for threads that are too large to parse as Markdown. It skips headings in fences, but does not recognize
    other blocks that can hide a heading, such as an unclosed HTML block. It does not find underlined headings.
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
    borders = [section for section in note.sections if 0 < section.level <= MESSAGE_LEVEL]
    ends = [*(section.start_line - 1 for section in borders[1:]), len(note.lines)]
    for section, last in zip(borders, ends, strict=False):
        if section.role:
            body = section.start_line + 1
            while last >= body and not note.lines[last - 1].strip():
                last -= 1
            yield Message(section.role, section.time, section.start_line, body, last, section.attributes)


def written_time(note: Note, message: Message) -> str:
    """Return a message's time as written in its heading, or an empty string."""
    line = note.lines[message.start_line - 1]
    match = _MESSAGE.fullmatch(line[: cut_attributes(line)[0]].strip().strip("#").strip())
    return (match["time"] or "").strip() if match else ""


def body_of(note: Note, message: Message) -> str:
    """Return the text below a message's heading, without empty lines around it."""
    return body_text(note.lines[message.body_line - 1 : message.end_line])


def body_text(lines: Sequence[str]) -> str:
    """Join the lines below a message's heading, without empty lines around them."""
    last = len(lines)
    while last and not lines[last - 1].strip():
        last -= 1
    return "\n".join(lines[:last]).lstrip("\n")
