"""How a note ends: whether text that follows would be parsed as intended, and which lines must come first."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from memsync.errors import WriteRefused
from memsync.notes import conflict_marks
from memsync.notes.blocks import Heading, parse_blocks
from memsync.notes.decode import decode, is_binary, is_utf16
from memsync.notes.frontmatter import head_is_open, read_head
from memsync.notes.message_format import open_fence

_OPENERS = (b"```", b"~~~", b"<")
_HEAD_BEGINS = (b"---", b"\xef\xbb\xbf---")
_OPENS = re.compile(r" {0,3}(?:(`{3,}|~{3,})|<)")
"""Matches the beginning of a line that may open a fence or an HTML block outside of lists and quotes.

Only these two can continue after an empty line or a heading. A block inside a list or a quote ends with it.
"""
_HEADING = re.compile(r"#{1,6}(?:[ \t]|$)")
_HTML_ENDS = ("-->", "?>", "]]>", ">", "</pre>")
"""The ends of the five kinds of HTML blocks that an empty line does not close (CommonMark 0.31, section 4.6)."""
_WINDOW_LINES = 400


@dataclass(frozen=True, slots=True)
class NoteEnd:
    """The end of a note.

    `newline` is the note's line end, `last_line` its last line without that, `lines` its number of lines. `closing`
    holds the lines that close a block that is still open, for example a fence; it is usually empty. `head_is_open` is
    True if the note begins with a `---` that no other `---` closes, so that an appended one would. `joins_items` is
    False if the last line belongs to an HTML block, so that a list item right below it would not be parsed as one.
    """

    newline: str = "\n"
    lines: int = 0
    ends_line: bool = True
    last_line: str = ""
    closing: str = ""
    head_is_open: bool = False
    joins_items: bool = True


def read_end(path: str, content: bytes) -> NoteEnd:
    """Return how a note ends. Raises WriteRefused if it is not text or has git conflict markers.

    It examines as little of the note as possible, because every append pays for this while an editor keeps saving.
    """
    if is_utf16(content):
        raise WriteRefused(f"{path} is UTF-16", hint="Save it as UTF-8, then write again.")
    if is_binary(content):
        raise WriteRefused(f"{path} is not a text file", hint="Name another note.")
    if conflict_marks.are_in(content):
        raise WriteRefused(
            f"{path} has git conflict markers", hint="Resolve the conflict in an editor, then write again."
        )
    if b"\r" in content or content.startswith(_HEAD_BEGINS) or any(mark in content for mark in _OPENERS):
        lines: Sequence[str] = decode(content).lines
        count, last = len(lines), lines[-1] if lines else ""
    else:
        lines = ()
        count = content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
        last = content.removesuffix(b"\n").rpartition(b"\n")[2].decode("utf-8", "replace")
    newline = "\r\n" if content.count(b"\r\n") * 2 > content.count(b"\n") else "\n"
    # A final CR ends the line only if line ends are CR LF. Otherwise the next appended LF completes it to one line end.
    is_ended = content.endswith(b"\n") or (content.endswith(b"\r") and newline == "\r\n")
    opens = any(map(_OPENS.match, lines))
    body = lines[read_head(lines).line_count :] if opens else ()
    closing = closing_lines(body)
    if closing is None:
        raise WriteRefused(
            f"{path} ends with an open block that memsync cannot close", hint="Close it in an editor, then write again."
        )
    return NoteEnd(
        newline=newline,
        lines=count,
        ends_line=not content or is_ended,
        last_line=last,
        closing=closing,
        head_is_open=bool(lines) and head_is_open(lines),
        joins_items=joins_items(body),
    )


def closing_lines(lines: Sequence[str]) -> str | None:
    """Return the lines to append so that a heading can follow: empty when nothing is open, None if nothing helps.

    The heading is recognised both by the parser and line by line, as very large notes are read (`find_headings`).
    """
    if not any(map(_OPENS.match, lines)):
        return ""
    block = _last_block(lines)
    closing = _closing_line(block) if block else ""
    if closing is None:
        return None
    closed = [closing] if closing else []
    fence = open_fence([*lines, *closed])
    return "\n".join([*closed, *(["<!--", fence, "-->"] if fence else [])])


def joins_items(lines: Sequence[str]) -> bool:
    """Tell whether a list item right below these lines is parsed as a list item."""
    block = _last_block(lines)
    return not block or _is_last_line_parsed([*block, "- end"])


def _is_last_line_parsed(lines: Sequence[str]) -> bool:
    """Tell whether the last line, which looks like a heading or a list item, is parsed as one.

    True if the parser cannot read the lines: such a note is read line by line, and there the line is one.
    """
    tree = parse_blocks(lines)
    if tree is None:
        return True
    last = tree.parts[-1]
    return last.start_line == len(lines) and (isinstance(last, Heading) or last.entry)


def _closing_line(block: Sequence[str]) -> str | None:
    """Return the line that closes a top-level block: empty when none is needed, None when no line does."""
    opened = _OPENS.match(block[0])
    ends = () if opened is None else (opened[1],) if opened[1] else _HTML_ENDS
    return next(
        (end for end in ("", *ends) if _is_last_line_parsed([*block, *filter(None, [end]), "", "## end"])), None
    )


def _last_block(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of the last top-level block; empty if no block can be open.

    Parses the note in windows. Each begins with the last block of the window before, because a top-level block parses
    the same way whatever precedes it. Skips parts without a line that may open a fence or an HTML block.
    """
    openers = [number for number, line in enumerate(lines) if _OPENS.match(line)]
    start, size = 0, _WINDOW_LINES
    while True:
        following = bisect_left(openers, start)
        if following == len(openers):
            return ()
        opener = openers[following]
        start = next((number for number in range(opener, start, -1) if _HEADING.match(lines[number])), start)
        tree = parse_blocks(lines[start : start + size])
        if tree is None:
            return ()
        begins = [token.map[0] for token in tree.tokens if token.level == 0 and token.nesting >= 0 and token.map]
        last = begins[-1] if begins else 0
        if start + size >= len(lines):
            return lines[start + last :]
        start, size = (start + last, _WINDOW_LINES) if last else (start, size * 2)
