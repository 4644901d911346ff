"""What concerns a whole database: its memories, who may read them, and their removal.

A database role reads the memories that were granted to it: row-level security hides all others. Only the owner of the
tables writes, because COPY does not work with row-level security.
"""

from __future__ import annotations

from typing import NamedTuple

from psycopg import sql

from memsync.errors import IndexFailure, UsageError
from memsync.index.postgres.connections import SCHEMA, Connections, DatabaseConnection
from memsync.index.postgres.migrate import LATEST, check_pgvector, require_version, version_of
from memsync.model.grouped import grouped
from memsync.model.status import HeldByIndex

# (name, text of the writer, notes, passages, last sync, roles that may read it) of every memory, by name.
_MEMORIES = """
SELECT m.name, m.writer_label,
       (SELECT count(*) FROM note n WHERE n.root = m.root), (SELECT count(*) FROM passage p WHERE p.root = m.root),
       coalesce((SELECT value FROM meta WHERE root = m.root AND key = 'last_sync'), '')
FROM memory m WHERE position('(' IN m.name) = 0 ORDER BY m.name
"""
# (version of pgvector in this database, version that the server has files of); no row without its files.
_PGVECTOR = b"""
SELECT coalesce(installed_version, ''), coalesce(default_version, '') FROM pg_catalog.pg_available_extensions
WHERE name = 'vector'
"""
_WRITER = b"SELECT writer FROM memory WHERE name = %s"
_GRANTEES = """
SELECT m.name, r.rolname FROM memory m JOIN grantee g ON g.root = m.root JOIN pg_catalog.pg_roles r ON r.oid = g.role
ORDER BY 1, 2
"""


class KnownMemory(NamedTuple):
    """One memory of a database: its name, who writes it, its size, and the roles that may read it."""

    name: str
    writer: str
    notes: int
    passages: int
    last_sync: str
    readers: tuple[str, ...]


class DatabaseStatus(NamedTuple):
    """A database: the versions of the server, of pgvector and of the tables, and the memories that this role sees.

    `pgvector` is empty if it is not installed in the database; `installable` is the version that the server could
    install there, empty if it has none.
    """

    server: str
    postgres: str
    pgvector: str
    installable: str
    tables: int
    latest: int
    memories: tuple[KnownMemory, ...]


def status(connections: Connections) -> DatabaseStatus:
    """Return what a database holds. Raises IndexFailure."""
    with connections.reading() as connection:
        version = version_of(connection)
        if version:
            check_pgvector(connection, connections.server)
        memories = _memories(connection) if version == LATEST else ()
        return DatabaseStatus(
            connections.server,
            connection.info.parameter_status("server_version") or "",
            *_pgvector(connection),
            version,
            LATEST,
            memories,
        )


def _pgvector(connection: DatabaseConnection) -> tuple[str, str]:
    row = connection.execute(_PGVECTOR).fetchone() or ("", "")
    return str(row[0]), str(row[1])


def _memories(connection: DatabaseConnection) -> tuple[KnownMemory, ...]:
    is_told = connection.execute(b"SELECT has_table_privilege('memsync.grantee', 'SELECT')").fetchone() == (True,)
    readers: dict[str, list[str]] = grouped(connection.execute(_GRANTEES.encode()) if is_told else ())
    rows = connection.execute(_MEMORIES.encode())
    return tuple(
        KnownMemory(name, writer, notes, passages, last_sync, tuple(readers.get(name, ())))
        for name, writer, notes, passages, last_sync in rows
    )


def grant(connections: Connections, memory: str, role: str) -> None:
    """Let a database role read a memory. Raises UsageError for an unknown memory or role, IndexFailure."""
    with connections.writing() as connection:
        root, oid = _root_and_role(connection, connections.server, memory, role)
        name = sql.Identifier(role)
        for schema in (SCHEMA, connection.extension):
            if not _may_use(connection, role, schema):
                connection.execute(sql.SQL(f"GRANT USAGE ON SCHEMA {schema} TO {{}}").format(name))
        connection.execute(sql.SQL(f"GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO {{}}").format(name))
        connection.execute(sql.SQL("REVOKE SELECT ON grantee FROM {}").format(name))  # it names other roles
        connection.execute(b"INSERT INTO grantee VALUES (%s, %s) ON CONFLICT DO NOTHING", (root, oid))


