"""What is printed, and how: also where click is not loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple, TextIO

from memsync.cli.terminal import show, terminal_width, wants_colour
from memsync.model.text import duration, json_line, printable, still_indexing, visible

if TYPE_CHECKING:
    from memsync.errors import MemsyncError

__all__ = ["count", "duration", "json_line", "printable", "say", "say_as_it_is", "say_json", "say_pending", "visible"]


def say(text: str = "", *, err: bool = False, end: str = "\n") -> None:
    """Print text on stdout or stderr. Nothing in it can drive the terminal; a name in it needs `printable`, too."""
    say_as_it_is(visible(text), err=err, end=end)


def say_as_it_is(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Print text that holds colours, or that must be had to the byte."""
    kept = KEPT.get()
    stream: TextIO = (kept.err if err else kept.out) if kept else sys.stderr if err else sys.stdout
    stream.write(f"{text}{end}")


def report(error: MemsyncError) -> None:
    """Print an error and what to do about it on stderr."""
    say(f"memsync: {printable(error.message)}", err=True)
    for line in error.hint.splitlines():
        say(f"  {printable(line)}", err=True)


class Kept(NamedTuple):
    """What a command prints, kept for the client for which a daemon runs it, and how the client shows it."""

    out: StringIO
    err: StringIO
    is_terminal: bool
    has_colour: bool
    width: int


class NotServed(Exception):
    """A command that the daemon was asked to run needs the client's standard input or editor."""


KEPT: ContextVar[Kept | None] = ContextVar("kept", default=None)
LEAST_CELL = 8
"""No column of a table gets narrower."""
COLOUR: ContextVar[str] = ContextVar("colour", default="auto")
"""What `--color` says: auto, always or never."""


def is_terminal() -> bool:
    """Tell whether standard output is a terminal."""
    kept = KEPT.get()
    return kept.is_terminal if kept else sys.stdout.isatty()


def has_colour() -> bool:
    """Tell whether to colour what is printed: as `--color` says, otherwise on a terminal unless NO_COLOR is set."""
    kept = KEPT.get()
    return kept.has_colour if kept else wants_colour(COLOUR.get())


def width() -> int:
    """Return how many columns there are: those of the terminal, 80 where it does not say, no limit (0) elsewhere."""
    kept = KEPT.get()
    return kept.width if kept else terminal_width()


@contextmanager
def paged() -> Iterator[None]:
    """Show what is printed on a terminal in a pager if it is longer than the terminal."""
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
    """Standard error, where remarks go at once."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)


def say_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of cells, two spaces apart. On a terminal columns are aligned, and the widest are cut to fit it."""
    cells = [[printable(cell) for cell in row] for row in rows]
    columns = width()
    if not columns or not cells:
        for row in cells:
            say("  ".join(filter(None, row)))
        return
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    while sum(widths) + 2 * sum(map(bool, widths)) - 2 > columns and max(widths) > LEAST_CELL:
        widths[widths.index(max(widths))] -= 1
    for row in cells:
        fitted = [_fitted(cell, size) for cell, size in zip(row, widths, strict=True) if size]
        say("  ".join(fitted).rstrip())


def _fitted(cell: str, size: int) -> str:
    return cell.ljust(size) if len(cell) <= size else f"{cell[: size - 1]}…"


def local_time(moment: str) -> str:
    """Return a moment (ISO 8601 with a zone) in local time and how long ago it was; any other text as it is."""
    try:
        at = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    if at.tzinfo is None:
        return moment
    seconds = (datetime.now(UTC) - at).total_seconds()
    passed = f" ({duration(seconds).rsplit(' ', 2)[0] if seconds > 120 else duration(seconds)} ago)"
    return f"{at.astimezone():%Y-%m-%d %H:%M}" + (passed if 0 <= seconds < 86_400 else "")


def say_json(value: object) -> None:
    """Print exactly one JSON document on stdout: the data as it is, what cannot be seen as JSON's escapes."""
    import json

    from memsync.model.json import to_json

    say_as_it_is(json_line(json.dumps(to_json(value), ensure_ascii=False, indent=2)))


def count(number: int, thing: str, things: str = "") -> str:
    """Return a number of things as one says it: `1 thread`, `2 threads`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def say_pending(pending_text: int) -> None:
    """Say on stderr what an answer lacks, if anything."""
    if pending_text:
        say(f"memsync: {still_indexing(pending_text)}", err=True)
