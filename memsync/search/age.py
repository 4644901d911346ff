"""How old a chunk is: what recency counts."""

from __future__ import annotations

from datetime import date
from functools import lru_cache

from memsync.model.query import IndexedChunk

SECONDS_A_DAY = 86_400


def age_in_days(chunk: IndexedChunk, now: float) -> float:
    """Return how old a chunk is in whole days by its own date, the note's or its last change; 0 for what lies ahead.

    `now` is the Unix time. Dates are those of this machine's calendar, as people write them.
    """
    moment = chunk.entries[0].time or chunk.note_date
    if not moment:
        return max(0.0, (now - chunk.changed_ns / 1e9) // SECONDS_A_DAY)
    return float(max(0, date.fromtimestamp(now).toordinal() - _day_number(moment[:10])))


@lru_cache(maxsize=4_096)
def _day_number(day: str) -> int:
    """Return the number of an ISO date among all days; a date that is none (or only a month) counts as very old."""
    try:
        return date.fromisoformat(day).toordinal()
    except ValueError:
        return 1
