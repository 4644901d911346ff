"""The time zone of this machine, as a text that PostgreSQL reads in the same way.

SQLite asks the C library for local time, and both backends must give the same answers. So the C library decides here,
too: of the texts that TZ and /etc/localtime suggest, this takes the one that gives the C library's offsets from UTC.
"""

from __future__ import annotations

import io
import os
import re
import struct
import time
import zoneinfo
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, tzinfo

_SYSTEM_FILE = "/etc/localtime"
_ZONE_FOLDER = "/usr/share/zoneinfo"
_BEFORE_NAME = re.compile(r"^(?:.*/zoneinfo[^/]*/)?(?:posix/|right/)?")
"""The folder of a zone's file, and the folders of zones with and without leap seconds."""
_OF_THIS_MACHINE = ("Factory", "localtime", "posixrules")
"""Files among the zones that a server need not have."""
_ABBREVIATIONS = {
    "CET": "Europe/Brussels", "EET": "Europe/Athens", "EST": "America/Panama", "HST": "Pacific/Honolulu",
    "MET": "Europe/Brussels", "MST": "America/Phoenix", "WET": "Europe/Lisbon",
}  # fmt: skip
"""Zones whose name PostgreSQL reads as an abbreviation, an offset that is the same all year -> a zone like it."""
_POSIX = re.compile(r"[A-Za-z0-9<>+,./:-]{4,200}")
_DEFAULT_RULES = ",M3.2.0,M11.1.0"
"""What the C library adds to a text such as EST5EDT that does not say when the clocks change."""
_SAMPLES = range(631_152_000, 2_145_916_800, 9 * 86_400 + 18_000)
"""Moments from 1990 to 2037, nine days and five hours apart."""
_MAX_ZONE_FILE_BYTES = 100_000


def local_zone() -> str:
    """Return the local time zone: a name, or a text of POSIX with the offset and the rules for summer time.

    If no text gives the C library's offsets at every moment, it is the one that does so most often.
    """
    offsets = [time.localtime(moment).tm_gmtoff for moment in _SAMPLES]
    best, fewest = "UTC", len(offsets) + 1
    for text, zone in _candidates():
        wrong = _differences(zone, offsets)
        if wrong < fewest:
            best, fewest = text, wrong
        if not wrong:
            break
    return best


def _differences(zone: tzinfo, offsets: Sequence[int]) -> int:
    """Return at how many of the samples a zone has another offset from UTC, in seconds."""
    moments = (datetime.fromtimestamp(moment, zone).utcoffset() for moment in _SAMPLES)
    return sum(
        offset is None or offset.total_seconds() != expected for offset, expected in zip(moments, offsets, strict=True)
    )


def _candidates() -> Iterator[tuple[str, tzinfo]]:
    """Yield texts that may be the local zone with their meaning, the most telling ones first."""
    given = os.environ.get("TZ")
    text = "" if given is None else given.removeprefix(":")
    file = _SYSTEM_FILE if given is None else os.path.join(os.environ.get("TZDIR", _ZONE_FOLDER), text)
    for path in (text, file, os.path.realpath(file)):
        name = _BEFORE_NAME.sub("", path)
        for known in (name, _ABBREVIATIONS.get(name, "")):
            if known not in _ABBREVIATIONS and known not in _OF_THIS_MACHINE and (zone := _named(known)):
                yield known, zone
    for rules in (text, f"{text}{_DEFAULT_RULES}", _footer(file)):
        if zone := _of_rules(rules):
            yield rules, zone
    yield "UTC", UTC
    now = _fixed(time.localtime().tm_gmtoff)
    if zone := _of_rules(now):
        yield now, zone


def _named(name: str) -> tzinfo | None:
    """Return the zone of a name; None if there is none."""
    with suppress(ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return zoneinfo.ZoneInfo(name)
    return None


def _footer(file: str) -> str:
    """Return what a file of a zone says of the time after its last entry: a text of POSIX, empty if it has none."""
    try:
        with open(file, "rb") as stream:
            content = stream.read(_MAX_ZONE_FILE_BYTES)
    except (OSError, ValueError):
        return ""
    has_footer = content.startswith(b"TZif") and content[4:5] >= b"2" and content.endswith(b"\n")
    return content[:-1].rpartition(b"\n")[2].decode("ascii", "replace") if has_footer else ""


def _of_rules(text: str) -> tzinfo | None:
    """Return the zone of a text of POSIX such as CET-1CEST,M3.5.0,M10.5.0/3; None if it is no such text."""
    if not _POSIX.fullmatch(text):
        return None
    block = b"TZif2" + bytes(15) + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + struct.pack(">lbb", 0, 0, 0) + b"UTC\0"
    with suppress(ValueError):
        return zoneinfo.ZoneInfo.from_file(io.BytesIO(block + block + f"\n{text}\n".encode()))
    return None


def _fixed(seconds: int) -> str:
    """Return a text of POSIX for an offset from UTC that is always the same."""
    minutes = abs(seconds) // 60
    sign = "-" if seconds > 0 else "+"  # as POSIX writes it: positive means west of Greenwich
    return f"<local>{sign}{minutes // 60:02}:{minutes % 60:02}"
