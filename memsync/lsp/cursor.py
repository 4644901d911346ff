"""Say what is under the cursor, and what is being typed. Pure; lines and columns count from 0."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memsync.edit.relinking import links_on
from memsync.model.filters import FILTERS
from memsync.model.note import Link
from memsync.notes.attributes import cut_attributes
from memsync.notes.frontmatter import closes_head, head_is_open, read_head
from memsync.notes.inline import tags_in
from memsync.notes.links import CITATION, block_line, heading_paths, names_place, outside_code

_TYPED = (
    ("block", re.compile(r"\[\[([^\[\]|#]*)#\^([^\[\]|]*)$")),
    ("heading", re.compile(r"\[\[([^\[\]|#]*)#([^\[\]|]*)$")),
    ("note", re.compile(r"()\[\[([^\[\]|#]*)$")),
    ("value", re.compile(rf"(?:^|[\s(\"])({'|'.join(FILTERS)}):(\S*)$")),
    ("tag", re.compile(r"()(?:^|[\s(\[{,;'\"])#([\w/-]*)$")),
)
"""What may be typed, and a pattern of the text before the cursor: what that belongs to, and its beginning."""
_KEY = re.compile(r"([\w-]*)$")
_ITEM = re.compile(r"[ \t]*-[ \t]+(\S*)")
_VALUE = re.compile(r"([\w-]+):[ \t]+(?:\[?(?:[^,\[\]]*,[ \t]*)*)([^\s,\[\]]*)$")


class Under(NamedTuple):
    """What is under the cursor, with its columns; `name` is a heading's text or a tag, `link` a link or a citation.

    `what` is link, citation, tag or heading. `first` and `last` are the lines of a citation, from 1.
    """

    what: str
    start: int
    end: int
    name: str = ""
    link: Link | None = None
    first: int = 0
    last: int = 0


class Typed(NamedTuple):
    """What is being typed: a note, heading, block, value, tag or key.

    `begun` is its text so far, which starts at the column `start`; `of` is the target of the link that names a heading,
    or the key of a value.
    """

    what: str
    begun: str
    start: int
    of: str = ""


def under(lines: Sequence[str], line: int, column: int) -> Under | None:
    """Return what is at a place; None in code and in plain text."""
    if line >= len(lines) or is_code(lines, line):
        return None
    text = lines[line]
    if found := next((one for one in things_on(text) if one.start <= column <= one.end), None):
        return found
    name = next((path[-1] for number, path in headings(lines) if number == line), "")
    start = max(text.find(name), 0)
    return Under("heading", start, start + len(name), name) if name else None


def things_on(text: str) -> Iterator[Under]:
    """Yield the links, citations and tags on a line."""
    yield from (Under("link", start, end, link=link) for start, end, link in links_on(text))
    for match in CITATION.finditer(text):
        first = int(match[2])
        link = Link(match[1], "", "", 0, wiki=True)
        yield Under("citation", match.start(), match.end(), "", link, first, int(match[3] or first))
    yield from (Under("tag", start, end, name) for start, end, name in tags_in(text))


def headings(lines: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield (line, texts of the headings above it and its own) of each heading of a note, without attributes."""
    head = read_head(lines).line_count
    for number, path in heading_paths(lines[head:]):
        yield number + head - 1, [text[: cut_attributes(text)[0]] for text in path]


def outside_fences(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of front matter and of the lines below it that are in no fenced code."""
    head = read_head(lines).line_count
    yield from enumerate(lines[:head])
    yield from ((number + head - 1, text) for number, text in outside_code(lines[head:]))


def is_code(lines: Sequence[str], line: int) -> bool:
    """Tell whether a line is in fenced code."""
    return all(number != line for number, _ in outside_fences(lines))


def typed(lines: Sequence[str], line: int, column: int) -> Typed | None:
    """Return what is being typed before a place; None in code and in plain text."""
    before = lines[line][:column] if line < len(lines) else ""
    if 0 < line < _head_lines(lines):
        if match := _KEY.fullmatch(before):
            return Typed("key", match[1], 0)
        if (match := _VALUE.fullmatch(before)) and "[[" not in before:
            return Typed("value", match[2], match.start(2), match[1])
        if match := _ITEM.fullmatch(before):
            above = next(one for one in reversed(lines[:line]) if not _ITEM.match(one))
            return Typed("value", match[1], match.start(1), above.rstrip(" :"))
    for what, pattern in _TYPED:
        if match := pattern.search(before):
            return None if is_code(lines, line) else Typed(what, match[2], match.start(2), match[1].strip())
    return None


def _head_lines(lines: Sequence[str]) -> int:
    """Return how many lines are front matter, also while its end is not written yet."""
    if not lines or not head_is_open(lines[:1]):
        return 0
    ends = (lambda line: not line.strip()) if head_is_open(lines) else closes_head
    return next((number for number, line in enumerate(lines) if number and ends(line)), len(lines))


def anchor_line(lines: Sequence[str], anchor: str) -> int:
    """Return the line that an anchor of a link names; the first line if it names none."""
    if anchor.startswith("^"):
        return max(block_line(lines, anchor[1:]) - 1, 0)
    return next((line for line, path in headings(lines) if anchor and names_place(anchor, path)), 0)
