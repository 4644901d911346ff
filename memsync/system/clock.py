"""The clock of the whole product: every "now" and "today" comes from here.

MEMSYNC_CLOCK_AHEAD sets it ahead by a number of seconds, so that tests can run on any day. `time_ns` and `file_seconds`
are never ahead: they are compared with the times of files, which the file system sets.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, date, datetime
from time import sleep, time_ns

__all__ = ["AHEAD", "ahead", "file_seconds", "monotonic", "now", "seconds", "sleep", "time_ns", "today", "utc"]

AHEAD = "MEMSYNC_CLOCK_AHEAD"
"""The environment variable, in seconds; not a setting in config.toml."""


def ahead() -> float:
    """Return how many seconds this clock is ahead of that of files: 0, except in tests."""
    try:
        return float(os.environ.get(AHEAD) or 0)
    except ValueError:
        return 0.0


def monotonic() -> float:
    """Return seconds that never go back."""
    return time.monotonic()


def file_seconds() -> float:
    """Return the seconds since 1970 as file systems count them."""
    return time_ns() / 1e9


def seconds() -> float:
    """Return the seconds since 1970."""
    return time.time() + ahead()


def now() -> datetime:
    """Return the local time, without a zone, as people write it."""
    return datetime.fromtimestamp(seconds())


def utc() -> datetime:
    """Return the time in UTC, with its zone."""
    return datetime.fromtimestamp(seconds(), UTC)


def today() -> date:
    """Return the local day."""
    return now().date()
