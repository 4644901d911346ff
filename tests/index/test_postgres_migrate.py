"""The tables of the PostgreSQL index are made by one process at a time, all or none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from memsync.errors import IndexBusy, IndexFailure, IndexOutdated, MemsyncError
from memsync.index.postgres import migrate
from memsync.index.postgres.connections import Connections
from memsync.settings.load import Settings
from tests.conftest import Write
from tests.support.cut_connections import BEFORE, UNHEARD, cut_connections
from tests.support.postgres_memory import assert_converges, assert_helpful, memories, new_dump, refused
from tests.support.postgres_server import drop_database, execute, new_database, server
from tests.support.sampling import each

PROCESSES = 4


@pytest.fixture
def dsn() -> Iterator[str]:
    """Make an empty database."""
    found = new_database("migrating")
    yield found
    drop_database(str(psycopg.conninfo.conninfo_to_dict(found)["dbname"]))


@pytest.fixture
def database(dsn: str) -> Iterator[Connections]:
    found = Connections(dsn)
    yield found
    found.close()


def begin_anew(dsn: str) -> None:
    """Do what the errors advise."""
    execute(dsn, "DROP SCHEMA memsync CASCADE")


def test_made_once_and_anew(dsn: str, database: Connections, settings: Settings, write: Write, tmp_path: Path) -> None:
    """A sync fills the new tables with the same index."""
    write("birds.md", "# Birds\n\nThe heron nests.\n")
    expected = new_dump(settings, tmp_path / "new")
    for _ in range(2):
        assert (migrate.migrate(database), migrate.migrate(database)) == (True, False)
        made = "SELECT relname FROM pg_class WHERE relnamespace = 'memsync'::regnamespace AND relkind = 'r'"
        assert {name for (name,) in execute(dsn, made)} == {*migrate.TABLES, "migration"}
        with memories(settings) as open_memory:
            assert_converges(open_memory(dsn), expected)
        begin_anew(dsn)


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        ("DROP TABLE memsync.embedding", IndexFailure, "lack embedding"),
        ("UPDATE memsync.migration SET number = 4", IndexOutdated, "have version 4"),
    ],
)
def test_tables_that_cannot_be_used_are_refused_until_made_anew(
    dsn: str, database: Connections, fault: str, error: type[MemsyncError], said: str
) -> None:
    """A restore without pgvector has lost one, or an earlier memsync made them."""
    migrate.migrate(database)
    execute(dsn, fault)
    with refused(dsn, error, said, "DROP SCHEMA memsync CASCADE"):
        migrate.migrate(database)
    begin_anew(dsn)
    assert migrate.migrate(database)


def test_processes_make_them_at_once(dsn: str) -> None:
    """One makes them; the others wait for it and find them."""
    pools = [Connections(dsn) for _ in range(PROCESSES)]
    begin = threading.Barrier(PROCESSES)

    def work(pool: Connections) -> bool:
        begin.wait(120)
        return migrate.migrate(pool)

    with ThreadPoolExecutor(PROCESSES) as threads:
        assert sum(threads.map(work, pools)) == 1
    for pool in pools:
        pool.close()


def test_lock_of_another_migration(dsn: str, database: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration waits a minute for another one, then says so."""
    monkeypatch.setattr(migrate, "LOCK_SECONDS", 0.1)
    with psycopg.connect(dsn) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (migrate.LOCK_KEY,))
        with refused(dsn, IndexBusy, "another process migrates", "Try again"):
            migrate.migrate(database)
    assert migrate.migrate(database)


def test_cut_at_any_statement(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tables are made, or none; the next try does the rest."""
    with cut_connections(monkeypatch, server()) as cutter:
        for mode, only in ((BEFORE, b""), (UNHEARD, b"COMMIT")):
            for at in each(1, 1 if only else 6):
                pool = Connections(dsn)
                cutter.begin(at, mode, only)
                try:
                    migrate.migrate(pool)
                except MemsyncError as error:
                    assert_helpful(error, dsn)
                    first, last = (f"(to_regclass('memsync.{name}') IS NULL)" for name in ("memory", "migration"))
                    assert execute(dsn, f"SELECT {first} = {last}") == [(True,)]
                was_cut = cutter.struck
                cutter.begin(0, mode)
                migrate.migrate(pool)
                assert not migrate.migrate(pool)
                pool.close()
                begin_anew(dsn)
                if not was_cut:
                    break
