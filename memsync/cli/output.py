"""Print text, tables and JSON, safely for a terminal. Does not need click."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple, TextIO

from memsync.cli.terminal import show, terminal_width, wants_colour
from memsync.model.text import duration, json_line, printable, still_indexing, visible
from memsync.system import clock

if TYPE_CHECKING:
    from memsync.errors import MemsyncError

DOORS = (
    "Your notes: memsync init, memsync sync, memsync search WORDS",
    "Your agents: memsync agents connect claude-code",
    "Your code: from memsync import Memory; other languages: memsync http",
)
"""What memsync is for, with the first command of each. Help, `init`, `doctor` and the pages lead to it."""


def say(text: str = "", *, err: bool = False, end: str = "\n") -> None:
    """Print text, made safe for a terminal. A name in it also needs `printable`."""
    say_as_it_is(visible(text), err=err, end=end)


def remark(text: str) -> None:
    """Print a remark on stderr, made safe for a terminal."""
    say(f"memsync: {text}", err=True)


def say_as_it_is(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Print text unchanged: it has colours in it, or its reader needs every byte."""
    kept = KEPT.get()
    out, errors = (kept.out, kept.err) if kept else (sys.stdout, sys.stderr)
    (errors if err else out).write(f"{text}{end}")


def report(error: MemsyncError) -> None:
    """Print an error and what to do about it on stderr."""
    remark(printable(error.message))
    for line in error.hint.splitlines():
        say(f"  {printable(line)}", err=True)


class CapturedOutput(NamedTuple):
    """What a command prints, if it is not printed at once, and the terminal that it is for.

    A daemon sends it to the client for which it runs the command; `paged` shows it in a pager, without remarks.
    """

    out: TextIO
    err: TextIO
    is_terminal: bool = False
    has_colour: bool = False
    width: int = 0


class NotServed(Exception):
    """A command that runs in the daemon needs its client's standard input or editor."""


KEPT: ContextVar[CapturedOutput | None] = ContextVar("kept", default=None)
MIN_COLUMN_WIDTH = 10
"""No column of a table gets narrower."""
NO_EXIT_CODE = 1
"""The exit code of a command whose answer is "no": nothing matches, a check finds a fault."""
COLOUR: ContextVar[str] = ContextVar("colour", default="auto")
"""The value of `--color`: auto, always or never."""


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    kept = KEPT.get()
    return kept.is_terminal if kept else sys.stdout.isatty()


def has_colour() -> bool:
    """Return whether to colour the output: as `--color` says; by default on a terminal unless NO_COLOR is set."""
    kept = KEPT.get()
    return kept.has_colour if kept else wants_colour(COLOUR.get())


def width() -> int:
    """Return the terminal's number of columns, 80 if it is unknown; 0 (no limit) if the output is no terminal."""
    kept = KEPT.get()
    return kept.width if kept else terminal_width()


@contextmanager
def paged() -> Iterator[None]:
    """Show what this block prints in a pager if it is longer than the terminal."""
    if KEPT.get() or not sys.stdout.isatty():
        yield
        return
    out = StringIO()
    mark = KEPT.set(CapturedOutput(out, sys.stderr, is_terminal(), has_colour(), width()))
    try:
        yield
    finally:
        KEPT.reset(mark)
        show(out.getvalue())


def say_table(rows: Sequence[Sequence[str]], if_none: str = "") -> None:
    """Print the lines of `table`; without rows it remarks `if_none`."""
    if not rows and if_none:
        remark(if_none)
    for line in table(rows):
        say(line)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines, two spaces apart. On a terminal columns are aligned, and cut to fit it.

    The first column names what the next command may be about, so it is cut last, and the last columns are left out if
    fewer than MIN_COLUMN_WIDTH characters would be left for each.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    columns = width()
    if not columns or not cells:
        return ["  ".join(filter(None, row)) for row in cells]
    filled = [column for column in zip(*cells, strict=True) if any(column)]
    room = (columns - max(map(len, filled[0]))) // (MIN_COLUMN_WIDTH + 2)
    shown = filled[: 1 + max(0, room)]
    widths = [max(map(_width, column)) for column in shown]
    while (excess := sum(widths) + 2 * (len(widths) - 1) - columns) > 0 and max(widths) > 1:
        longest = max(widths[1:], default=0)
        if longest <= MIN_COLUMN_WIDTH:
            widths[0] = max(1, widths[0] - excess)
            break
        widths[widths.index(longest, 1)] -= 1
    return ["  ".join(map(_padded, row, widths)).rstrip() for row in zip(*shown, strict=True)]


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else not unicodedata.combining(each) for each in text)


def _padded(text: str, columns: int) -> str:
    """Return a text with blanks up to a number of columns, or cut, with an ellipsis at its end."""
    if _width(text) > columns:
        text = text[:columns]
        while _width(text) >= columns:
            text = text[:-1]
        text += "…"
    return text + " " * (columns - _width(text))


def table_day(moment: str) -> str:
    """Return the day of a moment for a table on a terminal; elsewhere the moment as it is."""
    return moment[:10] if is_terminal() else moment


def local_time(moment: str) -> str:
    """Return a moment (ISO 8601 with a zone) in local time, and how long ago it was; any other text unchanged."""
    try:
        at = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    if at.tzinfo is None:
        return moment
    seconds = (clock.utc() - at).total_seconds()
    ago = f" ({duration(seconds).rsplit(' ', 2)[0] if seconds > 120 else duration(seconds)} ago)"
    return f"{at.astimezone():%Y-%m-%d %H:%M}" + (ago if 0 <= seconds < 86_400 else "")


def say_json(value: object) -> None:
    """Print exactly one JSON document on stdout, with invisible characters as JSON escapes."""
    import json

    from memsync.model.json import to_json

    say_as_it_is(json_line(json.dumps(to_json(value), ensure_ascii=False, indent=2)))


class CommandAnswer(NamedTuple):
    """What a command prints: one JSON document or lines for people, then remarks on stderr; and its exit code."""

    document: object
    lines: Iterable[str] = ()
    remarks: Iterable[str] = ()
    code: int = 0


def say_pending(pending_text: int) -> None:
    """Say on stderr how many files the answer does not cover yet, if any."""
    if pending_text:
        remark(still_indexing(pending_text))


def after_failed_output(error: OSError) -> int:
    """Return the exit code for output that could not be written: 0 if its reader (`| head`) has read enough."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # otherwise the interpreter tries again, and complains
    if isinstance(error, BrokenPipeError):
        return 0
    from memsync.errors import FilesystemError

    remark(f"{printable(str(error.filename or 'the answer'))}: {error.strerror}")
    return FilesystemError.exit_code
