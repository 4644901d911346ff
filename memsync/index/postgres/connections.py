"""A pool of connections to PostgreSQL, and the transactions on them.

Nothing is kept in a session, so a pooler such as PgBouncer in transaction mode may stand in between: no prepared
statements, no session locks, and all settings are LOCAL to their transaction.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from memsync.errors import ConfigError, IndexBusy, IndexFailure, IndexReadOnly
from memsync.index.postgres.refusals import UNCHANGED, is_lost, refusal_of, without_passwords

SCHEMA = "memsync"
SEARCH_PATH = f"pg_catalog, {SCHEMA}, pg_temp"
"""Only the owner of the tables can create anything in these schemas. Statements name pgvector's schema."""
MAX_CONNECTIONS = 10
"""Eight threads that search, one that writes and one that embeds."""
EXTRA_FACTOR = 4
EXTRA_SECONDS = 0.2
"""A thread that has waited EXTRA_SECONDS may open a connection beyond the maximum, up to EXTRA_FACTOR times as many.
Otherwise many searches at once could wait for each other: each holds a connection while it waits for a second one."""
WAIT_SECONDS = 10.0
"""How long a thread waits for a free connection."""
CONNECT_SECONDS = 5
REST_SECONDS = 1.0
"""For this time after a failed attempt, raise the same error again instead of trying to connect."""
LOCK_TIMEOUT_MS = 10_000
READ_SECONDS, WRITE_SECONDS = 30.0, 600.0
"""How long one statement may send nothing. A server may be connected and yet never answer: frozen, or out of memory."""

# Whether the session's role is a superuser, the schema of pgvector, the owner of memsync's schema, and whether the role
# may trust that owner, whose functions would run with its rights. A superuser trusts only superusers.
_SURROUNDINGS = f"""
SELECT r.rolsuper, (
           SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
           WHERE e.extname = 'vector'),
       o.rolname, o.oid = r.oid OR CASE WHEN r.rolsuper THEN o.rolsuper ELSE pg_has_role(r.oid, o.oid, 'USAGE') END
FROM pg_roles r LEFT JOIN pg_namespace s ON s.nspname = '{SCHEMA}' LEFT JOIN pg_roles o ON o.oid = s.nspowner
WHERE r.rolname = current_user
"""
_LIMITS = f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}; SET LOCAL search_path = {SEARCH_PATH}"
_READ_ONLY = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_LIMITS}"
_WRITE = f"BEGIN; {_LIMITS}"
# Outside a transaction of their own, statements find nothing but what is built in.
_TRUSTED_PATH = "SET LOCAL search_path = pg_catalog, pg_temp"

_PLAIN_NAME = re.compile(r"[\w-]{1,32}")
"""Other names of roles are not shown: in somebody else's database one could be an instruction to an agent."""

Result = TypeVar("Result")


