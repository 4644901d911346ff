"""Local time in PostgreSQL: the same as SQLite's, which is that of the C library, whatever TZ says."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from memsync.index.postgres.queries import _CHANGED
from memsync.index.postgres.zone import local_time
from tests.support.postgres_server import execute, server

ZONES = (
    "Europe/Berlin", ":Asia/Kolkata", "", ":", "JST-9", "CET-1CEST,M3.5.0,M10.5.0/3", "<+0530>-5:30",
    "XXX-9YYY,J60/2,J300", "<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "EST5EDT", "CET", "CET-1CEST", "Australia/Lord_Howe",
    "Africa/Casablanca", "America/Caracas", "/usr/share/zoneinfo/Asia/Tokyo", "posix/Europe/Berlin",
    "right/Europe/Berlin", "Factory", "Nowhere/AtAll", "../../etc/passwd",
)  # fmt: skip

END = 2_145_916_800
"""The year 2038, of which SQLite asks the C library no more."""


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Set TZ as if the process had begun with it."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.mark.parametrize("zone", ZONES, indirect=True)
def test_local_time_is_that_of_sqlite(zone: str) -> None:
    """A name, a path, a rule of POSIX, leap seconds, or a text that means nothing: at any moment, also of a change."""
    if zone.startswith(("posix/", "right/")) and not Path("/usr/share/zoneinfo", zone).exists():
        pytest.skip("this machine has no such zones")
    changes = [int(text) for text in local_time()["changes"].strip("{}").split(",")[1:]]
    moments = [random.randrange(END) for _ in range(1_000)]
    moments += [change + shift for change in changes if change < END for shift in (-3_600, -1, 0, 59)]
    moments = [moment for moment in moments if time.localtime(moment).tm_sec < 60]  # no leap second itself
    notes = "(SELECT 0 AS committed, m * 1000000000 AS mtime_ns FROM unnest(%s::bigint[]) m) n"
    columns = _CHANGED.replace("%(offsets)s", "%s").replace("%(changes)s", "%s")
    texts = execute(
        server(), f"SELECT {columns} FROM {notes}", local_time()["offsets"], local_time()["changes"], moments
    )
    sqlite = apsw.Connection(":memory:")
    statement = "SELECT strftime('%Y-%m-%dT%H:%M', ?, 'unixepoch', 'localtime')"
    assert [text for (text,) in texts] == [next(sqlite.execute(statement, (moment,)))[0] for moment in moments]
