"""The local time of this machine, as numbers: what to add to UTC, and from when on.

SQLite asks the C library for local time, and both backends must give the same answers. So the C library decides here,
too, and the server needs to know nothing about time zones.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from calendar import timegm
from functools import cache
from itertools import pairwise

_SAMPLES = range(0, 2**31, 7 * 86_400)
"""Moments from 1970 to 2038, a week apart: no zone changes its time and changes it back within a week."""
_ALWAYS = -(2**62)


def local_time() -> dict[str, str]:
    """Return `changes`, the moments in seconds since 1970 from which on `offsets`, in seconds, are added to UTC.

    Both are arrays in the form of PostgreSQL, for parameters of queries.py.
    """
    return _numbers(os.environ.get("TZ"), *time.tzname)


@cache
def _numbers(*_zone: str | None) -> dict[str, str]:
    """Return the numbers of the zone that the C library has now; the parameters only tell it from others."""
    changes, offsets = [_ALWAYS], [_offset(0)]
    for before, after in pairwise(_SAMPLES):
        if (offset := _offset(after)) != offsets[-1]:
            week = range(before, after)
            changes.append(before + bisect_left(week, True, key=lambda moment: _offset(moment) != offsets[-1]))
            offsets.append(offset)
    return {"changes": f"{{{','.join(map(str, changes))}}}", "offsets": f"{{{','.join(map(str, offsets))}}}"}


def _offset(moment: int) -> int:
    """Return how many seconds local time is ahead of UTC, leap seconds included if the C library counts them."""
    return timegm(time.localtime(moment)) - moment
