"""The tables of the PostgreSQL index go up and down, by one process at a time, and each step is done or not begun."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from memsync.errors import IndexBusy, IndexFailure, MemsyncError, UsageError
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


def version(database: Connections) -> int:
    """Return the version of the tables."""
    with database.reading() as connection:
        return migrate.version_of(connection)


def test_up_and_down_and_up_again(
    dsn: str, database: Connections, settings: Settings, write: Write, tmp_path: Path
) -> None:
    """Nothing of memsync is left in between; a sync fills the new tables with the same index."""
    write("birds.md", "# Birds\n\nThe heron nests.\n")
    expected = new_dump(settings, tmp_path / "new")
    up = [("up", f"{step.number:04} {step.name}") for step in migrate.migrations()]
    down = [("down", name) for _, name in reversed(up)]
    for _ in range(2):
        assert migrate.migrate(database) == up
        assert migrate.migrate(database) == []
        assert version(database) == migrate.LATEST
        with memories(settings) as open_memory:
            assert_converges(open_memory(dsn), expected)
        assert migrate.migrate(database, 0) == down
        assert migrate.migrate(database, 0) == []
        left = "SELECT relname FROM pg_class WHERE relnamespace = 'memsync'::regnamespace AND relkind = 'r'"
        assert execute(dsn, left) == [("migration",)]
        assert execute(dsn, "SELECT proname FROM pg_proc WHERE pronamespace = 'memsync'::regnamespace") == []
        assert version(database) == 0
    with pytest.raises(UsageError, match="no version 99"):
        migrate.migrate(database, 99)


def test_words_are_made_again_after_a_change_of_their_tables(
    dsn: str, database: Connections, settings: Settings, write: Write
) -> None:
    """The next sync reads every note, also in a process that has read them before; no vector is computed again."""
    write("birds.md", "# Birds\n\nThe heron nests.\n")
    migrate.migrate(database)
    with memories(settings) as open_memory:
        memory = open_memory(dsn)
        memory.sync()
        migrate.migrate(database, 3)
        migrate.migrate(database)
        report = memory.sync()
        assert (report.changed, report.vectors_computed) == (1, 0)
        assert memory.verify() is None


def test_lost_table_is_named_until_all_are_made_anew(dsn: str, database: Connections) -> None:
    """A restore without pgvector has made all tables but one, and the version says that nothing is to do."""
    migrate.migrate(database)
    execute(dsn, "DROP TABLE embedding")
    with refused(dsn, IndexFailure, "lack embedding", "--to 0 --apply"):
        migrate.migrate(database)
    migrate.migrate(database, 0)
    assert migrate.migrate(database) and migrate.migrate(database) == []


def test_processes_migrate_at_once(dsn: str) -> None:
    """Each step is done once; the others wait for it and find it done."""
    pools = [Connections(dsn) for _ in range(PROCESSES)]
    begin = threading.Barrier(PROCESSES)

    def work(pool: Connections, to: int | None) -> list[tuple[str, str]]:
        begin.wait(120)
        return migrate.migrate(pool, to)

    with ThreadPoolExecutor(PROCESSES) as threads:
        for to in (None, 0, None):
            done = list(threads.map(work, pools, [to] * PROCESSES))
            assert sum(map(len, done)) == migrate.LATEST
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


@pytest.mark.parametrize("to", [migrate.LATEST, 0])
def test_cut_at_any_statement(dsn: str, to: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step is done or not begun, and the version says which; the next try does the rest."""
    other = Connections(dsn)
    before = migrate.LATEST - to
    with cut_connections(monkeypatch, server()) as cutter:
        for mode, only in ((BEFORE, b""), (UNHEARD, b"COMMIT")):
            for at in each(1, 1 if only else 6):
                migrate.migrate(other, before)
                pool = Connections(dsn)
                cutter.begin(at, mode, only)
                try:
                    migrate.migrate(pool, to)
                except MemsyncError as error:
                    assert_helpful(error, dsn)
                    has_tables = execute(dsn, "SELECT to_regclass('memsync.pending') IS NOT NULL") == [(True,)]
                    assert has_tables == (version(other) > 0)
                was_cut = cutter.struck
                cutter.begin(0, mode)
                migrate.migrate(pool, to)
                assert version(pool) == to
                pool.close()
                if not was_cut:
                    break
    other.close()
