"""Text that somebody gives -> Markdown that stands for it in a note: a list item, a message, attributes.

Whatever the text is, what is made of it is read again as one item or one message, and ends with everything closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from memsync.errors import UsageError
from memsync.notes.attributes import ESCAPES, MAX_BLOCK_CHARS
from memsync.writing.join import Addition
from memsync.writing.tail import open_at_end, open_states

_BLOCK_START = re.compile(r"[ \t]*(?:[-+*>#|=]|\d{1,9}[.)][ \t]|`{3}|~{3}|<|\[[^\]]*\]:|$)|[ ]{4}|\t")
_HEADING = re.compile(r"( {0,3})(#+)(?=[ \t]|$)")
_UNDERLINE = re.compile(r"( {0,3})(\\*)(=+|-+)[ \t]*")
_BARE = re.compile(r"""[^\s"{}\\]+""")
_CLASSES = re.compile(r"""[^\s{}.#="]+(?: [^\s{}.#="]+)*""")
_MARKS = "#-=`~<"
_INVOLVED = re.compile(r"^ {0,3}(?:#|\\*(?:=+|-+)[ \t]*$)|`{3}|~{3}|<", re.MULTILINE)
"""What a text has that needs more than being put below a heading; without any of `_MARKS` it has none of it."""
_NAME = re.compile(r"[A-Za-z_:][\w:.-]*")
MESSAGE_LEVEL = 2
WRITING_ATTRIBUTES = ("demoted", "closed", "lead", "trail", "eol")
"""Those that only say how a message's text is written."""
MOST_LEVELS = 6


