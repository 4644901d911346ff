"""The PostgreSQL server is stopped, restarted, full, or keeps memsync out: errors say what to do, and it recovers."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from memsync.errors import ConfigError, IndexFailure, IndexOutdated, IndexReadOnly, IndexTooNew
from memsync.index.postgres import access, migrate
from memsync.index.postgres.connections import Connections
from memsync.index.postgres.index import PostgresIndex
from memsync.memory import Memory, RemoteMemory
from memsync.settings.load import Settings
from memsync.system import clock
from tests.conftest import Patch, Write
from tests.support.daemon_process import Cli, until
from tests.support.own_postgres import OwnServer, free_port
from tests.support.postgres_memory import Open, assert_converges, assert_helpful, new_dump, refused

AT_ONCE_SECONDS = 4.0
"""Less than the time in which a connection is given up, so that a slow machine does not count as waiting."""


def test_connections_that_went_stale_are_replaced_unnoticed(own: OwnServer, open_memory: Open, write: Write) -> None:
    """The server was restarted between two operations: neither search nor sync nor a memory's many threads fail."""
    memory = open_memory(own.new_database("stale"))
    memory.sync()
    for work in (lambda: memory.search("heron").hits, lambda: memory.sync().generation, memory.rebuild):
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(memory.index._connections.reading())  # type: ignore[attr-defined]
        own.restart()
        write("new.md", f"A note at {clock.time_ns()}.\n")
        assert work()


def test_stopped_server_is_named_at_once_and_recovered_from(
    own: OwnServer, open_memory: Open, settings: Settings, tmp_path: Path, write: Write
) -> None:
    """A search and a sync do not wait; the same memory works when the server is back."""
    dsn = own.new_database("stopped")
    memory = open_memory(dsn)
    memory.sync()
    own.stop()
    write("new.md", "The tern dives.\n")
    for work in (lambda: memory.search("heron"), memory.sync, memory.rebuild, memory.verify):
        began = time.perf_counter()
        with refused(dsn, IndexFailure, "no connection to|ended the connection", "next sync"):
            work()
        assert time.perf_counter() - began < AT_ONCE_SECONDS
    assert any(re.search("no connection to|ended the", fault.reason) for fault in memory.status().failures)
    own.start()
    until(lambda: answers(memory, "tern", "new.md"), "the memory uses the server that is back")
    assert_converges(memory, new_dump(settings, tmp_path / "new"))


@pytest.mark.parametrize("work", ["search", "sync"])
def test_server_that_stops_answering_is_left(own: OwnServer, open_memory: Open, monkeypatch: Patch, work: str) -> None:
    """It keeps its connections, but freezes in mid-work: what waits for it gives up, and works again afterwards."""
    dsn = own.new_database("frozen")
    memory = open_memory(dsn)
    memory.sync()
    for name in ("READ_SECONDS", "WRITE_SECONDS"):
        monkeypatch.setattr(f"memsync.index.postgres.connections.{name}", 2.0)
    processes = [int(str(pid)) for (pid,) in own.execute("SELECT pid FROM pg_stat_activity WHERE datname = 'frozen'")]
    find = PostgresIndex._find

    def freeze(*arguments: Any) -> Any:
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        return find(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresIndex, "_find", freeze)
        try:
            with refused(dsn, IndexFailure, "has not answered for", "MEMSYNC_INDEX_DSN"):
                memory.search("heron", fresh="none") if work == "search" else memory.sync()
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)
    assert answers(memory, "heron", "birds.md")


def answers(memory: Memory, question: str, path: str) -> bool:
    """Tell whether a search finds a note; False if it fails as it should."""
    try:
        return [hit.path for hit in memory.search(question, limit=1).hits] == [path]
    except IndexFailure as error:
        assert error.hint
        return False


