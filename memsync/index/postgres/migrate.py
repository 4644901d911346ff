"""Make the tables, one process at a time. Those of another version are refused: an index can be filled again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from psycopg import errors

from memsync.errors import IndexBusy, IndexFailure, IndexOutdated, IndexTooNew
from memsync.index.postgres.connections import SCHEMA, Connections, DatabaseConnection
from memsync.index.postgres.refusals import BEGIN_ANEW, MIGRATE

MIN_SERVER = 150_000
MIN_PGVECTOR = (0, 8)
LATEST = 5
"""The version of tables.sql. Increase it when the tables change."""
LOCK_KEY = 0x6D656D73796E63
"""The key of the advisory lock that a migration holds."""
LOCK_SECONDS = 60
"""How long a migration waits for another one, and for the writers of each table."""
_NOT_INSTALLED = (
    errors.InsufficientPrivilege,
    errors.FeatureNotSupported,
    errors.UndefinedFile,
    errors.UndefinedObject,
)
"""What CREATE EXTENSION raises without the right to it, or if the server does not have pgvector's files."""

TABLES = (
    "memory", "meta", "note", "passage", "chunk", "fact", "tag", "link", "message", "word_row", "vocabulary", "space",
    "embedding", "pending", "grantee",
)  # fmt: skip
"""The tables of tables.sql."""

_PGVECTOR = "SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'vector'"
_HAS_TABLE = "SELECT to_regclass('memsync.migration') IS NOT NULL"


def version_of(connection: DatabaseConnection) -> int:
    """Return the version of the tables; 0 without them."""
    if not _value(connection, _HAS_TABLE):
        return 0
    return int(_value(connection, f"SELECT coalesce(max(number), 0) FROM {SCHEMA}.migration"))


def require_version(version: int, server: str) -> None:
    """Raise IndexTooNew or IndexOutdated unless these are the tables that this memsync uses."""
    if version > LATEST:
        raise IndexTooNew(
            f"the tables on {server} have version {version}; this memsync supports {LATEST}",
            hint="Upgrade memsync on this machine.",
        )
    if version < LATEST:
        reason = f"have version {version}; this memsync needs {LATEST}" if version else "are not there yet"
        hint = f"Begin anew with {BEGIN_ANEW}" if version else MIGRATE
        raise IndexOutdated(f"the tables on {server} {reason}", hint=hint)


def migrate(connections: Connections) -> bool:
    """Make the tables, and pgvector if it is missing; return False if they are there.

    They are one transaction under an advisory lock, so that two processes do not make them at once. Raises
    IndexOutdated and IndexTooNew for tables of another version, IndexFailure.
    """
    with _locked(connections) as connection:
        _prepare_database(connection, connections.server)
    with _locked(connections) as connection:  # another one, which knows the schema of pgvector
        if version := version_of(connection):
            require_version(version, connections.server)
            _require_tables(connection, connections.server)
            return False
        statements = (files("memsync.index.postgres") / "tables.sql").read_text(encoding="utf-8")
        # In the schema; pgvector's types are found wherever it is installed.
        connection.execute(f"SET LOCAL search_path = {SCHEMA}, pg_catalog, pg_temp".encode())
        connection.execute(statements.replace("@extension@", connection.extension).encode())
        connection.execute(b"INSERT INTO migration (number) VALUES (%s)", (LATEST,))
        return True


def _require_tables(connection: DatabaseConnection, server: str) -> None:
    """Raise IndexFailure if a table is missing, as after a restore into a database without pgvector."""
    missing = [name for name in TABLES if _value(connection, f"SELECT to_regclass('{SCHEMA}.{name}')") is None]
    if missing:
        raise IndexFailure(
            f"the tables on {server} lack {', '.join(missing)}",
            hint="If you restored them before CREATE EXTENSION vector, restore them again. Or begin anew with "
            f"{BEGIN_ANEW}",
        )


def _prepare_database(connection: DatabaseConnection, server: str) -> None:
    """Create the schema and, if it is missing, pgvector. Raises IndexFailure if the server is too old or lacks it."""
    _check_server(connection, server)
    if _value(connection, _PGVECTOR) is None:
        try:
            with connection.transaction():
                connection.execute("CREATE EXTENSION vector SCHEMA public")
        except _NOT_INSTALLED as error:
            raise IndexFailure(
                f"{server} has no pgvector, and this role cannot install it (SQLSTATE {error.sqlstate})",
                hint="Install pgvector 0.8 or later there; then let an administrator run: CREATE EXTENSION vector",
            ) from error
    check_pgvector(connection, server)
    if _value(connection, f"SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = '{SCHEMA}'") is None:
        connection.execute(f"CREATE SCHEMA {SCHEMA}".encode())


def _check_server(connection: DatabaseConnection, server: str) -> None:
    """Raise IndexFailure if PostgreSQL is too old."""
    if connection.info.server_version < MIN_SERVER:
        version = connection.info.server_version // 10_000
        raise IndexFailure(f"{server} runs version {version}", hint="memsync needs PostgreSQL 15 or later.")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in (None, "UTF8"):
        raise IndexFailure(
            f"{server} stores text as {encoding}, which lacks most characters",
            hint="Create another database: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
        )


def check_pgvector(connection: DatabaseConnection, server: str) -> None:
    """Raise IndexFailure if pgvector is missing or too old."""
    version = _value(connection, _PGVECTOR)
    if version is None:
        raise IndexFailure(f"{server} has no pgvector", hint="Run there, as an administrator: CREATE EXTENSION vector")
    if tuple(map(int, re.findall(r"\d+", version)))[:2] < MIN_PGVECTOR:
        raise IndexFailure(
            f"{server} has pgvector {version}; memsync needs 0.8 or later",
            hint="Install a newer pgvector there; then run: ALTER EXTENSION vector UPDATE",
        )


@contextmanager
def _locked(connections: Connections) -> Iterator[DatabaseConnection]:
    with connections.writing() as connection:
        connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'".encode())
        try:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK_KEY,))
        except errors.LockNotAvailable as error:
            raise IndexBusy(
                f"another process migrates the tables on {connections.server}", hint="Try again when it is done."
            ) from error
        yield connection


def _value(connection: DatabaseConnection, statement: str) -> Any:
    row = connection.execute(statement.encode()).fetchone()
    return row[0] if row else None
