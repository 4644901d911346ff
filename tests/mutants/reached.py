"""Copied beside the package while tests are traced: notes each block of statements that the test at hand comes to.

It is part of every process that a test starts, so it imports nothing and writes each line at once.
"""

import os
from contextlib import suppress

_FILE = os.open(os.environ["MUTANTS_REACHED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
_seen: set[str] = set()
_context: str | None = None


def enter(context: str) -> None:
    """Begin a test, or a fixture that several share."""
    global _context
    _context = context
    _seen.clear()


def reach(block: str) -> None:
    """Note that a block is reached, once a test."""
    if block not in _seen:
        _seen.add(block)
        context = _context or os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        if context:
            with suppress(OSError):  # a test may forbid this process to write to a file as large as this one
                os.write(_FILE, f"{context}\t{block}\n".encode("utf-8", "backslashreplace"))