class NoAnswer(psycopg.OperationalError):
    """The server keeps the connection open and sends nothing."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that does not wait for ever.

    `extension` is the schema of pgvector, quoted, known once a transaction has begun; `owner_is_trusted` tells whether
    the functions of the tables' owner may run with the rights of this connection's role; `silence` is how many seconds
    the server may send nothing, None for any time.
    """

    extension = ""
    silence: float | None = READ_SECONDS
    owner_is_trusted = False
    looked_at = -1
    """How many errors the pool had seen when these were asked."""

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
    """Connections to one database. Safe to use from several threads."""

    def __init__(self, dsn: str, *, size: int = MAX_CONNECTIONS, statement_ms: int = 0) -> None:
        """With `statement_ms` the server cancels longer statements."""
        self._dsn = dsn
        self._limit = f"; SET LOCAL statement_timeout = {statement_ms:d}" if statement_ms else ""
        self.server = server_of(dsn)
        self._guard = threading.Condition()
        self._idle: list[Connection] = []
        self._size = size
        self._used = 0
        self._is_closed = False
        self._failure: tuple[float, psycopg.Error] | None = None
        self._errors = 0

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that only reads, and sees one state of the database."""
        with self._transaction(_READ_ONLY, "ROLLBACK", READ_SECONDS) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection in a transaction, which is committed at the end, or rolled back if the body raises.

        Raises IndexFailure if the tables belong to another role.
        """
        with self._transaction(_WRITE, "COMMIT", WRITE_SECONDS) as connection:
            yield connection

    @contextmanager
    def alone(self) -> Iterator[Connection]:
        """Yield a connection outside any transaction, for statements that allow none, with full names of everything."""
        with self._borrowed("", None) as connection:
            yield connection

    def close(self) -> None:
        """Close all connections, those in use when they come back."""
        with self._guard:
            self._is_closed = True
            idle, self._idle = self._idle, []
            self._guard.notify_all()
        for connection in idle:
            _close(connection)

    @contextmanager
    def _transaction(self, begin: str, end: str, silence: float) -> Iterator[Connection]:
        with self._borrowed(begin, silence) as connection:
            try:
                yield connection
                self._end(connection, end)
            except BaseException:
                if not connection.closed:
                    with suppress(psycopg.Error):
                        connection.execute("ROLLBACK")
                raise

    def _end(self, connection: Connection, end: str) -> None:
        """End a transaction. Raises IndexFailure if the server has rolled it back instead of committing it."""
        done = connection.execute(end.encode()).statusmessage
        if done != end:
            raise IndexFailure(f"{self.server} has not done {end}", hint=f"Try again. {UNCHANGED}")

    @contextmanager
    def _borrowed(self, begin: str, silence: float | None) -> Iterator[Connection]:
        connection = self._take(begin, silence)
        try:
            yield connection
        except psycopg.Error as error:
            if is_lost(error):
                _close(connection)
                self._forget_idle()
            self._errors += 1  # pgvector may have been moved: every connection asks again before its next transaction
            raise refusal_of(error, self.server) from error
        finally:
            self._give_back(connection)

    def _take(self, begin: str, silence: float | None) -> Connection:
        """Return a connection in which the transaction has begun; one that the server has closed is replaced."""
        while True:
            connection = self._idle_one()
            is_new = connection is None
            try:
                if connection is None:
                    connection = self._connect()
                connection.silence = READ_SECONDS
                self._begin(connection, begin)
                connection.silence = silence
                return connection
            except BaseException as error:
                if connection is not None:
                    _close(connection)
                self._release()
                if not isinstance(error, psycopg.Error):
                    raise
                if is_new or not is_lost(error):
                    raise refusal_of(error, self.server) from error

    def _begin(self, connection: Connection, begin: str) -> None:
        """Begin a transaction; without `begin` only try the connection. Raises IndexFailure."""
        if not begin:
            connection.execute(b"")
            return
        is_writing = begin == _WRITE
        is_known = connection.extension and connection.looked_at == self._errors
        if not is_known or (is_writing and not connection.owner_is_trusted):
            self._look_around(connection, is_writing=is_writing)
        connection.execute(f"{begin}{self._limit}".encode())

    def _look_around(self, connection: Connection, *, is_writing: bool) -> None:
        """Find pgvector, and who owns memsync's schema. Raises IndexFailure if that role is not to be trusted."""
        connection.looked_at = self._errors
        connection.execute(f"BEGIN READ ONLY; {_TRUSTED_PATH}".encode())
        row = connection.execute(_SURROUNDINGS.encode()).fetchone()
        connection.execute(b"ROLLBACK")
        is_superuser, extension, owner, is_trusted = row or (False, None, None, None)
        if owner is not None and not is_trusted and (is_writing or is_superuser):
            # A role that was granted a memory reads it, so searches answer from the index as it is.
            refusal = IndexFailure if is_superuser else IndexReadOnly
            known = f"belong to {owner!r}" if _PLAIN_NAME.fullmatch(owner) else "belong to another role"
            raise refusal(
                f"this role lacks a right to the tables on {self.server}: they {known}, and only their owner writes",
                hint="Connect as that role; another one can only read what memsync index grant gave it."
                f" If the schema {SCHEMA} is not memsync's, drop it.",
            )
        connection.extension = sql.Identifier(extension).as_string(connection) if extension else ""
        connection.owner_is_trusted = bool(is_trusted)

    def _idle_one(self) -> Connection | None:
        """Return an idle connection, or None if a new one may be opened; wait while neither is possible."""
        began = time.monotonic()
        with self._guard:
            while True:
                waited = time.monotonic() - began
                if self._is_closed:
                    raise IndexFailure("this index is closed", hint="Open the memory again.")
                if self._idle:
                    self._used += 1
                    return self._idle.pop()
                if self._used < self._size * (EXTRA_FACTOR if waited >= EXTRA_SECONDS else 1):
                    self._used += 1
                    return None
                if waited >= WAIT_SECONDS:
                    raise IndexBusy(
                        f"all {self._used} connections to {self.server} are in use", hint="Try again in a moment."
                    )
                self._guard.wait((EXTRA_SECONDS if waited < EXTRA_SECONDS else WAIT_SECONDS) - waited)

    def _connect(self) -> Connection:
        """Open a connection. A failure is remembered for a moment, so that waiting threads do not try one by one."""
        if self._failure is not None and time.monotonic() - self._failure[0] < REST_SECONDS:
            raise refusal_of(self._failure[1], self.server) from self._failure[1]
        try:
            connection = connect(self._dsn)
        except psycopg.Error as error:
            self._failure = (time.monotonic(), error)
            raise
        self._failure = None
        return connection

    def _give_back(self, connection: Connection) -> None:
        is_idle = not connection.closed and connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
        with self._guard:
            is_kept = is_idle and not self._is_closed and len(self._idle) + self._used <= self._size
            if is_kept:
                self._idle.append(connection)
            self._used -= 1
            self._guard.notify()
        if not is_kept:
            _close(connection)

    def _release(self) -> None:
        with self._guard:
            self._used -= 1
            self._guard.notify()

    def _forget_idle(self) -> None:
        """Close the idle connections: if one was cut, the others probably were, too."""
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            _close(connection)


def connect(dsn: str) -> Connection:
    """Open one connection. Raises psycopg.Error."""
    given = conninfo_to_dict(dsn)
    defaults: dict[str, Any] = {
        "connect_timeout": CONNECT_SECONDS, "application_name": "memsync", "keepalives_idle": 30,
        "tcp_user_timeout": 30_000, "client_encoding": "utf8",
    }  # fmt: skip
    connection = Connection.connect(
        dsn, autocommit=True, **{name: value for name, value in defaults.items() if name not in given}
    )
    connection.prepare_threshold = None
    return connection


def server_of(dsn: str) -> str:
    """Return host, port and database of a connection string, for messages.

    Raises ConfigError, also for a string in which a part of the password would pass for one of these.
    """
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.Error as error:
        raise refusal_of(error, "PostgreSQL") from error
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


def _close(connection: Connection) -> None:
    with suppress(psycopg.Error):
        connection.close()
