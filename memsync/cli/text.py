"""What is printed, and how: also where click is not loaded."""

from __future__ import annotations

import json
import sys
from typing import TextIO

from memsync.model.plain import plain, printable

__all__ = ["printable", "say", "say_json", "say_pending", "visible"]


def say(text: str = "", *, err: bool = False) -> None:
    """Print one line on stdout or stderr."""
    stream: TextIO = sys.stderr if err else sys.stdout
    stream.write(f"{text}\n")


def say_json(value: object) -> None:
    """Print exactly one JSON document on stdout."""
    say(json.dumps(plain(value), ensure_ascii=False, indent=2))


def say_pending(pending_text: int) -> None:
    """Say on stderr what an answer lacks, if anything."""
    if pending_text:
        say(f"memsync: {pending_text} changed files are not in this answer yet", err=True)


def visible(text: str) -> str:
    """Return a note's text without control characters: it must not be able to drive the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)
