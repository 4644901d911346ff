"""Connections to PostgreSQL, and the transactions on them.

Nothing is kept in a session, so a pooler such as PgBouncer in transaction mode may stand in between: no prepared
statements, no session locks, and all settings are LOCAL to their transaction.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from memsync.errors import ConfigError, IndexFailure, IndexReadOnly
from memsync.index.postgres.refusals import OWN_SOURCE, UNCHANGED, refusal_of
from memsync.settings.connection_string import without_passwords

SCHEMA = "memsync"
SEARCH_PATH = f"pg_catalog, {SCHEMA}, pg_temp"
"""Only the owner of the tables can create anything in these schemas. Statements name pgvector's schema."""
MAX_IDLE = 10
"""How many connections without a transaction are kept."""
CONNECT_SECONDS = 5
REST_SECONDS = 1.0
"""For this time after a failed attempt, raise the same error again instead of trying to connect."""
LOCK_TIMEOUT_MS = 10_000
READ_SECONDS, WRITE_SECONDS = 30.0, 600.0
"""How long one statement may send nothing. A server may be connected and yet never answer: frozen, or out of memory."""

# The schema of pgvector, whether memsync's schema is there, whether the session's role is a superuser, and whether it
# may trust the owner of that schema, whose functions would run with its rights. A superuser trusts only superusers.
_SURROUNDINGS = f"""
SELECT (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = 'vector'),
       o.oid IS NOT NULL, r.rolsuper,
       CASE WHEN r.rolsuper THEN o.rolsuper ELSE pg_has_role(r.oid, o.oid, 'USAGE') END
FROM pg_roles r LEFT JOIN pg_namespace s ON s.nspname = '{SCHEMA}' LEFT JOIN pg_roles o ON o.oid = s.nspowner
WHERE r.rolname = current_user
"""
_LIMITS = f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}; SET LOCAL search_path = {SEARCH_PATH}"
_READ_ONLY = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_LIMITS}"
_WRITE = f"BEGIN; {_LIMITS}"
# Before the owner of the schema is known, statements find nothing but what is built in.
_TRUSTED_PATH = "SET LOCAL search_path = pg_catalog, pg_temp"

Result = TypeVar("Result")


class NoAnswer(psycopg.OperationalError):
    """The server keeps the connection open and sends nothing."""


class DatabaseConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that does not wait for ever.

    `extension` is the schema of pgvector, quoted; `silence` is how many seconds the server may send nothing, None for
    any time. `may_read` and `may_write` tell whether the functions of the tables' owner may run with the rights of this
    connection's role. `errors_before` is how many errors had occurred when all this was asked; -1 if pgvector or the
    tables were missing.
    """

    extension = ""
    silence: float | None = READ_SECONDS
    may_read = may_write = True
    errors_before = -1

    def wait(self, gen: Generator[Any, Any, Result], *arguments: Any, **options: Any) -> Result:
        """Wait for the server, as psycopg does. Raises NoAnswer and closes the connection if it stays silent."""
        return super().wait(self._limited(gen), *arguments, **options)

    def _limited(self, gen: Generator[Any, Any, Result]) -> Generator[Any, Any, Result]:
        heard = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    heard = time.monotonic()
                elif self.silence is not None and time.monotonic() - heard > self.silence:
                    self.pgconn.finish()
                    raise NoAnswer(f"it has not answered for {self.silence:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            result: Result = end.value
            return result


class Connections:
    """Connections to one database. Safe to use from several threads.

    Each transaction has a connection to itself: an idle one, otherwise a new one. A connection for each thread, as with
    SQLite, would be opened anew for each search of several memories, whose threads live no longer than the search.
    """

    def __init__(self, dsn: str, *, statement_ms: int = 0, source: str = "", own: str = OWN_SOURCE) -> None:
        """With `statement_ms` the server cancels longer statements; `source` and `own` are as in `refusal_of`."""
        self._dsn = dsn
        self._sources = source, own
        self._limit = f"; SET LOCAL statement_timeout = {statement_ms:d}" if statement_ms else ""
        self.server = server_of(dsn, source, own)
        self._idle: list[DatabaseConnection] = []
        self._is_closed = False
        self._errors = 0
        self._failure: tuple[psycopg.Error | None, float] = (None, 0.0)

    def reading(self) -> AbstractContextManager[DatabaseConnection]:
        """Return a connection in a transaction that only reads, and sees one state of the database."""
        return self._transaction(_READ_ONLY, "ROLLBACK", READ_SECONDS)

    def writing(self) -> AbstractContextManager[DatabaseConnection]:
        """Return a connection in a transaction, which is committed at the end, or rolled back if the body raises.

        Raises IndexFailure if the tables belong to another role.
        """
        return self._transaction(_WRITE, "COMMIT", WRITE_SECONDS)

    def close(self) -> None:
        """Close all connections, those in use when their transaction ends."""
        self._is_closed = True
        self._close_idle()

    @contextmanager
    def _transaction(self, begin: str, end: str, silence: float) -> Iterator[DatabaseConnection]:
        try:
            connection = self._begun(begin)
            try:
                connection.silence = silence
                yield connection
                self._end(connection, end)
            except BaseException:
                with suppress(psycopg.Error):
                    connection.execute(b"ROLLBACK")
                raise
            finally:
                self._give_back(connection)
        except psycopg.Error as error:
            # If one connection was cut, the others probably were, too. And if pgvector was moved, new ones find it.
            self._errors += 1
            self._close_idle()
            raise refusal_of(error, self.server, *self._sources) from error

    def _end(self, connection: DatabaseConnection, end: str) -> None:
        """End a transaction. Raises IndexFailure if the server has rolled it back instead of committing it."""
        done = connection.execute(end.encode()).statusmessage
        if done != end:
            raise IndexFailure(f"{self.server} has not done {end}", hint=f"Try again. {UNCHANGED}")

    def _begun(self, begin: str) -> DatabaseConnection:
        """Return a connection in which a transaction has begun; idle ones that the server has closed are replaced."""
        if self._is_closed:
            raise IndexFailure("this index is closed", hint="Open the memory again.")
        with suppress(IndexError):
            connection = self._idle.pop()
            with suppress(psycopg.Error):
                return self._begin(connection, begin)
            self._close_idle()
        return self._begin(self._connect(), begin)

    def _connect(self) -> DatabaseConnection:
        """Open a connection. A failure is remembered for a moment: a command that needs several does not wait again."""
        failure, failed_at = self._failure
        if failure is not None and time.monotonic() - failed_at < REST_SECONDS:
            raise failure
        try:
            connection = connect(self._dsn)
        except psycopg.Error as error:
            self._failure = (error, time.monotonic())
            raise
        if _look_around(connection):
            connection.errors_before = self._errors
        return connection

    def _begin(self, connection: DatabaseConnection, begin: str) -> DatabaseConnection:
        """Begin a transaction; close the connection if that fails. Raises IndexFailure for a role that is refused."""
        try:
            if not (connection.may_read if begin == _READ_ONLY else connection.may_write):
                # A role that was granted a memory reads it, so searches answer from the index as it is.
                refusal = IndexReadOnly if connection.may_read else IndexFailure
                raise refusal(
                    f"this role lacks a right to the tables on {self.server}: they belong to another role, and only"
                    " their owner writes",
                    hint="Connect as that role; another one can only read what memsync index grant gave it."
                    f" If the schema {SCHEMA} is not memsync's, drop it.",
                )
            connection.silence = READ_SECONDS
            connection.execute(f"{begin}{self._limit}".encode())
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, connection: DatabaseConnection) -> None:
        """Keep a connection for another transaction, or close it."""
        is_idle = connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
        if is_idle and connection.errors_before == self._errors and len(self._idle) < MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        if self._is_closed:  # also if it was closed just now
            self._close_idle()

    def _close_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def connect(dsn: str) -> DatabaseConnection:
    """Open one connection. Raises psycopg.Error."""
    given = conninfo_to_dict(dsn)
    defaults: dict[str, Any] = {
        "connect_timeout": CONNECT_SECONDS, "application_name": "memsync", "keepalives_idle": 30,
        "tcp_user_timeout": 30_000, "client_encoding": "utf8",
    }  # fmt: skip
    connection = DatabaseConnection.connect(
        dsn, autocommit=True, **{name: value for name, value in defaults.items() if name not in given}
    )
    connection.prepare_threshold = None
    return connection


def _look_around(connection: DatabaseConnection) -> bool:
    """Find pgvector, and who owns memsync's schema; return whether both are there."""
    try:
        connection.execute(f"BEGIN READ ONLY; {_TRUSTED_PATH}".encode())
        row = connection.execute(_SURROUNDINGS.encode()).fetchone()
        connection.execute(b"ROLLBACK")
    except BaseException:
        connection.close()
        raise
    extension, has_tables, is_superuser, is_trusted = row or (None, False, False, True)
    connection.extension = sql.Identifier(extension).as_string(connection) if extension else ""
    connection.may_write = not has_tables or is_trusted
    connection.may_read = connection.may_write or not is_superuser
    return bool(extension and has_tables)


def server_of(dsn: str, source: str = "", own: str = OWN_SOURCE) -> str:
    """Return host, port and database of a connection string, for messages.

    Raises ConfigError, also for a string in which a part of the password would pass for one of these.
    """
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.Error as error:
        raise refusal_of(error, "PostgreSQL", source, own) from error
    # PGHOST and the like count, too, and libpq knows its own default for the port.
    defaults = {option.keyword.decode(): option.val for option in psycopg.pq.Conninfo.get_defaults()}
    values = {name: (value or b"").decode() for name, value in defaults.items()} | given
    host, port = values["host"] or values["hostaddr"] or "localhost", values["port"]
    database = values["dbname"] or values["user"]
    is_uri = dsn.startswith(("postgresql://", "postgres://"))
    if (is_uri and "@" in f"{host}{database}") or not str(port).replace(",", "").isdigit():
        raise ConfigError(
            "the connection string cannot be read: its server, port or database look like part of a password",
            hint="In a connection string that begins with postgresql://, write @ as %40, : as %3A and / as %2F in the"
            " password.",
        )
    return without_passwords(f"PostgreSQL at {host}:{port}/{database}")
