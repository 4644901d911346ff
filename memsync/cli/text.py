"""What is printed, and how: also where click is not loaded."""

from __future__ import annotations

import json
import sys
from typing import TextIO

from memsync.model.plain import duration, json_line, plain, printable, still_indexing, visible

__all__ = ["duration", "json_line", "printable", "say", "say_as_it_is", "say_json", "say_pending", "visible"]


def say(text: str = "", *, err: bool = False, end: str = "\n") -> None:
    """Print text on stdout or stderr. Nothing in it can drive the terminal; a name in it needs `printable`, too."""
    say_as_it_is(visible(text), err=err, end=end)


def say_as_it_is(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Print text that holds colours, or that must be had to the byte."""
    stream: TextIO = sys.stderr if err else sys.stdout
    stream.write(f"{text}{end}")


def say_json(value: object) -> None:
    """Print exactly one JSON document on stdout: the data as it is, what cannot be seen as JSON's escapes."""
    say_as_it_is(json_line(json.dumps(plain(value), ensure_ascii=False, indent=2)))


def say_pending(pending_text: int) -> None:
    """Say on stderr what an answer lacks, if anything."""
    if pending_text:
        say(f"memsync: {still_indexing(pending_text)}", err=True)
