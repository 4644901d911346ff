"""The messages of a thread, read and written: a heading `## role @ time {attributes}`, and the text below it.

Any other role is an attribute: `## message @ time {role=developer}`.

The parser must read a written message as exactly one. Each text has several forms: the first one that parses back
correctly is used, and the last one is correct for every text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from typing import NamedTuple

from memsync.errors import UsageError
from memsync.model.note import Message, Note, Section
from memsync.model.text import printable, quoted, whole_characters
from memsync.notes.attributes import CONTROL, attribute_block, cut_attributes, unicode_escape
from memsync.notes.blocks import Heading, parse_blocks
from memsync.notes.conflict_marks import is_conflicted
from memsync.notes.dates import parse_moment
from memsync.notes.frontmatter import closes_head, read_head

MESSAGE_LEVEL = 2

ROLE = "role"
"""The attribute that names the role of a message if its heading does not."""
_ANY_ROLE = "message"
"""The word that begins the heading of such a message."""
_ROLE = rf"(?:user|assistant|system|tool|router|handoff|agent:[^\s@{{}}]+|{_ANY_ROLE})"
_HEADING = re.compile(r" {0,3}(#{1,2})[ \t]+")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
# The time begins and ends with a non-space, so that the pattern takes linear time even on many spaces.
_MESSAGE = re.compile(rf"(?P<role>{_ROLE})(?:\s*@\s*(?P<time>[^\s{{}}](?:[^{{}}]*[^\s{{}}])?))?\s*")
WRITING_ATTRIBUTES = ("demoted", "closed", "lead", "trail", "eol", "written")
"""Attributes that only describe how the text of a message is written."""
_MAX_PARSED_CHARS = 500_000
"""A longer text is quoted if it may be more than paragraphs and lists: to parse it would take seconds."""
_MAX_MARGIN_CHARS = 200
"""Maximum length of the margins of a text (the empty space around it) that a message's heading stores."""
_DEEPEST_LEVEL = 6
UNDERLINE = re.compile(r"( {0,3})(\\*(?:=+|-+)[ \t]*)")
_ESCAPED_UNDERLINE = re.compile(r"( {0,3})\\(\\*(?:=+|-+)[ \t]*)")
_CONTROL_OR_BACKSLASH = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\\]")
_ESCAPE_SEQUENCE = re.compile(r"\\(?:\\|u([0-9a-f]{4}))")
_TIME = re.compile(r"[0-9W:.,Z+-]+(?:[T ][0-9:.,Z+-]+)?")
FENCE_MARKS = re.compile(r"`{3,}")
_DOUBTFUL_LINE = re.compile(r"\n[ \t]*(?:\#{1,6}(?:[ \t]|$)|<|`{3}|~{3}|>{7}|(?:=+|-+|\.{3})[ \t]*$)", re.MULTILINE)
"""Matches lines that may be more than paragraphs, lists and quotes: headings, underlines, fences, HTML blocks.

A text without such lines is always one message and leaves no block open. A text with such lines is written and parsed
back, unless all of them match `_FENCE_OR_HEADING`. The pattern begins with a line end, because that makes the search
several times faster; so put a line end before the text.
"""
_FENCE_OR_HEADING = re.compile(
    r"""^(?:
        (?P<fence>```[\w+#.-]*\n(?:(?![ \t]*(?:`{3}|~{3}|<{7}|>{7}|(?:---|\.{3})[ \t]*$)).*\n)*?```$)
      | (?P<hashes>\#{1,6})(?=[ \t]|$)
    )""",
    re.MULTILINE | re.VERBOSE,
)
"""Matches a whole fence without another one inside, and a heading. Neither is indented, so both are certainly what they
look like and not part of a list or a quote. Most long model answers have no other doubtful lines."""


# ----------------------------------------------------------------------------------------------- reading


class Spoken(NamedTuple):
    """What the heading of a message says: its role, its time (ISO text, or empty) and its other attributes."""

    role: str
    time: str
    attributes: Mapping[str, str]


