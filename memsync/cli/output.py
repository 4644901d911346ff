"""Print text, tables and JSON, safely for a terminal. Does not need click."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple

from memsync.cli.terminal import show, terminal_width, wants_colour
from memsync.model.text import duration, json_line, printable, still_indexing, visible

if TYPE_CHECKING:
    from memsync.errors import MemsyncError


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


class Kept(NamedTuple):
    """What a command prints, if it is not printed at once, and the terminal that it is for.

    A daemon sends it to the client for which it runs the command; `paged` shows it in a pager.
    """

    out: StringIO
    err: StringIO
    is_terminal: bool
    has_colour: bool
    width: int


class NotServed(Exception):
    """A command that runs in the daemon needs its client's standard input or editor."""


KEPT: ContextVar[Kept | None] = ContextVar("kept", default=None)
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
    kept = Kept(StringIO(), _Through(), is_terminal(), has_colour(), width())
    mark = KEPT.set(kept)
    try:
        yield
    finally:
        KEPT.reset(mark)
        show(kept.out.getvalue())


class _Through(StringIO):
    """Writes to standard error at once: remarks do not go into the pager."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)


def say_table(rows: Sequence[Sequence[str]], if_none: str = "") -> None:
    """Print rows of cells, two spaces apart. On a terminal columns are aligned, and the widest are cut to fit it.

    The first column names what the next command may be about, so other columns are left out before it is cut. Without
    rows it remarks `if_none`.
    """
    if not rows and if_none:
        remark(if_none)
    cells = [[printable(cell) for cell in row] for row in rows]
    columns = width()
    if not columns or not cells:
        for row in cells:
            say("  ".join(filter(None, row)))
        return
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    while sum(widths) + 2 * sum(map(bool, widths)) - 2 > columns and max(widths) > MIN_COLUMN_WIDTH:
        widest = max(widths[1:], default=0)
        if widest > MIN_COLUMN_WIDTH:
            widths[widths.index(widest, 1)] -= 1
        elif widest == MIN_COLUMN_WIDTH:
            widths[widths.index(widest, 1)] = 0
        else:
            widths[0] -= 1
    for row in cells:
        fitted = [_fitted(cell, size) for cell, size in zip(row, widths, strict=True) if size]
        say("  ".join(fitted).rstrip())


def _fitted(cell: str, size: int) -> str:
    return cell.ljust(size) if len(cell) <= size else f"{cell[: size - 1]}…"


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
    seconds = (datetime.now(UTC) - at).total_seconds()
    ago = f" ({duration(seconds).rsplit(' ', 2)[0] if seconds > 120 else duration(seconds)} ago)"
    return f"{at.astimezone():%Y-%m-%d %H:%M}" + (ago if 0 <= seconds < 86_400 else "")


def say_json(value: object) -> None:
    """Print exactly one JSON document on stdout, with invisible characters as JSON escapes."""
    import json

    from memsync.model.json import to_json

    say_as_it_is(json_line(json.dumps(to_json(value), ensure_ascii=False, indent=2)))


def say_answer(document: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Print an answer: one JSON document, or lines for people."""
    if as_json:
        say_json(document)
        return
    for line in lines:
        say(line)


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
