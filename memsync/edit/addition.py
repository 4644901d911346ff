"""How a note ends, and how text is joined to that end so that it is read as what it is."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memsync.errors import WriteRefused
from memsync.model.note import Block
from memsync.notes.blocks import Heading, parse_blocks, thread_parser
from memsync.notes.decode import decode, is_binary, is_utf16
from memsync.notes.frontmatter import closes_head, head_is_open, read_head
from memsync.notes.transcript import open_fence

_CONFLICT = re.compile(rb"^(?:<{7}|>{7})(?: |\r?$)", re.MULTILINE)
_CONFLICT_MARKS = (b"<<<<<<<", b">>>>>>>")
_OPENERS = (b"```", b"~~~", b"<")
_HEAD_BEGINS = (b"---", b"\xef\xbb\xbf---")
_OPENS = re.compile(r" {0,3}(?:(`{3,}|~{3,})|<)")
"""How a line begins that may open a fence or an HTML block outside of lists and quotes.

Only those two can reach beyond an empty line and a heading: whatever a list or a quotation holds ends with it.
"""
_HEADING = re.compile(r"#{1,6}(?:[ \t]|$)")
_HTML_ENDS = ("-->", "?>", "]]>", ">", "</pre>")
"""What closes the five kinds of HTML blocks that an empty line does not (CommonMark 0.31, section 4.6)."""
_WINDOW_LINES = 400


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a note. `closing` holds the lines that close what is still open there, a fence say; mostly none.

    `newline` is the note's line end; `last_line` comes without it; `lines` counts those that are there. `head_is_open`
    says that the note begins with `---` and nothing closes that: the next such line would. `joins_items` is False where
    a list item right below the last line would not be one: that line is no item either, but part of an HTML block.
    """

    newline: str = "\n"
    lines: int = 0
    ends_line: bool = True
    last_line: str = ""
    closing: str = ""
    head_is_open: bool = False
    joins_items: bool = True


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
    if b"\r" in content or content.startswith(_HEAD_BEGINS) or any(mark in content for mark in _OPENERS):
        lines: Sequence[str] = decode(content).lines
        count, last = len(lines), lines[-1] if lines else ""
    else:
        lines = ()
        count = content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
        last = content.removesuffix(b"\n").rpartition(b"\n")[2].decode("utf-8", "replace")
    newline = "\r\n" if content.count(b"\r\n") * 2 > content.count(b"\n") else "\n"
    # A CR and the LF that is appended to it are one line end.
    is_ended = content.endswith(b"\n") or (content.endswith(b"\r") and newline == "\r\n")
    opens = any(map(_OPENS.match, lines))
    body = lines[read_head(lines).line_count :] if opens else ()
    return Tail(
        newline=newline,
        lines=count,
        ends_line=not content or is_ended,
        last_line=last,
        closing=_closing_of_note(path, body),
        head_is_open=bool(lines) and head_is_open(lines),
        joins_items=joins_items(body),
    )


def closing_of(lines: Sequence[str]) -> str | None:
    """Return the lines to append so that a heading after them is one: empty when nothing is open, None if none help.

    Notes are read in two ways, by the parser and, when they are too large for it, line by line
    (`threads.find_headings`). The heading is one in both.
    """
    if not any(map(_OPENS.match, lines)):
        return ""
    block = _last_block(lines)
    closing = _closing_of_block(block) if block else ""
    if closing is None:
        return None
    closed = [closing] if closing else []
    fence = open_fence([*lines, *closed])
    return "\n".join([*closed, *(["<!--", fence, "-->"] if fence else [])])


def joins_items(lines: Sequence[str]) -> bool:
    """Tell whether a list item right below these lines is read as one."""
    if not any(map(_OPENS.match, lines)):
        return True
    block = _last_block(lines)
    tree = parse_blocks(thread_parser(), [*block, "- end"], 1) if block else None
    if tree is None:
        return True
    last = tree.parts[-1] if tree.parts else None
    return isinstance(last, Block) and last.entry and last.start_line == len(block) + 1