def read_message_heading(heading: str, attributes: Mapping[str, str] = {}) -> Spoken | None:
    """Return what a level-2 heading says if it is that of a message; otherwise None.

    `heading` comes without its attributes. A heading with a time that cannot be parsed begins an ordinary section.
    """
    match = _MESSAGE.fullmatch(heading.strip())
    if match is None or (match["role"] == _ANY_ROLE and ROLE not in attributes):
        return None
    moment = parse_moment(match["time"]) if match["time"] else ""
    if moment is None:
        return None
    if match["role"] != _ANY_ROLE:
        return Spoken(match["role"], moment, attributes)
    return Spoken(attributes[ROLE], moment, {key: value for key, value in attributes.items() if key != ROLE})


def _fence_after(line: str, fence: str) -> str:
    match = _FENCE.match(line)
    if not fence:
        return match[1] if match else ""
    return "" if match and match[1].startswith(fence) and not line.strip().strip(fence[0]) else fence


def open_fence(lines: Sequence[str]) -> str:
    """Return the fence that is open after the last line, as `find_headings` sees it, or an empty string."""
    return reduce(lambda fence, line: _fence_after(line, fence), lines, "")


def find_headings(lines: Sequence[str], first_line: int) -> Iterator[tuple[Section, int]]:
    """Yield (section, column of its attributes or 0) of each heading that begins or ends a message.

    This is for threads that are too large to parse as Markdown. It skips headings in fences, but does not recognize
    other blocks that can hide a heading, such as an unclosed HTML block. It does not find underlined headings.
    """
    fence = ""
    for number, line in enumerate(lines[first_line - 1 :], first_line):
        if not line.startswith((" ", "#", "`", "~")):  # most lines
            continue
        before, fence = fence, _fence_after(line, fence)
        if not before and not fence and (heading := _heading_on(line)):
            level, text, column, said, is_message = heading
            yield Section((text,), number, number, *said, level, is_message), column


@lru_cache(maxsize=4096)
def _heading_on(line: str) -> tuple[int, str, int, Spoken, bool] | None:
    """Return level, text, column of the attributes or 0, and what is said. Programs write many alike in a second."""
    heading = _HEADING.match(line)
    if heading is None:
        return None
    column, attributes = cut_attributes(line)
    text = line[heading.end() : column].strip().rstrip("#").strip()
    level = len(heading[1])
    spoken = read_message_heading(text, attributes) if level == MESSAGE_LEVEL else None
    return level, text, column if attributes else 0, spoken or Spoken("", "", attributes), spoken is not None


def messages_in(sections: Iterable[Section], lines: Sequence[str]) -> Iterator[Message]:
    """Yield the messages of a thread with these sections and lines, in order."""
    borders = [section for section in sections if 0 < section.level <= MESSAGE_LEVEL]
    ends = [*(section.start_line - 1 for section in borders[1:]), len(lines)]
    for section, last in zip(borders, ends, strict=False):
        if section.is_message:
            body = section.start_line + 1
            while last >= body and not lines[last - 1].strip():
                last -= 1
            yield Message(section.role, section.time, section.start_line, body, last, section.attributes)


def read_messages(lines: Sequence[str]) -> list[Message]:
    """Return the messages of a thread by its lines alone, which takes a hundredth of the time of parsing it."""
    sections = (section for section, _ in find_headings(lines, read_head(lines).line_count + 1))
    return list(messages_in(sections, lines))


def written_time(note: Note, message: Message) -> str:
    """Return a message's time as written in its heading, or an empty string."""
    line = note.lines[message.start_line - 1]
    match = _MESSAGE.fullmatch(line[: cut_attributes(line)[0]].strip().strip("#").strip())
    return (match["time"] or "").strip() if match else ""


def original_of(note: Note, message: Message) -> tuple[str, dict[str, str]]:
    """Return the text and the attributes of a message as they were before memsync wrote it."""
    return text_of_message(body_of(note, message), message.attributes), attributes_of(message)


