"""Bring the tables to a version by numbered SQL files, up or down, one process at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, NamedTuple

from psycopg import errors

from memsync.errors import IndexBusy, IndexFailure, IndexOutdated, IndexTooNew, UsageError
from memsync.index.postgres.connections import SCHEMA, Connections, DatabaseConnection
from memsync.index.postgres.refusals import MIGRATE

MIN_SERVER = 150_000
MIN_PGVECTOR = (0, 8)
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
"""The tables of the latest version."""

_PGVECTOR = "SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'vector'"
_HAS_TABLE = "SELECT to_regclass('memsync.migration') IS NOT NULL"


class Migration(NamedTuple):
    """One step of the tables: its number, its name, and the statements up and down."""

    number: int
    name: str
    up: str
    down: str


def migrations() -> list[Migration]:
    """Return all migrations by number."""
    folder = files("memsync.index.postgres") / "migrations"
    steps = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".up.sql"):
            stem = entry.name.removesuffix(".up.sql")
            number, _, name = stem.partition("_")
            down = (folder / f"{stem}.down.sql").read_text(encoding="utf-8")
            steps.append(Migration(int(number), name, entry.read_text(encoding="utf-8"), down))
    return steps


LATEST = len(migrations())


def version_of(connection: DatabaseConnection) -> int:
    """Return the number of the last migration; 0 without tables."""
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
        raise IndexOutdated(f"the tables on {server} {reason}", hint=MIGRATE)


def migrate(connections: Connections, to: int | None = None) -> list[tuple[str, str]]:
    """Apply or undo migrations until the tables have version `to` (default: the latest).

    Each step is one transaction under an advisory lock, so that two processes do not migrate at once. Returns
    (direction, name) of each step done. Raises UsageError for an unknown version, IndexTooNew, IndexFailure.
    """
    steps = migrations()
    target = LATEST if to is None else to
    if not 0 <= target <= LATEST:
        raise UsageError(f"there is no version {target} of the tables", hint=f"Versions are 0 to {LATEST}.")
    if target:
        with _locked(connections) as connection:
            _prepare_database(connection, connections.server)
    done = list[tuple[str, str]]()
    while True:
        with _locked(connections) as connection:
            version = version_of(connection)
            if version > LATEST:
                require_version(version, connections.server)
            if version == target:
                if version == LATEST:
                    _require_tables(connection, connections.server)
                return done
            if version < target:
                step = steps[version]
                _run(connection, step.up)
                connection.execute(
                    f"INSERT INTO {SCHEMA}.migration (number, name) VALUES (%s, %s)", (step.number, step.name)
                )
                done.append(("up", f"{step.number:04} {step.name}"))
            else:
                step = steps[version - 1]
                _run(connection, step.down)
                connection.execute(f"DELETE FROM {SCHEMA}.migration WHERE number = %s", (step.number,))
                done.append(("down", f"{step.number:04} {step.name}"))


def _require_tables(connection: DatabaseConnection, server: str) -> None:
    """Raise IndexFailure if a table is missing, as after a restore into a database without pgvector."""
    missing = [name for name in TABLES if _value(connection, f"SELECT to_regclass('{SCHEMA}.{name}')") is None]
    if missing:
        raise IndexFailure(
            f"the tables on {server} lack {', '.join(missing)}",
            hint="If you restored them before CREATE EXTENSION vector, restore them again. To begin anew, run: memsync"
            " index migrate --to 0 --apply; then: memsync index migrate",
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
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {SCHEMA}.migration"
        " (number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
    )


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


def _run(connection: DatabaseConnection, statements: str) -> None:
    """Run the statements of a file in the schema; pgvector's types are found wherever it is installed."""
    connection.execute(f"SET LOCAL search_path = {SCHEMA}, pg_catalog, pg_temp".encode())
    connection.execute(statements.replace("@extension@", connection.extension).encode())


def _value(connection: DatabaseConnection, statement: str) -> Any:
    row = connection.execute(statement.encode()).fetchone()
    return row[0] if row else None