def revoke(connections: Connections, memory: str, role: str) -> bool:
    """Take back what `grant` gave; return whether the role could read the memory."""
    with connections.writing() as connection:
        root, oid = _root_and_role(connection, connections.server, memory, role)
        revoked = connection.execute(b"DELETE FROM grantee WHERE root = %s AND role = %s", (root, oid)).rowcount > 0
        if connection.execute(b"SELECT 1 FROM grantee WHERE role = %s", (oid,)).fetchone() is None:
            for rights in (f"ALL TABLES IN SCHEMA {SCHEMA}", f"SCHEMA {SCHEMA}"):
                connection.execute(sql.SQL(f"REVOKE ALL ON {rights} FROM {{}}").format(sql.Identifier(role)))
        return revoked


def forget(connections: Connections, memory: str, machine: str, *, apply: bool, take_over: bool = False) -> HeldByIndex:
    """Delete a memory and all its rows, unless `apply` is False; return what it held.

    `machine` is the id of this user on this machine. Raises UsageError if there is no such memory, IndexFailure if
    somebody else writes it, unless `take_over` is set.
    """
    server = connections.server
    with connections.writing() as connection:
        require_version(version_of(connection), server)
        lock = b" FOR UPDATE" if apply else b""  # nobody else claims it meanwhile
        row = connection.execute(_WRITER + lock, (memory,)).fetchone()
        found = next((known for known in _memories(connection) if known.name == memory), None)
        if row is None or found is None:
            raise _no_memory(connection, server, memory)
        is_own = str(row[0]).startswith(f"{machine}:")
        held = HeldByIndex(
            server, found.notes, found.passages, writer=found.writer, last_sync=found.last_sync, is_own=is_own
        )
        if apply:
            if not (held.is_own or take_over):
                raise _not_own(memory, held)
            connection.silence = None
            beside = [memory, f"{memory} (being rebuilt)", f"{memory} (replaced)"]
            deleted = connection.execute(b"DELETE FROM memory WHERE name = ANY (%s)", (beside,)).rowcount
            if not deleted:
                raise IndexFailure(
                    f"this database role may not delete {memory!r} on {server}",
                    hint="Only the owner of the tables may.",
                )
        return held


def _not_own(memory: str, held: HeldByIndex) -> IndexFailure:
    """Return the refusal to delete a memory that somebody else writes."""
    synced = f", who last synced it at {held.last_sync}" if held.last_sync else ""
    return IndexFailure(
        f"the memory {memory!r} on {held.place} is written by {held.writer}{synced}",
        hint="If that machine or folder is gone for good, delete it with --take-over.",
    )


def _no_memory(connection: DatabaseConnection, server: str, memory: str) -> UsageError:
    names = ", ".join(known.name for known in _memories(connection)) or "none"
    return UsageError(f"{server} has no memory {memory!r}", hint=f"It has: {names}.")


def _may_use(connection: DatabaseConnection, role: str, schema: str) -> bool:
    statement = b"SELECT has_schema_privilege(%s, to_regnamespace(%s)::oid, 'USAGE')"
    return connection.execute(statement, (role, schema)).fetchone() == (True,)


def _root_and_role(connection: DatabaseConnection, server: str, memory: str, role: str) -> tuple[int, int]:
    require_version(version_of(connection), server)
    statement = b"SELECT root FROM memory WHERE name = %s FOR UPDATE"
    # A rebuild that gives the name to another memory meanwhile makes the first attempt find none.
    row = connection.execute(statement, (memory,)).fetchone() or connection.execute(statement, (memory,)).fetchone()
    if row is None:
        raise _no_memory(connection, server, memory)
    found = connection.execute(b"SELECT oid FROM pg_catalog.pg_roles WHERE rolname = %s", (role,)).fetchone()
    if found is None:
        raise UsageError(f"{server} has no role {role!r}", hint="Create it with CREATE ROLE, or see \\du in psql.")
    return int(row[0]), int(found[0])