def attributes_of(message: Message) -> dict[str, str]:
    """Return the attributes of a message without those that only describe how its text is written."""
    return {name: value for name, value in message.attributes.items() if name not in WRITING_ATTRIBUTES}


def text_within(lines: Sequence[str], message: Message, first: int, last: int) -> tuple[int, str]:
    """Return what is said on lines `first`..`last` of a thread, as it was before memsync wrote it.

    `lines` are those of the thread. Returns the line on which the text begins, and the text.
    """
    begin, end = message.body_line, message.end_line
    while begin < end and not lines[begin - 1].strip():
        begin += 1
    attributes = message.attributes
    if first <= begin and last >= end:
        return min(begin, end), text_of_message(body_text(lines[begin - 1 : end]), attributes)
    kept = {key: value for key, value in attributes.items() if key in ("demoted", "closed", "written")}
    said = text_of_message(body_text(lines[begin - 1 : end]), kept).split("\n")
    shift = begin + ("fenced" in attributes.get("written", "").split())
    return max(first, begin), "\n".join(said[max(first - shift, 0) : max(last - shift + 1, 0)])


def body_of(note: Note, message: Message) -> str:
    """Return the text below a message's heading, without empty lines around it."""
    return body_text(note.lines[message.body_line - 1 : message.end_line])


def body_text(lines: Sequence[str]) -> str:
    """Join the lines below a message's heading, without empty lines around them."""
    last = len(lines)
    while last and not lines[last - 1].strip():
        last -= 1
    return "\n".join(lines[:last]).lstrip("\n")


# ----------------------------------------------------------------------------------------------- writing


def written_message(role: str, text: str, time: str, attributes: Mapping[str, str]) -> tuple[str, str]:
    """Return any text as a message, and, if lines of it could close front matter, a form without such lines.

    `text_of_message` restores the text exactly: the heading's attributes record every change. Only lone surrogates are
    lost, which no file can store. Raises UsageError for a role, a time or attributes that a heading cannot hold.
    """
    _check_heading(role, time, attributes)
    if not is_role(role):
        role, attributes = _ANY_ROLE, {ROLE: role, **attributes}
    heading = f"## {role} @ {time}" if time else f"## {role}"
    text, changes = _storable(whole_characters(text))
    margins = _margins_of(text)
    unparsed = _form_without_parsing(text, margins)
    if unparsed is not None:
        return _message_text(heading, attributes, changes, unparsed), ""
    *forms, last = _message_forms(text, margins)
    safe = _message_text(heading, attributes, changes, last)
    for form in forms if len(text) <= _MAX_PARSED_CHARS else ():
        written = _message_text(heading, attributes, changes, form)
        lines = written.split("\n")
        if not is_conflicted(lines) and _is_one_message(lines) and _original_of(form) == text:
            return written, safe if any(map(closes_head, lines)) else ""
    return safe, ""


_Form = tuple[Mapping[str, str], str]
"""One way to write a text: the attributes that say how it is written, and the text below the heading."""


def _form_without_parsing(text: str, margins: Mapping[str, str]) -> _Form | None:
    """Return a form that is certainly one message, without parsing it; None if there is none."""
    if sum(map(len, margins.values())) > _MAX_MARGIN_CHARS:
        return None
    inner = _inside(text, margins)
    if not _DOUBTFUL_LINE.search(f"\n{inner}"):
        return margins, inner
    levels = [len(match["hashes"]) for match in _FENCE_OR_HEADING.finditer(inner) if match["hashes"]]
    if _DOUBTFUL_LINE.search("\n" + _FENCE_OR_HEADING.sub("", inner)):
        return None
    shift = max(0, MESSAGE_LEVEL + 1 - min(levels, default=_DEEPEST_LEVEL))
    if not shift:
        return margins, inner
    if max(levels) + shift > _DEEPEST_LEVEL or any(map(_ESCAPED_UNDERLINE.fullmatch, inner.split("\n"))):
        return None
    deeper = "#" * shift
    lower = _FENCE_OR_HEADING.sub(lambda match: deeper + match[0] if match["hashes"] else match[0], inner)
    return {"demoted": str(shift), **margins}, lower


