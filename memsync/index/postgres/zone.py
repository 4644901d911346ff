"""The time zone of this machine, by a name that PostgreSQL knows, too."""

from __future__ import annotations

import os
import time
import zoneinfo

_ZONEINFO = "/zoneinfo/"


def local_zone() -> str:
    """Return the name of the local time zone; if it has none, today's offset from UTC."""
    for name in (os.environ.get("TZ", "").removeprefix(":"), _of_system()):
        if _is_known(name):
            return name
    offset = time.localtime().tm_gmtoff // 60
    sign = "-" if offset > 0 else "+"  # as POSIX writes it: positive means west of Greenwich
    return f"<local>{sign}{abs(offset) // 60:02}:{abs(offset) % 60:02}"


def _of_system() -> str:
    """Return the name of the zone that /etc/localtime links to; empty if it is no link."""
    path = os.path.realpath("/etc/localtime")
    return path.partition(_ZONEINFO)[2]


def _is_known(name: str) -> bool:
    """Tell whether a zone has this name; listing all zones would take longer than a search."""
    try:
        return bool(zoneinfo.ZoneInfo(name).key)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return False