def test_daemon_outlives_its_database(
    own: OwnServer, cli: Cli, write: Write, monkeypatch: Patch, tmp_path: Path
) -> None:
    """It says at once that the database is away, and when it is back, indexes what changed meanwhile by itself."""
    dsn = own.new_database("served")
    monkeypatch.setenv("MEMSYNC_INDEX_BACKEND", "postgres")
    monkeypatch.setenv("MEMSYNC_INDEX_DSN", dsn)
    write("birds.md", "The heron nests.\n")
    cli.start()
    with RemoteMemory.serving(cli.settings) as remote:
        until(lambda: remote.status().vectors == 1, "the note is indexed")
        own.stop()
        write("new.md", "The tern dives.\n")
        began = time.perf_counter()
        with pytest.raises(IndexFailure, match=r"no connection to|ended the connection") as raised:
            remote.search("heron")
        assert time.perf_counter() - began < AT_ONCE_SECONDS
        assert_helpful(raised.value, dsn)
        own.start()
        count = "SELECT count(*) FROM memsync.note"
        until(lambda: own.execute(count, "served") == [(2,)], "the daemon has caught up by itself")
        assert remote.search("tern", limit=1).hits[0].path == "new.md"
    assert cli("status").returncode == 0


# ------------------------------------------------------------------------------------------ not let in


def test_what_keeps_memsync_out_is_named_with_its_remedy(own: OwnServer, open_memory: Open) -> None:
    """Wrong password, unknown role and database, a login that is refused, no TLS, no server, no such host."""
    own.new_role("reader")
    closed = f"127.0.0.1:{free_port()}"
    for parts, match in (
        ({"user": "reader", "password": "hunter2-secret"}, "password authentication failed"),
        ({"user": "nobody", "password": "hunter2-secret"}, "password authentication failed"),
        ({"user": "reader", "passfile": "/nowhere"}, "no password"),
        ({"user": "unwelcome", "password": "x"}, "pg_hba.conf rejects"),
        ({"dbname": "nowhere"}, "'nowhere' does not exist"),
        ({"sslmode": "require"}, "SSL"),
        ({"port": closed.partition(":")[2]}, f"{closed}/postgres: .* refused"),
        ({"host": "nowhere.invalid"}, "nowhere.invalid"),
    ):
        dsn = make_conninfo(own.dsn(), **parts)
        with refused(dsn, IndexFailure, f"no connection to .*{match}", "Check that it runs, and host, user, password"):
            open_memory(dsn).search("heron")


@pytest.mark.parametrize(
    "dsn",
    [
        "postgres//me:hunter2-secret@host/notes",
        "me:hunter2-secret@host",
        "mysql://me:hunter2-secret@host/notes",
        "postgresql://me:hunter2-%zzsecret@host/notes",
        "host=db password=it is hunter2-secret",
        "host=db password=it is=hunter2-secret",
        "postgresql://me@host/notes?pasword=hunter2-secret&x",
    ],
)
def test_unreadable_connection_string_is_not_repeated(dsn: str) -> None:
    """Any part of it may be the password."""
    with pytest.raises(ConfigError, match="connection string cannot be used") as raised:
        Connections(dsn)
    assert "secret" not in raised.value.sentences()
    assert "postgresql://user:password@host:5432/database" in raised.value.hint


@pytest.mark.parametrize("password", ["abc@SECRET", "top/SECRET", "p@ss:SECRET", "a@b/SECRET", "SECRET/@1"])
def test_password_that_is_not_escaped_is_not_taken_for_a_server(password: str) -> None:
    """Otherwise libpq would look for a server with a part of it as its name, and every message would show that."""
    with pytest.raises(ConfigError, match="part of a password") as raised:
        Connections(f"postgresql://me:{password}@127.0.0.1/team")
    assert "SECRET" not in raised.value.sentences()
    assert "%40" in raised.value.hint


