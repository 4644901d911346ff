"""Find the messages of a thread by their headings: `## role @ time {attributes}`."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence

from memsync.model.note import Message, Note, Section
from memsync.notes.attributes import cut_attributes
from memsync.notes.dates import parse_moment

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
