"""Local time in PostgreSQL: the same as SQLite's, which is that of the C library, whatever TZ says."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import apsw
import pytest

from memsync.index.postgres.queries import _CHANGED
from memsync.index.postgres.zone import local_time
from tests.support.postgres_server import execute, server

END = 2_145_916_800
"""The year 2038, of which SQLite asks the C library no more."""


@pytest.fixture(
    params=["Europe/Berlin", ":Asia/Kolkata", "", "CET-1CEST,M3.5.0,M10.5.0/3", "Africa/Casablanca", "Nowhere/AtAll"]
)
def _zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set TZ as if the process had begun with it."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_zone")
def test_local_time_is_that_of_sqlite() -> None:
    """A name, a rule of POSIX, or a text that means nothing: at any moment, also of a change."""
    zone = local_time()
    changes = [int(text) for text in zone["changes"].strip("{}").split(",")[1:]]
    moments = [random.randrange(END) for _ in range(1_000)]
    moments += [change + shift for change in changes if change < END for shift in (-3_600, -1, 0, 59)]
    notes = "(SELECT 0 AS committed, m * 1000000000 AS mtime_ns FROM unnest(%s::bigint[]) m) n"
    columns = _CHANGED.replace("%(offsets)s", "%s").replace("%(changes)s", "%s")
    texts = execute(server(), f"SELECT {columns} FROM {notes}", zone["offsets"], zone["changes"], moments)
    sqlite = apsw.Connection(":memory:")
    statement = "SELECT strftime('%Y-%m-%dT%H:%M', ?, 'unixepoch', 'localtime')"
    assert [text for (text,) in texts] == [next(sqlite.execute(statement, (moment,)))[0] for moment in moments]
