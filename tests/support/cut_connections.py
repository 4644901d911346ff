"""Connections to PostgreSQL that are cut at the nth statement, before it or after it but without its answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from memsync.index.postgres import connections
from tests.support.postgres_server import server

BEFORE, UNHEARD = "before", "unheard"
"""The server ends the connection before a statement, or does the statement but the answer is lost."""


class Cutter:
    """Cuts one connection. `count` is the number of statements since `begin`; `struck` the statement that was cut."""

    def __init__(self, admin: psycopg.Connection[Any]) -> None:
        self._admin = admin
        self._at, self._mode = 0, BEFORE
        self._only = b""
        self.count = 0
        self.struck = ""

    def begin(self, at: int, mode: str, only: bytes = b"") -> None:
        """Cut at the `at`th statement from now on, of those that begin with `only`; 0: never."""
        self._at, self._mode, self._only = at, mode, only
        self.count, self.struck = 0, ""

    @contextmanager
    def around(self, connection: psycopg.Connection[Any], statement: Any) -> Iterator[None]:
        """Count one statement, and cut its connection if it is its turn."""
        text = statement if isinstance(statement, bytes) else str(statement).encode()
        if not text.startswith(self._only):
            yield
            return
        self.count += 1
        is_turn = self.count == self._at
        if is_turn and self._mode == BEFORE:
            self._cut(connection, text)
        yield
        if is_turn and self._mode == UNHEARD:
            self._cut(connection, text)
            connection.pgconn.exec_(b"SELECT 1")  # it notices that the connection is lost
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    def _cut(self, connection: psycopg.Connection[Any], text: bytes) -> None:
        self.struck = text.decode()
        process = connection.info.backend_pid
        self._admin.execute("SELECT pg_terminate_backend(%s)", (process,))
        while self._admin.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (process,)).fetchone():
            pass


@contextmanager
def cut_connections(patch: pytest.MonkeyPatch, admin_dsn: str = "") -> Iterator[Cutter]:
    """Let every connection that memsync opens meanwhile be cut by the Cutter that this yields."""
    open_connection = connections.connect
    with psycopg.connect(admin_dsn or server(), autocommit=True) as admin:
        cutter = Cutter(admin)

        class CutCursor(psycopg.Cursor[Any]):
            def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
                with cutter.around(self.connection, query):
                    return super().execute(query, *arguments, **options)

            def executemany(self, query: Any, *arguments: Any, **options: Any) -> Any:
                with cutter.around(self.connection, query):
                    return super().executemany(query, *arguments, **options)

            @contextmanager
            def copy(self, statement: Any, *arguments: Any, **options: Any) -> Iterator[Any]:  # type: ignore[override]
                with cutter.around(self.connection, statement), super().copy(statement, *arguments, **options) as copy:
                    yield copy

        def connect(dsn: str) -> Any:
            connection = open_connection(dsn)
            connection.cursor_factory = CutCursor
            return connection

        with patch.context() as patched:
            patched.setattr(connections, "connect", connect)
            yield cutter
