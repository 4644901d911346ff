"""PostgreSQL as others run it: no superuser, pgvector in a schema of its own, TLS, PgBouncer in between."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from memsync.errors import IndexFailure
from memsync.index.postgres import access
from memsync.index.postgres.connections import Connections
from memsync.index.postgres.migrate import migrate
from memsync.memory import Memory
from memsync.settings.load import Settings
from tests.conftest import Write
from tests.support.bouncer import POOL_SIZE, Bouncer, bouncer
from tests.support.own_postgres import OwnServer
from tests.support.postgres_memory import Open, assert_converges, memories, new_dump, refused


@pytest.fixture
def between(own: OwnServer) -> Iterator[Bouncer]:
    with bouncer(own) as found:
        yield found


@pytest.fixture
def open_memory(settings: Settings, write: Write) -> Iterator[Open]:
    """Open the root's notes on a database."""
    for name in ("heron", "tern", "ketch"):
        write(f"{name}.md", f"# About\n\nThe {name} is in the harbour.\n")
    with memories(settings) as found:
        yield found


def use(memory: Memory, settings: Settings, folder: Path, write: Write) -> None:
    """Sync, search, rebuild and verify."""
    assert_converges(memory, new_dump(settings, folder / "first"))
    write("new.md", "# New\n\nThe sloop is in the harbour.\n")
    assert memory.search("sloop", limit=1).hits[0].path == "new.md"
    memory.rebuild()
    assert memory.verify() is None
    assert_converges(memory, new_dump(settings, folder / "second"))


@pytest.mark.parametrize("schema", ["public", '"Own extensions"'])
def test_role_that_owns_only_its_database(
    schema: str, own: OwnServer, open_memory: Open, settings: Settings, tmp_path: Path, write: Write
) -> None:
    """An administrator has installed pgvector in some schema; the owner does all the rest, without other rights."""
    dsn = own.new_database("managed", migrated=False)
    if schema != "public":
        own.execute(f"CREATE SCHEMA {schema}", "managed")
        own.execute(f"GRANT USAGE ON SCHEMA {schema} TO PUBLIC", "managed")
        own.execute("DROP SCHEMA public", "managed")
    own.execute(f"CREATE EXTENSION vector SCHEMA {schema}", "managed")
    own.new_role("tenant")
    own.execute("ALTER DATABASE managed OWNER TO tenant")
    tenant = make_conninfo(dsn, user="tenant", password="tenant")
    pool = Connections(tenant)
    assert migrate(pool)
    memory = open_memory(tenant)
    use(memory, settings, tmp_path, write)
    own.new_role("guest")
    access.grant(pool, "fault", "guest")
    guest = make_conninfo(dsn, user="guest", password="guest")
    assert open_memory(guest).search("heron", limit=1).hits[0].path == "heron.md"
    own.execute("CREATE SCHEMA elsewhere", "managed")
    own.execute("GRANT USAGE ON SCHEMA elsewhere TO PUBLIC", "managed")
    own.execute("ALTER EXTENSION vector SET SCHEMA elsewhere", "managed")
    with refused(tenant, IndexFailure, "something of pgvector", "memsync index migrate"):
        memory.search("heron", mode="vector")
    assert memory.search("heron", limit=1, mode="vector").hits  # its new place is known after the error
    pool.close()


def test_through_pgbouncer_with_tls(
    own: OwnServer, between: Bouncer, open_memory: Open, settings: Settings, tmp_path: Path, write: Write
) -> None:
    """Several threads use more connections than the server gives to PgBouncer; each transaction may get another one."""
    own.new_database("bounced", migrated=False)
    dsn = between.dsn("bounced")
    pool = Connections(dsn)
    assert migrate(pool)
    pool.close()
    memory = open_memory(dsn)
    use(memory, settings, tmp_path, write)

    def work(number: int) -> str:
        if number % 5 == 0:
            write(f"more{number}.md", f"The dinghy {number} leaks.\n")
            memory.sync()
        return memory.search("heron", limit=1).hits[0].path

    with ThreadPoolExecutor(3 * POOL_SIZE) as threads:
        assert set(threads.map(work, range(40))) == {"heron.md"}
    backends = own.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = 'bounced'")
    assert backends <= [(POOL_SIZE,)]
    assert_converges(memory, new_dump(settings, tmp_path / "last"))


def test_tls_is_required_and_checked(
    own: OwnServer, between: Bouncer, open_memory: Open, settings: Settings, tmp_path: Path
) -> None:
    """Without TLS, or with a certificate that nobody vouches for, the error says what to check."""
    own.new_database("secured")
    checked = between.dsn("secured", sslmode="verify-full", sslrootcert=str(between.certificate))
    assert_converges(open_memory(checked), new_dump(settings, tmp_path / "new"))
    other = tmp_path / "other.pem"
    for parts, match in (
        ({"sslmode": "disable"}, "no connection to"),
        ({"sslmode": "verify-full", "sslrootcert": str(other)}, "no connection to"),
        ({"sslmode": "verify-full", "sslrootcert": "system"}, "no connection to"),
    ):
        dsn = between.dsn("secured", **parts)
        with refused(dsn, IndexFailure, match, "sslmode"):
            open_memory(dsn).search("heron")
