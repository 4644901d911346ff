"""What stands at the end of a note, so that what is appended is read as what it is and joined as a person would."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from memsync.errors import WriteRefused
from memsync.notes.blocks import Heading, parse_blocks, thread_parser
from memsync.notes.decode import is_binary, is_utf16, split_lines
from memsync.notes.frontmatter import head_is_open

MAX_TRIED_CHARS = 100_000
_CONFLICT = re.compile(rb"^(?:<{7}|>{7})(?: |\r?$)", re.MULTILINE)
_CONFLICT_MARKS = (b"<<<<<<<", b">>>>>>>")
_OPENERS = (b"```", b"~~~", b"<")
_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})([^\n]*)$")
_LIST_ITEM = re.compile(r"^( {0,3})((?:[-+*]|\d{1,9}[.)]) {1,4})\S")
_HTML = (
    ("<!--", "-->"),
    ("<![CDATA[", "]]>"),
    ("<?", "?>"),
    ("<script", "</script>"),
    ("<pre", "</pre>"),
    ("<style", "</style>"),
    ("<textarea", "</textarea>"),
)
"""What begins an HTML block that only its own end closes (CommonMark 0.31, section 4.6), and that end."""
_DOUBTFUL = re.compile(r"^[^`~\n][^\n]*(?:`{3}|~{3})|<", re.MULTILINE)
"""What the parser is asked about: HTML, and a fence that does not stand at the beginning of its line."""
_MARKS = re.compile(r"`{3}|~{3}|<(?:!--|!\[CDATA\[|\?|script|pre|style|textarea)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a note. `closing` is the line that closes what is still open there: a fence, a comment; else empty.

    `newline` is the note's line end; `last_line` comes without it; `lines` counts those that are there. `head_is_open`
    says that the note begins with `---` and nothing closes that: the next such line would.
    """

    newline: str = "\n"
    lines: int = 0
    ends_line: bool = True
    last_line: str = ""
    closing: str = ""
    head_is_open: bool = False


def read_tail(path: str, content: bytes) -> Tail:
    """Return how a note ends. Raises WriteRefused for what is no text or holds git's conflict markers.

    As little of the note is looked at as will do: beside an editor that keeps saving, this is what an append costs.
    """
    if any(mark in content for mark in _CONFLICT_MARKS) and _CONFLICT.search(content):
        raise WriteRefused(
            f"{path} has git conflict markers", hint="Resolve the conflict in an editor, then write again."
        )
    if is_utf16(content):
        raise WriteRefused(f"{path} is UTF-16", hint="Save it as UTF-8, then write again.")
    if is_binary(content):
        raise WriteRefused(f"{path} is not a text file", hint="Name another note.")
    if b"\r" in content or content.startswith(b"---") or any(mark in content for mark in _OPENERS):
        lines: Sequence[str] = split_lines(content.decode("utf-8-sig", "replace"))
        count, last = len(lines), lines[-1] if lines else ""
    else:
        lines = ()
        count = content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
        last = content.removesuffix(b"\n").rpartition(b"\n")[2].decode("utf-8", "replace")
    return Tail(
        newline="\r\n" if content.count(b"\r\n") * 2 > content.count(b"\n") else "\n",
        lines=count,
        ends_line=not content or content.endswith((b"\n", b"\r")),
        last_line=last,
        closing=open_at_end(lines),
        head_is_open=bool(lines) and head_is_open(lines),
    )


def open_at_end(lines: Sequence[str]) -> str:
    """Return the line that closes the fence or the HTML block that the last of these lines leaves open; else empty.

    What is guessed line by line is tried by the parser, unless that would take long.
    """
    text = "\n".join(lines)
    if not _MARKS.search(text):
        return ""
    guess = next(iter(deque(open_states(lines), maxlen=1)), "")
    if len(text) > MAX_TRIED_CHARS or not _DOUBTFUL.search(text):
        return guess
    others = ("", *(mark for mark in ("```", "~~~") if mark in text), *(end for _, end in _HTML if end != guess))
    return next((closing for closing in (guess, *others) if _is_closed_by(text, closing)), guess)


def open_states(lines: Iterable[str]) -> Iterator[str]:
    """Yield for each line what would close what is open behind it, empty when nothing is.

    What a list item or a quotation leaves open ends with it, so only what stands outside of them counts.
    """
    closing, in_list = "", 0
    for line in lines:
        indent = len(line) - len(line.lstrip(" "))
        item = _LIST_ITEM.match(line)
        if closing:
            closing = "" if _closes(line, closing) else closing
        elif item is not None:
            in_list = len(item[1]) + len(item[2])  # a fence on the item's own line lies in the item
        else:
            if line.strip() and indent < in_list:
                in_list = 0
            if not in_list and indent <= 3:
                closing = _opens(line)
        yield closing


def _is_closed_by(text: str, closing: str) -> bool:
    """Tell whether a heading behind the text and what closes it is one."""
    tree = parse_blocks(thread_parser(), (*text.split("\n"), closing, "", "## end"), 1)
    last = tree.parts[-1] if tree is not None and tree.parts else None
    return isinstance(last, Heading) and last.level == 2


def _opens(line: str) -> str:
    """Return what closes the block that a line begins, empty when it begins none or closes it itself."""
    fence = _FENCE.match(line)
    if fence is not None:
        return fence[2] if fence[2][0] == "~" or "`" not in fence[3] else ""
    text = line.strip().lower()
    for begin, end in _HTML:
        if text.startswith(begin.lower()):
            return "" if end.lower() in text[len(begin) :] else end
    return ""


def _closes(line: str, closing: str) -> bool:
    if closing[0] in "`~":
        text = line.strip()
        return len(text) >= len(closing) and set(text) == {closing[0]} and len(line) - len(line.lstrip(" ")) <= 3
    return closing.lower() in line.lower()