def ends_with_heading(lines: Sequence[str]) -> bool:
    """Tell whether the parser takes the last line, which looks like a heading, for one; also if it reads none of it."""
    tree = parse_blocks(thread_parser(), lines, 1)
    if tree is None:  # such a note is read line by line
        return True
    last = tree.parts[-1] if tree.parts else None
    return isinstance(last, Heading) and last.start_line == len(lines)


def _closing_of_note(path: str, body: Sequence[str]) -> str:
    closing = closing_of(body)
    if closing is None:
        raise WriteRefused(
            f"{path} ends inside of something that cannot be closed", hint="Close it in an editor, then write again."
        )
    return closing


def _closing_of_block(block: Sequence[str]) -> str | None:
    """Return the line that closes a block of its own, empty when none is needed, None when no line does."""
    opened = _OPENS.match(block[0])
    ends = () if opened is None else (opened[1],) if opened[1] else _HTML_ENDS
    return next((end for end in ("", *ends) if ends_with_heading([*block, *filter(None, [end]), "", "## end"])), None)


def _last_block(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of the last block that stands outside of all others; empty where nothing can be open.

    The parser reads the note in windows, each from the beginning of the last block of the one before: what stands
    outside of all others is read the same whatever precedes it. What holds no opening line is passed over.
    """
    openers = [number for number, line in enumerate(lines) if _OPENS.match(line)]
    start, size = 0, _WINDOW_LINES
    while True:
        following = bisect_left(openers, start)
        if following == len(openers):
            return ()
        opener = openers[following]
        start = next((number for number in range(opener, start, -1) if _HEADING.match(lines[number])), start)
        tree = parse_blocks(thread_parser(), lines[start : start + size], 1)
        if tree is None:
            return ()
        begins = [token.map[0] for token in tree.tokens if token.level == 0 and token.nesting >= 0 and token.map]
        last = begins[-1] if begins else 0
        if start + size >= len(lines):
            return lines[start + last :]
        start, size = (start + last, _WINDOW_LINES) if last else (start, size * 2)


_IN_LIST = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])[ \t]|[ \t]{2,}\S")


@dataclass(frozen=True, slots=True)
class Addition:
    """What is to be appended: whole lines with LF between them and none at the end, with nothing left open in them.

    `guarded` is the same without a line that would close front matter; empty when `text` has none.
    """

    text: str
    guarded: str = ""

    @property
    def is_item(self) -> bool:
        """True when it is a list item, which may follow another at once."""
        return _IN_LIST.match(self.text) is not None


def joined(tail: Tail, additions: Iterable[Addition]) -> tuple[str, int, Tail]:
    """Return the text to append for these additions, the line on which the last of them begins, and the new end.

    Raises WriteRefused where the text would become part of front matter that is not closed.
    """
    text, line = "", 0
    for addition in additions:
        added = _added(tail, addition)
        joint = "" if tail.ends_line else "\n"
        joint += f"{tail.closing}\n" if tail.closing else ""
        before = tail.closing or tail.last_line  # of which only spaces and tabs make an empty line in Markdown
        is_next = addition.is_item and tail.joins_items and not tail.closing and _IN_LIST.match(before)
        if before.strip(" \t") and not is_next:
            joint += "\n"
        line = tail.lines + joint.count("\n") + tail.ends_line
        text += f"{joint}{added}\n"
        lines = added.split("\n")
        tail = Tail(
            tail.newline,
            line + len(lines) - 1,
            last_line=lines[-1],
            head_is_open=tail.head_is_open,
            joins_items=addition.is_item or joins_items(lines),
        )
    return text.replace("\n", tail.newline), line, tail


def _added(tail: Tail, addition: Addition) -> str:
    """Return the text of an addition that does not close front matter. Raises WriteRefused when there is none."""
    if not tail.head_is_open or not any(map(closes_head, addition.text.split("\n"))):
        return addition.text
    if addition.guarded:
        return addition.guarded
    raise WriteRefused(
        "the note begins with --- that nothing closes, and this text would",
        hint="Close the note's front matter with a line of ---, or put an empty line before its first.",
    )