def _message_forms(text: str, margins: Mapping[str, str]) -> Iterator[_Form]:
    """Yield the forms of a text, plainest first; the last one is safe for every text.

    They are: unchanged; with its headings below the message's own level; in a fence longer than any inside; quoted.
    """
    if sum(map(len, margins.values())) <= _MAX_MARGIN_CHARS:
        inner = _inside(text, margins)
        yield margins, inner
        demoted = _demoted(inner.split("\n"))
        if demoted is not None:
            yield {"demoted": str(demoted[0]), **margins}, "\n".join(demoted[1])
    fence = "`" * max(3, 1 + max(map(len, FENCE_MARKS.findall(text)), default=0))
    yield {"written": "fenced"}, f"{fence}\n{text}\n{fence}"
    yield {"written": "quoted"}, "\n".join(as_quote(text.split("\n")))


def _message_text(heading: str, attributes: Mapping[str, str], changes: Mapping[str, str], form: _Form) -> str:
    """Return a message in a form; `changes` are the attributes from `_storable`."""
    of_form, body = form
    written = " ".join(filter(None, (of_form.get("written", ""), changes.get("written", ""))))
    all_changes = {**changes, **of_form, **({"written": written} if written else {})}
    block = attribute_block({**attributes, **all_changes})
    return f"{heading} {block}\n\n{body}" if block else f"{heading}\n\n{body}"


def _is_one_message(lines: Sequence[str]) -> bool:
    """Tell whether lines are one message that leaves no block open, both for the parser and read line by line."""
    both = [*lines, "", "## end"]
    starts = [1, len(both)]
    if [section.start_line for section, _ in find_headings(both, 1)] != starts:
        return False
    tree = parse_blocks(both)
    parts = tree.parts if tree else ()
    return [part.start_line for part in parts if isinstance(part, Heading) and part.level <= MESSAGE_LEVEL] == starts


def text_of_message(body: str, attributes: Mapping[str, str]) -> str:
    """Return the original text of a message from `written_message`, from its body."""
    text = _original_of((attributes, body))
    if "escaped" in attributes.get("written", "").split():
        text = _ESCAPE_SEQUENCE.sub(lambda match: chr(int(match[1], 16)) if match[1] else "\\", text)
    return text.replace("\n", "\r\n") if attributes.get("eol") == "crlf" else text


def _original_of(form: _Form) -> str:
    """Return the text that was written in a form."""
    attributes, body = form
    if not any(name in attributes for name in WRITING_ATTRIBUTES):
        return body_text(body.split("\n"))
    written = attributes.get("written", "").split()
    lines = body_text(body.split("\n")).split("\n")
    if "fenced" in written and len(lines) > 1 and lines[0] == lines[-1] and FENCE_MARKS.fullmatch(lines[0]):
        return "\n".join(lines[1:-1])
    if "quoted" in written:
        return "\n".join(line[2:] if line.startswith("> ") else line.removeprefix(">") for line in lines)
    if attributes.get("closed") == lines[-1]:  # earlier versions added such a line to close an open block
        lines.pop()
    if attributes.get("demoted") in ("0", "1", "2"):
        lines = _promoted(lines, int(attributes["demoted"]))
    return attributes.get("lead", "") + "\n".join(lines) + attributes.get("trail", "")


def _storable(text: str) -> tuple[str, dict[str, str]]:
    """Return text with LF line ends and without control characters, and the attributes that restore it."""
    changes = {}
    if "\r" in text and text.count("\r\n") == text.count("\r") == text.count("\n"):
        text, changes["eol"] = text.replace("\r\n", "\n"), "crlf"
    if CONTROL.search(text):
        text = _CONTROL_OR_BACKSLASH.sub(lambda match: "\\\\" if match[0] == "\\" else unicode_escape(match), text)
        changes["written"] = "escaped"
    return text, changes


