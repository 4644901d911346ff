"""How old a chunk is: what recency counts."""

from __future__ import annotations

from datetime import date
from functools import lru_cache

from memsync.model import IndexedChunk

SECONDS_A_DAY = 86_400


def age_in_days(chunk: IndexedChunk, now: float) -> float:
    """Return how old a chunk is in whole days by its own date, the note's or its last change; 0 for the future."""
    moment = chunk.entries[0].time or chunk.note_date
    if not moment:
        return max(0.0, (now - chunk.changed_ns / 1e9) // SECONDS_A_DAY)
    return max(0.0, now // SECONDS_A_DAY - _day_number(moment[:10]))


@lru_cache(maxsize=4_096)
def _day_number(day: str) -> int:
    """Return the days from 1970 to an ISO date; a date that is none (or only a month) counts as very old."""
    try:
        return date.fromisoformat(day).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        return -36_500
