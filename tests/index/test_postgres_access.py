"""Many owners of one database: who reads, who writes, and what forgetting leaves of a memory."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from memsync.errors import IndexFailure, UsageError
from memsync.index.postgres import access, migrate
from memsync.index.postgres.connections import Connections
from memsync.index.postgres.database import forget_memory
from memsync.index.postgres.index import Claim, PostgresIndex
from memsync.index.postgres.opening import machine_id
from memsync.index.postgres.stored import ReadOnlyIndex
from memsync.memory import Memory
from memsync.settings.load import Settings
from tests.conftest import COUNTER, DEADLINE, FakeEmbedder, Write
from tests.support.daemon_process import until
from tests.support.postgres_server import drop_database, execute, new_database, own_database

TABLES = tuple(name for name in migrate.TABLES if name != "memory")
FUNCTIONS = (
    "rows_with({0}, ''':{0}'' & heron')",
    "best_rows({0}, ''':{0}'' & heron', '{{heron}}', '{{t}}', '{{1}}', 10, NULL, 5)",
)
TEXT = "---\ntags: [nest]\n---\n# Heron\n\nThe heron nests in the alder. [[b]] {mood=calm}\n\n- one #tag\n"
THREAD = "---\nuser: ada\n---\n## user @ 2026-11-21 10:02\n\nWhere is the heron?\n"


@pytest.fixture
def database() -> Iterator[str]:
    """Make a database of its own: rights of roles hold for a whole one."""
    with own_database("access") as dsn:
        yield dsn


@pytest.fixture
def opened(database: str, settings: Settings, tmp_path: Path) -> Iterator[Callable[..., Memory]]:
    """Open the memory root as a memory of the database, under a name, as a machine."""
    memories: list[Memory] = []
    embedder = FakeEmbedder()

    def open_as(name: str, machine: str = "mine", dsn: str = database) -> Memory:
        folder = tmp_path / machine / name
        folder.mkdir(parents=True, exist_ok=True)
        index = PostgresIndex(dsn, name, folder, Claim(machine, f"someone at {machine}"))
        memories.append(Memory(settings, index, COUNTER, lambda: embedder, lambda space: embedder, deadline=DEADLINE))
        return memories[-1]

    yield open_as
    for memory in memories:
        memory.close()


@pytest.fixture
def roles(database: str) -> Iterator[tuple[str, str]]:
    """Two database roles without any right."""
    names = (f"memsync_reader_{os.getpid()}", f"memsync_stranger_{os.getpid()}")
    for name in names:
        execute(database, f"DROP ROLE IF EXISTS {name}")
        execute(database, f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
    yield names
    for name in names:
        execute(database, f"DROP OWNED BY {name}")
        execute(database, f"DROP ROLE {name}")


def as_role(dsn: str, role: str) -> str:
    """Return the connection string for another role."""
    return psycopg.conninfo.make_conninfo(dsn, user=role, password="secret")


def test_role_sees_the_memories_granted_to_it_and_no_others(
    database: str, opened: Callable[..., Memory], roles: tuple[str, str], write: Write
) -> None:
    """Not in a search, not by statements of its own; taking the grant back takes effect at once."""
    reader, stranger = roles
    write("a.md", TEXT)
    for name in ("ours", "theirs"):
        opened(name).sync()
    connections = Connections(database)
    access.grant(connections, "ours", reader)
    mine = as_role(database, reader)
    assert execute(mine, "SELECT name FROM memory") == [("ours",)]
    for table in (name for name in TABLES if name != "grantee"):
        roots = {row[0] for row in execute(mine, f"SELECT root FROM {table}")}
        assert len(roots) <= 1, table
    # These functions have the rights of the owner, and look by themselves who asks.
    for (root, of_memory), found in itertools.product(execute(database, "SELECT root, name FROM memory"), FUNCTIONS):
        assert bool(execute(mine, f"SELECT chunk FROM {found.format(root)}")) is (of_memory == "ours")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        execute(mine, "SELECT * FROM grantee")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        execute(as_role(database, stranger), "SELECT * FROM memsync.note")
    ours, theirs = (ReadOnlyIndex(mine, name) for name in ("ours", "theirs"))
    ours.require()
    with pytest.raises(IndexFailure, match="no memory 'theirs' that this role may read"):
        theirs.require()
    assert access.revoke(connections, "ours", reader)
    assert not access.revoke(connections, "ours", reader)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        execute(mine, "SELECT name FROM memsync.memory")
    for index in (ours, theirs, connections):
        index.close()


def test_grants_outlive_a_rebuild_and_end_with_their_role(
    database: str, opened: Callable[..., Memory], roles: tuple[str, str], write: Write
) -> None:
    """A new role that takes the name of a dropped one may read nothing."""
    reader, _ = roles
    write("a.md", TEXT)
    memory = opened("ours")
    memory.sync()
    connections = Connections(database)
    access.grant(connections, "ours", reader)
    memory.rebuild()
    assert execute(as_role(database, reader), "SELECT name FROM memory") == [("ours",)]
    assert access.status(connections).memories[0].readers == (reader,)
    execute(database, f"DROP OWNED BY {reader}")
    execute(database, f"DROP ROLE {reader}")
    execute(database, f"CREATE ROLE {reader} LOGIN PASSWORD 'secret'")
    execute(database, f"GRANT USAGE ON SCHEMA memsync TO {reader}")
    execute(database, f"GRANT SELECT ON memsync.memory TO {reader}")
    assert execute(as_role(database, reader), "SELECT name FROM memory") == []
    connections.close()


def test_forgotten_memory_leaves_nothing_and_harms_no_other(
    database: str, opened: Callable[..., Memory], roles: tuple[str, str], write: Write
) -> None:
    """Shown first, deleted only with `apply`: no row of any table has its number any more."""
    write("a.md", TEXT)
    write("threads/t.md", THREAD)
    write("long.md", "x" * 3_000 + "\n")
    for name in ("ours", "theirs"):
        opened(name).sync()
    connections = Connections(database)
    access.grant(connections, "ours", roles[0])
    connections.close()
    ((root,),) = execute(database, "SELECT root FROM memory WHERE name = 'ours'")
    filled = [name for name in TABLES if execute(database, f"SELECT 1 FROM {name} WHERE root = %s LIMIT 1", root)]
    assert set(filled) == set(TABLES) - {"pending"}
    before = {name: execute(database, f"SELECT count(*) FROM {name} WHERE root <> %s", root) for name in TABLES}
    assert forget_memory(database, "ours", apply=False).notes == 3
    assert execute(database, "SELECT count(*) FROM note WHERE root = %s", root) == [(3,)]
    assert forget_memory(database, "ours", apply=True, take_over=True).notes == 3
    for name in TABLES:
        assert execute(database, f"SELECT count(*) FROM {name} WHERE root = %s", root) == [(0,)], name
        assert execute(database, f"SELECT count(*) FROM {name} WHERE root <> %s", root) == before[name], name
    with pytest.raises(UsageError, match="has no memory 'ours'") as caught:
        forget_memory(database, "ours", apply=True)
    assert "theirs" in caught.value.hint


def test_memory_of_another_machine_is_forgotten_only_with_take_over(
    database: str, opened: Callable[..., Memory], write: Write
) -> None:
    """The refusal names who writes it and the last sync. This user on this machine needs no permission."""
    write("a.md", TEXT)
    for name, machine in (("theirs", "yours"), ("mine", f"{machine_id()}:/any/folder")):
        opened(name, machine).sync()
    held = forget_memory(database, "theirs", apply=False)
    assert (held.writer, held.is_own) == ("someone at yours", False)
    with pytest.raises(IndexFailure, match="is written by someone at yours") as caught:
        forget_memory(database, "theirs", apply=True)
    assert caught.value.message.endswith(f"last synced it at {held.last_sync}")
    assert "--take-over" in caught.value.hint
    assert execute(database, "SELECT name FROM memory ORDER BY name") == [("mine",), ("theirs",)]
    assert forget_memory(database, "mine", apply=True).is_own
    assert execute(database, "SELECT name FROM memory") == [("theirs",)]
    forget_memory(database, "theirs", apply=True, take_over=True)
    assert execute(database, "SELECT count(*) FROM memory") == [(0,)]


def test_unknown_names_are_usage_errors(database: str, opened: Callable[..., Memory], write: Write) -> None:
    """A memory that is not there, a role that is not there."""
    write("a.md", TEXT)
    opened("ours").sync()
    connections = Connections(database)
    with pytest.raises(UsageError, match="has no memory 'other'"):
        access.grant(connections, "other", "postgres")
    with pytest.raises(UsageError, match="has no role 'nobody"):
        access.grant(connections, "ours", 'nobody"; DROP TABLE note; --')
    connections.close()
    assert execute(database, "SELECT count(*) FROM note") == [(1,)]


def test_role_that_may_make_functions_beside_pgvector_does_not_run_them_as_the_owner(
    database: str, opened: Callable[..., Memory], roles: tuple[str, str], write: Write
) -> None:
    """Operators and functions in the extension's schema that fit better than PostgreSQL's own are never called."""
    mallory, _ = roles
    execute(database, f"GRANT CREATE ON SCHEMA public TO {mallory}")
    trap = f"BEGIN EXECUTE 'ALTER ROLE {mallory} SUPERUSER'; RETURN true; END"
    for left, right in (("text", "text"), ("integer", "integer"), ("bigint", "bigint"), ("bigint", "integer")):
        name = f"trap_{left}_{right}"
        body = f"CREATE FUNCTION public.{name}({left}, {right}) RETURNS boolean LANGUAGE plpgsql AS $${trap}$$"
        execute(as_role(database, mallory), body)
        for operator in ("=", "<>", ">=", "~"):
            make = f"CREATE OPERATOR public.{operator} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = public.{name})"
            execute(as_role(database, mallory), make)
    for signature, result in (
        ("to_timestamp(bigint)", "now()"),
        ("length(text)", "1"),
        ("starts_with(text, text)", "true"),
        ("quote_ident(name)", "'public'"),
    ):
        kind = {"now()": "timestamptz", "1": "integer", "true": "boolean", "'public'": "text"}[result]
        body = trap.replace("RETURN true", f"RETURN {result}")
        make = f"CREATE FUNCTION public.{signature} RETURNS {kind} LANGUAGE plpgsql AS $${body}$$"
        execute(as_role(database, mallory), make)
    write("a.md", TEXT)
    write("threads/t.md", THREAD)
    memory = opened("ours")
    memory.sync()
    connections = Connections(database)
    access.grant(connections, "ours", mallory)
    for query in ("heron", "heron after:2020", "in:threads/ heron", "where:mood=calm", "role:user", "path:a* heron"):
        memory.search(query)
    memory.rebuild()
    memory.verify()
    access.revoke(connections, "ours", mallory)
    access.forget(connections, "ours", "mine", apply=True, take_over=True)
    connections.close()
    assert execute(database, "SELECT rolsuper FROM pg_roles WHERE rolname = %s", mallory) == [(False,)]


def test_schema_of_another_role_is_not_used(database: str, roles: tuple[str, str]) -> None:
    """A role that may create schemas cannot pass its own off as memsync's, nor run functions with others' rights."""
    mallory, _ = roles
    dsn = new_database("squatted")
    name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
    execute(dsn, f"GRANT CREATE ON DATABASE {name} TO {mallory}")
    trap = f"BEGIN EXECUTE 'ALTER ROLE {mallory} SUPERUSER'; RETURN; END"
    for statement in (
        "CREATE SCHEMA memsync",
        "GRANT ALL ON SCHEMA memsync TO public",
        f"CREATE FUNCTION memsync.pg_advisory_xact_lock(bigint) RETURNS void LANGUAGE plpgsql AS $${trap}$$",
        "CREATE TABLE memsync.migration (number int, name text)",
        "INSERT INTO memsync.migration VALUES (1, 'x')",
        "GRANT ALL ON ALL TABLES IN SCHEMA memsync TO public",
    ):
        execute(as_role(dsn, mallory), statement)
    connections = Connections(dsn)
    for use in (migrate.migrate, access.status):
        with pytest.raises(IndexFailure, match="belong to another role"):
            use(connections)
    connections.close()
    execute(dsn, "DROP SCHEMA memsync CASCADE")
    drop_database(f"squatted_{os.getpid()}")
    assert execute(database, "SELECT rolsuper FROM pg_roles WHERE rolname = %s", mallory) == [(False,)]


def test_grant_during_a_rebuild_is_not_lost(
    database: str, opened: Callable[..., Memory], roles: tuple[str, str], write: Write
) -> None:
    """It waits until the new index has the memory's name."""
    write("a.md", TEXT)
    memory = opened("ours")
    memory.sync()
    connections = Connections(database)
    granting = threading.Thread(target=access.grant, args=(connections, "ours", roles[0]))
    other = memory.index.beside()
    with connections.writing() as connection:
        connection.execute("SELECT root FROM memory WHERE name = 'ours' FOR UPDATE")
        granting.start()
        until(lambda: waiting_locks(database) == 1, "the grant waits")
        execute(database, "SELECT 1")
        connection.execute("UPDATE memory SET name = 'ours (replaced)' WHERE name = 'ours'")
        connection.execute("UPDATE memory SET name = 'ours' WHERE name = 'ours (being rebuilt)'")
    granting.join()
    connections.close()
    other.close()
    assert execute(as_role(database, roles[0]), "SELECT name FROM memsync.memory") == [("ours",)]


def waiting_locks(dsn: str) -> int:
    return int(str(execute(dsn, "SELECT count(*) FROM pg_locks WHERE NOT granted")[0][0]))


def test_member_of_a_granted_group_reads_with_its_rights(
    database: str, opened: Callable[..., Memory], roles: tuple[str, str], write: Write
) -> None:
    """A grant to a group is one to its members; taking the last one back leaves the role without any right."""
    group, member = roles
    execute(database, f"GRANT {group} TO {member}")
    write("a.md", TEXT)
    opened("ours").sync()
    connections = Connections(database)
    access.grant(connections, "ours", group)
    assert execute(as_role(database, member), "SELECT name FROM memsync.memory") == [("ours",)]
    assert access.revoke(connections, "ours", group)
    connections.close()
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        execute(as_role(database, member), "SELECT name FROM memsync.memory")
    execute(database, f"DROP ROLE {group}")
    execute(database, f"CREATE ROLE {group}")