def _margins_of(text: str) -> dict[str, str]:
    """Return the empty space around a text as attributes, because a note does not preserve it."""
    if text[:1] != "\n" and text[-1:] and not text[-1].isspace():
        return {}
    lead = text[: len(text) - len(text.lstrip("\n"))]
    trail = text[len(lead) + len(body_text(text.split("\n"))) :]
    return {name: space for name, space in (("lead", lead), ("trail", trail)) if space}


def _inside(text: str, margins: Mapping[str, str]) -> str:
    """Return a text without its margins."""
    return text[len(margins.get("lead", "")) : len(text) - len(margins.get("trail", ""))] if margins else text


def as_quote(lines: Sequence[str]) -> list[str]:
    """Return lines as a quote."""
    return [f"> {line}" if line else ">" for line in lines]


def _demoted(lines: Sequence[str]) -> tuple[int, list[str]] | None:
    """Return (shift, lines) with the headings moved below a message's own level; None if none is too high.

    A backslash before an underline turns the line above it from a heading into text.
    """
    headings = _headings(lines)
    levels = [heading.level for heading in headings if _is_hash_heading(lines, heading)]
    if not headings or min(heading.level for heading in headings) > MESSAGE_LEVEL:
        return None
    shift = max(0, MESSAGE_LEVEL + 1 - min(levels, default=_DEEPEST_LEVEL))
    changed = list(lines)
    for heading in headings:
        if _is_hash_heading(lines, heading):
            line = changed[heading.start_line - 1]
            changed[heading.start_line - 1] = line.replace("#", "#" * (shift + 1), 1)
        else:
            changed[heading.end_line - 1] = UNDERLINE.sub(r"\1\\\2", changed[heading.end_line - 1], count=1)
    return shift, changed


def _promoted(lines: Sequence[str], shift: int) -> list[str]:
    """Undo `_demoted`."""
    changed = list(lines)
    for heading in _headings(lines):
        line = lines[heading.start_line - 1]
        if _is_hash_heading(lines, heading) and heading.level > shift:
            changed[heading.start_line - 1] = line.replace("#" * (shift + 1), "#", 1)
    return [f"{match[1]}{match[2]}" if (match := _ESCAPED_UNDERLINE.fullmatch(line)) else line for line in changed]


def _headings(lines: Sequence[str]) -> list[Heading]:
    """Return the headings outside of lists, quotes and code."""
    tree = parse_blocks(lines)
    return [part for part in tree.parts if isinstance(part, Heading)] if tree else []


def _is_hash_heading(lines: Sequence[str], heading: Heading) -> bool:
    """Tell whether a heading is written with `#`, not with an underline."""
    return heading.start_line == heading.end_line and lines[heading.start_line - 1].lstrip(" ").startswith("#")


def _check_heading(role: str, time: str, attributes: Mapping[str, str]) -> None:
    """Raise UsageError for values that could not be parsed back from a heading."""
    if time and not _is_time(time):
        raise UsageError(f"{quoted(time)} is not a time", hint="Write it as 2026-11-21 10:02, or with a zone.")
    names = WRITING_ATTRIBUTES if is_role(role) else (*WRITING_ATTRIBUTES, ROLE)
    reserved = next((name for name in names if name in attributes), None)
    if reserved is not None:
        hint = f"Do not use these names: {', '.join(names)}."
        raise UsageError(f"memsync reserves the attribute {reserved}", hint=hint)


@lru_cache(maxsize=256)
def is_role(role: str) -> bool:
    """Tell whether a message heading that begins with this role parses back to the same role."""
    if not role.isprintable() or printable(role) != role or read_message_heading(role) != (role, "", {}):
        return False
    line = f"## {role}"
    headings = _headings([line])
    sections = find_headings([line], 1)
    return [section.role for section, _ in sections] == [role] == [heading.text for heading in headings]


@lru_cache(maxsize=256)
def _is_time(time: str) -> bool:
    return _TIME.fullmatch(time) is not None and parse_moment(time) is not None