def test_tables_of_another_version_are_refused_with_what_to_run(
    own: OwnServer, open_memory: Open, monkeypatch: Patch
) -> None:
    """None yet, older ones and newer ones; also if they are migrated under a memory that is open."""
    dsn = own.new_database("versions", migrated=False)
    memory = open_memory(dsn)
    for work in (memory.sync, lambda: memory.search("heron")):
        with refused(dsn, IndexOutdated, "not there yet", "memsync index migrate"):
            work()
    made = Connections(dsn)
    migrate.migrate(made)
    assert memory.sync().added == 2
    # pgvector's operators are known, although they were not when the memory was opened.
    assert memory.search("heron", mode="vector").hits
    own.execute(f"UPDATE memsync.migration SET number = {migrate.LATEST + 1}", "versions")
    refusals: Sequence[Callable[[], object]] = (
        memory.sync, lambda: memory.search("heron"), open_memory(dsn).sync, lambda: migrate.migrate(made),
    )  # fmt: skip
    for refusal in refusals:
        with refused(dsn, IndexTooNew, f"version {migrate.LATEST + 1}", "Upgrade memsync"):
            refusal()
    own.execute("DROP SCHEMA memsync CASCADE", "versions")
    with refused(dsn, IndexOutdated, "not there yet", "memsync index migrate"):
        memory.sync()
    made.close()


def test_server_or_pgvector_too_old_or_missing(own: OwnServer, monkeypatch: Patch) -> None:
    """`memsync index migrate` says what to install, and leaves the database as it was."""
    dsn = own.new_database("old", migrated=False)
    made = Connections(dsn)
    with monkeypatch.context() as patched:
        patched.setattr(psycopg.ConnectionInfo, "server_version", 140_011)
        with refused(dsn, IndexFailure, "runs version 14", "PostgreSQL 15"):
            migrate.migrate(made)
    own.new_role("owner")
    own.execute("ALTER DATABASE old OWNER TO owner")
    owned = make_conninfo(dsn, user="owner", password="owner")
    by_owner = Connections(owned)
    with refused(owned, IndexFailure, "no pgvector, and this role cannot install it", "CREATE EXTENSION vector"):
        migrate.migrate(by_owner)
    own.execute("CREATE EXTENSION vector", "old")
    own.execute("UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'", "old")
    with refused(dsn, IndexFailure, "pgvector 0.7.4", "ALTER EXTENSION vector UPDATE"):
        migrate.migrate(made)
    assert own.execute("SELECT to_regnamespace('memsync')", "old") == [(None,)]
    own.execute("UPDATE pg_extension SET extversion = '0.8.5' WHERE extname = 'vector'", "old")
    assert migrate.migrate(by_owner)
    made.close()
    by_owner.close()


def test_roles_without_rights(own: OwnServer, open_memory: Open, write: Write, tmp_path: Path) -> None:
    """A role without grants is told so; one that may read is answered, with a warning that it cannot index."""
    dsn = own.new_database("rights")
    open_memory(dsn).sync()
    own.new_role("stranger")
    own.new_role("reader")
    stranger = make_conninfo(dsn, user="stranger", password="stranger")
    for work in (open_memory(stranger).sync, lambda: open_memory(stranger).search("heron")):
        with refused(stranger, IndexReadOnly, "lacks a right", "memsync index grant"):
            work()
    granting = Connections(dsn)
    access.grant(granting, "fault", "reader")
    granting.close()
    reader = make_conninfo(dsn, user="reader", password="reader")
    write("new.md", "The tern dives.\n")
    for folder in (None, tmp_path / "another machine"):
        memory = open_memory(reader, folder=folder)
        with refused(reader, IndexReadOnly, "only their owner writes", "Connect as"):
            memory.sync()
        result = memory.search("heron", limit=1)
        assert [hit.path for hit in result.hits] == ["birds.md"]
        assert any("lacks a right" in warning for warning in result.warnings)
        assert any("Still indexing" in warning for warning in result.warnings)
