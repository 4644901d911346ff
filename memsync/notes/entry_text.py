"""What the text of an entry tells a search: its speaker, its traits (a question, a named time) and its first words."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

from memsync.model.filters import TASKS
from memsync.model.vocabulary import Trait
from memsync.model.words import PLAIN_WORD, folded
from memsync.notes.attributes import cut_attributes
from memsync.notes.inline import wiki_parts
from memsync.notes.links import outside_code

OPENING_WORDS = 12
"""A text's first words usually tell its subject."""

ITEM_MARKER = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?")
LINK = re.compile(r"!?\[([^\[\]\n]{0,200})\]\(<?([^()<>#\n]{0,300})[^()\n]{0,300}\)|!?\[\[([^\[\]\n]{1,500})\]\]")
"""A Markdown link (its label and target), or what is between the brackets of a wiki link."""
_MARK = re.compile(r"^[ \t]*(?:>[ \t>]*)?(?:(?:#{1,6}|[-*+])[ \t]+|\[![\w-]{1,40}\][+-]?[ \t]*)?")
_EMPHASIS = re.compile(r"(?<!\w)(\*\*|==)(?=\S)([^*=\n]{1,300}?)(?<=\S)\1(?!\w)")
_LAST_MARK = re.compile(r"(?<![ \t])[ \t]+(?:#+|\^[A-Za-z0-9-]+)$")
"""Of a heading that is closed, or the name of a block."""
_COMMENT = re.compile(r"`++[^`\n]*+`*+|(?<![\w%\\])%%(?:(?!%%)[^\n])*%%")
_OPENS_COMMENT = re.compile(r"([ \t>]*)%%(?!.*%%)")
_TASK = re.compile(r"^[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[([ xX])\](?=[ \t]|$)", re.MULTILINE)
_CLOCK = re.compile(
    r"(?:\*\*|__|\[|\()?(?:\d{4}-\d{2}-\d{2}[T ])?(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?![\d:])(?:\*\*|__|\]|\))?"
    r"(?:\s+[-–—])?\s+"
)
_SPEAKER = re.compile(r"\*\*(?P<name>[^*\n]{1,60}?)(?::\*\*|\*\*\s*:)")
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


def as_read(text: str) -> str:
    """Return a text as a person reads it: without marks, attributes and comments, links as what they show.

    Code between fences stays as it is, and so do numbers of items and check boxes.
    """
    lines = without_comments(text.split("\n"))
    for number, line in outside_code(lines):
        line = _LAST_MARK.sub("", line.rstrip())
        line = _MARK.sub("", line[: cut_attributes(line)[0]])
        line = LINK.sub(lambda link: wiki_parts(link[3])[2] if link[3] else link[1], line)
        lines[number - 1] = _EMPHASIS.sub(r"\2", line)
    return "\n".join(lines)


def without_comments(lines: Sequence[str], fill: str = "") -> list[str]:
    """Return lines with `fill` for each character of Obsidian's comments: `%%text%%`, or lines between two `%%`.

    Of lines between, the marks of a quote stay. Code has no comments, and a `%%` without its end hides nothing.
    """
    kept, opened, before = list(lines), -1, ""
    for number, line in outside_code(lines) if any("%%" in line for line in lines) else ():
        if opened >= 0 and line.rstrip().endswith("%%"):
            kept[opened:number] = [before] * (number - opened)
            opened = -1
        elif opened < 0 and (opening := _OPENS_COMMENT.match(line)):
            opened, before = number - 1, opening[1]
        elif opened < 0 and "%%" in line:
            kept[number - 1] = _COMMENT.sub(lambda one: one[0] if one[0][0] == "`" else fill * len(one[0]), line)
    return kept


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


def tasks_in(text: str) -> dict[str, str]:
    """Return an attribute for open tasks (`- [ ]`) and one for done ones (`- [x]`), if the text has such items."""
    if "[" not in text or text.lstrip().startswith(("```", "~~~")):
        return {}
    return {TASKS["todo" if box == " " else "done"]: "true" for box in _TASK.findall(text)}


def opening_of(text: str) -> tuple[int, ...]:
    """Return the stem numbers of a text's first words, without its headings and list markers."""
    lines = (_said(line) for line in text.split("\n") if not line.lstrip().startswith("#"))
    words = (stem for line in lines for stem in stems(line))
    return tuple(map(stem_number, islice(words, OPENING_WORDS)))


def stems(text: str) -> Iterator[str]:
    """Return an iterator over the stem of each word of a text, in order, without possessive endings."""
    return (stem(match.group()) for match in PLAIN_WORD.finditer(folded(_POSSESSIVE.sub("", text))))


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Return a folded word without a common English ending: good enough to recognize related words, not to search."""
    return _SUFFIX.sub("", folded(word).strip().lower())


def stem_number(word_stem: str) -> int:
    """Return a hash of a stem below 2^16; about one of 70,000 pairs of stems collides."""
    return zlib.crc32(word_stem.encode()) & 0xFFFF