def cleaned(text: str) -> str:
    """Return text with LF as its line end, without NUL and what is no text, and without empty lines around it.

    Raises UsageError when nothing is left.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "�").split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise UsageError("there is no text to write", hint="Give it as arguments or on standard input.")
    return "\n".join(lines).encode("utf-8", "replace").decode()


MOST_ITEM_CHARS = 100_000
"""A longer entry would make its note one that is too large to be understood."""


def list_item(
    text: str, *, time: str = "", tags: Sequence[str] = (), attributes: Mapping[str, str] | None = None
) -> Addition:
    """Return text as a list item, dated to the minute where `time` (`10:02`) says so.

    Lines after the first are indented; text that does not begin with plain words begins on a line of its own, so that
    its fence, list or heading is what it was. Raises UsageError for text that is no entry.
    """
    if len(text) > MOST_ITEM_CHARS:
        raise UsageError(
            f"an entry of {len(text)} characters is too long", hint="Make it a note of its own: memsync note new"
        )
    first, *rest = _with_end(cleaned(text)).split("\n")
    if _BLOCK_START.match(first) or (rest and _UNDERLINE.fullmatch(rest[0])):
        first, rest = "", ["", first, *rest] if time or tags or attributes else [first, *rest]
    marks = [f"#{tag}" for tag in tags]
    start = " ".join(filter(None, ("-", time, first.strip(), *marks, attribute_block(attributes or {}))))
    return Addition("\n".join([start, *(f"  {line}" if line.strip() else "" for line in rest)]))


def message(role: str, text: str, time: str, attributes: Mapping[str, str]) -> Addition:
    """Return text as a message of a thread: a level-2 heading that names the role, and below it the text.

    Headings in the text are demoted below the message's own, and `demoted` says by how many levels; what the text
    leaves open is closed, and `closed` says with what. So `text_of_message` can give the text back as it was.
    """
    return Addition(_message(role, cleaned(text), time, attributes))


def exact_message(role: str, text: str, time: str, attributes: Mapping[str, str]) -> str:
    """Return any text as a message that gives it back to the last character; its ends are kept in the heading.

    `lead` and `trail` are the empty lines around it, `eol=crlf` says how its lines end. Only NUL, line ends of several
    kinds in one text, and what is no text are lost.
    """
    marks = {}
    if "\r" in text:
        if text.count("\r\n") == text.count("\r") == text.count("\n"):
            marks["eol"] = "crlf"
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        text = text.replace("\0", "�")
    if text[:1] == "\n" or text[-1:].isspace() or not text:
        inner = text.lstrip("\n")
        lines = inner.split("\n")
        while lines and not lines[-1].strip():
            lines.pop()
        kept = "\n".join(lines)
        ends = {"lead": text[: len(text) - len(inner)], "trail": inner[len(kept) :]}
        marks.update({name: end for name, end in ends.items() if end})
        text = kept
    return _message(role, text, time, {**attributes, **marks} if marks else attributes)


def _message(role: str, text: str, time: str, attributes: Mapping[str, str]) -> str:
    heading = f"## {role} @ {time}" if time else f"## {role}"
    if not any(mark in text for mark in _MARKS) or not _INVOLVED.search(text):  # nothing is what it does not seem
        block = attribute_block(attributes)
        return f"{heading} {block}\n\n{text}" if block else f"{heading}\n\n{text}"
    lines = text.split("\n")
    free = _free(lines)
    levels = [
        len(found[2]) for line, is_free in zip(lines, free, strict=True) if is_free and (found := _HEADING.match(line))
    ]
    shift = max(0, MESSAGE_LEVEL + 1 - min((level for level in levels if level <= MOST_LEVELS), default=MOST_LEVELS))
    body = _each(lines, free, lambda line, previous: _demoted(line, previous, shift))
    closing = open_at_end(body)  # of what is written: a line that has lost its power no longer holds a fence
    marks = ({"demoted": str(shift)} if shift else {}) | ({"closed": closing} if closing else {})
    block = attribute_block({**attributes, **marks})
    return "\n".join([f"{heading} {block}" if block else heading, "", *body, *([closing] if closing else [])])


def text_of_message(body: str, attributes: Mapping[str, str]) -> str:
    """Return the text that `message` or `exact_message` was given, from what stands below its heading."""
    lines = body.split("\n")
    if attributes.get("closed") == lines[-1]:
        lines.pop()
    shift = int(attributes["demoted"]) if attributes.get("demoted") in ("1", "2") else 0
    text = "\n".join(_each(lines, _free(lines), lambda line, previous: _promoted(line, previous, shift)))
    text = attributes.get("lead", "") + text + attributes.get("trail", "")
    return text.replace("\n", "\r\n") if attributes.get("eol") == "crlf" else text


def attribute_block(attributes: Mapping[str, str]) -> str:
    """Return `{key=value key="two words"}`, empty without any. Raises UsageError for what cannot be written so."""
    parts = []
    for key, value in attributes.items():
        if key == "class" and _CLASSES.fullmatch(value):
            parts += [f".{name}" for name in value.split(" ")]
        elif _NAME.fullmatch(key):
            parts.append(f"{key}={value}" if _BARE.fullmatch(value) else f"{key}={_quoted(value)}")
        else:
            raise UsageError(f"{key!r} cannot name an attribute", hint="Use letters, digits, _ and -.")
    block = "{" + " ".join(parts) + "}" if parts else ""
    if len(block) > MAX_BLOCK_CHARS:
        raise UsageError(f"the attributes are over {MAX_BLOCK_CHARS} characters", hint="Put the rest into the text.")
    return block


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    for letter, character in ESCAPES.items():
        escaped = escaped.replace(character, f"\\{letter}")
    return f'"{escaped}"'


def _with_end(text: str) -> str:
    closing = open_at_end(text.split("\n"))
    return f"{text}\n{closing}" if closing else text


def _free(lines: Sequence[str]) -> list[bool]:
    """Return for each line whether it stands outside of fences and HTML blocks, so that `#` begins a heading."""
    return [not before and not after for before, after in pairwise(("", *open_states(lines)))]


def _each(lines: Sequence[str], free: Sequence[bool], change: Callable[[str, str], str]) -> list[str]:
    """Change each free line, given the one before it."""
    above = ("", *lines)
    return [change(line, above[number]) if free[number] else line for number, line in enumerate(lines)]


def _demoted(line: str, previous: str, shift: int) -> str:
    """Return a heading some levels lower, and what would make the line above a heading without that power."""
    heading, underline = _HEADING.match(line), _UNDERLINE.fullmatch(line)
    if heading is not None:
        return f"{heading[1]}{'#' * shift}{line[len(heading[1]) :]}"
    if underline is not None and previous.strip():
        return f"{underline[1]}\\{line[len(underline[1]) :]}"
    return line


def _promoted(line: str, previous: str, shift: int) -> str:
    """Undo `_demoted`."""
    heading, underline = _HEADING.match(line), _UNDERLINE.fullmatch(line)
    if heading is not None and len(heading[2]) > shift:
        return f"{heading[1]}{line[len(heading[1]) + shift :]}"
    if underline is not None and underline[2] and previous.strip():
        return f"{underline[1]}{line[len(underline[1]) + 1 :]}"
    return line
