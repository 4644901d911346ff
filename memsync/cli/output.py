"""What is printed, and how: also where click is not loaded."""

from __future__ import annotations

import json
import os
import sys
from contextvars import ContextVar
from io import StringIO
from typing import NamedTuple, TextIO

from memsync.model.json import to_json
from memsync.model.text import duration, json_line, printable, still_indexing, visible

__all__ = ["count", "duration", "json_line", "printable", "say", "say_as_it_is", "say_json", "say_pending", "visible"]


def say(text: str = "", *, err: bool = False, end: str = "\n") -> None:
    """Print text on stdout or stderr. Nothing in it can drive the terminal; a name in it needs `printable`, too."""
    say_as_it_is(visible(text), err=err, end=end)


def say_as_it_is(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Print text that holds colours, or that must be had to the byte."""
    kept = KEPT.get()
    stream: TextIO = (kept.err if err else kept.out) if kept else sys.stderr if err else sys.stdout
    stream.write(f"{text}{end}")


class Kept(NamedTuple):
    """What a command prints, kept for the client for which a daemon runs it; `is_terminal`: it prints to a terminal."""

    out: StringIO
    err: StringIO
    is_terminal: bool
    has_colour: bool


KEPT: ContextVar[Kept | None] = ContextVar("kept", default=None)


def is_terminal() -> bool:
    """Tell whether standard output is a terminal."""
    kept = KEPT.get()
    return kept.is_terminal if kept else sys.stdout.isatty()


def has_colour() -> bool:
    """Tell whether to colour what is printed: on a terminal, unless NO_COLOR is set."""
    kept = KEPT.get()
    return kept.has_colour if kept else sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def say_json(value: object) -> None:
    """Print exactly one JSON document on stdout: the data as it is, what cannot be seen as JSON's escapes."""
    say_as_it_is(json_line(json.dumps(to_json(value), ensure_ascii=False, indent=2)))


def count(number: int, thing: str, things: str = "") -> str:
    """Return a number of things as one says it: `1 thread`, `2 threads`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def say_pending(pending_text: int) -> None:
    """Say on stderr what an answer lacks, if anything."""
    if pending_text:
        say(f"memsync: {still_indexing(pending_text)}", err=True)
