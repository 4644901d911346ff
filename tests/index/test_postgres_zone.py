"""Local time in PostgreSQL: the same as SQLite's, which is that of the C library, whatever TZ says."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from memsync.index.postgres import zone
from memsync.index.postgres.zone import local_zone
from tests.support.postgres_server import execute, server

SetZone = Callable[[str | None], None]
MOMENTS = [round(1.4e9 + number * 86_400 * 8.3) for number in range(1_000)]
"""From 2014 to 2037."""
ZONES = {
    "Europe/Berlin": "Europe/Berlin",
    ":Asia/Kolkata": "Asia/Kolkata",
    "": "UTC",
    ":": "UTC",
    "JST-9": "JST-9",
    "CET-1CEST,M3.5.0,M10.5.0/3": "CET-1CEST,M3.5.0,M10.5.0/3",
    "<+0530>-5:30": "<+0530>-5:30",
    "XXX-9YYY,J60/2,J300": "XXX-9YYY,J60/2,J300",
    "<-02>2<-01>,M3.5.0/-1,M10.5.0/0": "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
    "EST5EDT": "EST5EDT",
    "CET": "Europe/Brussels",
    "EET": "Europe/Athens",
    "MST": "America/Phoenix",
    "/usr/share/zoneinfo/Asia/Tokyo": "Asia/Tokyo",
    "posix/Europe/Berlin": "Europe/Berlin",
    "Factory": "<-00>0",
    "Nowhere/AtAll": "UTC",
    "A-9": "UTC",
    "europe/berlin": "UTC",
    "../../etc/passwd": "UTC",
}

NEARLY = {
    "right/Europe/Berlin": "Europe/Berlin",
    "CET-1CEST": "CET-1CEST,M3.2.0,M11.1.0",
}
"""Leap seconds, and the C library's own dates for summer time, which it may read from a file."""


@pytest.fixture
def set_zone(monkeypatch: pytest.MonkeyPatch) -> SetZone:
    """Set TZ as if the process had begun with it."""

    def set_it(text: str | None) -> None:
        if text is None:
            monkeypatch.delenv("TZ", raising=False)
        else:
            monkeypatch.setenv("TZ", text)
        time.tzset()

    return set_it


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> object:
    """Give the process its own zone again."""
    yield
    monkeypatch.undo()
    time.tzset()


def assert_equal_to_sqlite(name: str) -> None:
    """Compare the local time of many moments in both databases."""
    texts = execute(
        server(),
        "SELECT to_char(to_timestamp(m) AT TIME ZONE %s, 'YYYY-MM-DD HH24:MI') FROM unnest(%s::int[]) m",
        name,
        MOMENTS,
    )
    sqlite = apsw.Connection(":memory:")
    statement = "SELECT strftime('%Y-%m-%d %H:%M', ?, 'unixepoch', 'localtime')"
    assert [text for (text,) in texts] == [next(sqlite.execute(statement, (moment,)))[0] for moment in MOMENTS]


@pytest.mark.parametrize("text", ZONES)
def test_local_time_is_that_of_sqlite(text: str, set_zone: SetZone) -> None:
    """A name, a path, a rule of POSIX, or a text that means nothing, which the C library takes for UTC."""
    skip_without(text)
    set_zone(text)
    name = local_zone()
    assert name == ZONES[text]
    assert_equal_to_sqlite(name)


@pytest.mark.parametrize("text", NEARLY)
def test_zone_that_the_server_cannot_have_is_replaced_by_the_nearest_one(text: str, set_zone: SetZone) -> None:
    """Otherwise every search would end in an error of the server, or depend on its files."""
    skip_without(text)
    set_zone(text)
    assert local_zone() == NEARLY[text]


def skip_without(text: str) -> None:
    """Skip a test of zones that not every machine has."""
    if text.startswith(("posix/", "right/")) and not Path("/usr/share/zoneinfo", text).exists():
        pytest.skip("this machine has no such zones")


@pytest.mark.parametrize("text", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])
def test_file_without_a_name_is_read(text: str, set_zone: SetZone, tmp_path: Path) -> None:
    """The zone may be a copied file: what it says of the future counts."""
    copy = tmp_path / "zone"
    copy.write_bytes((Path("/usr/share/zoneinfo") / text).read_bytes())
    set_zone(f":{copy}")
    name = local_zone()
    assert name not in ("UTC", text)
    assert_equal_to_sqlite(name)


def test_without_tz_the_file_of_the_system_counts(
    set_zone: SetZone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is in the link, and it is preferred to other zones that have the same time."""
    set_zone("Asia/Tokyo")  # what the C library would read from the link
    monkeypatch.delenv("TZ")
    link = tmp_path / "localtime"
    link.symlink_to("/usr/share/zoneinfo/Asia/Tokyo")
    monkeypatch.setattr(zone, "_SYSTEM_FILE", str(link))
    assert local_zone() == "Asia/Tokyo"
    monkeypatch.setattr(zone, "_SYSTEM_FILE", str(tmp_path / "absent"))
    assert local_zone() == "<local>-09:00"
