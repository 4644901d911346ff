"""The index backends that the contract tests run against."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from memsync.index.sqlite.index import SqliteIndex

if TYPE_CHECKING:
    from memsync.ports import Index

Test = TypeVar("Test", bound=Callable[..., Any])

BACKENDS = ("sqlite", "postgres")


def only_sqlite(test: Test) -> Test:
    """Mark a test that looks into the database file, or asks a daemon, which opens its index by itself."""
    return pytest.mark.usefixtures("backend")(pytest.mark.parametrize("backend", ["sqlite"], indirect=True)(test))


def opener(backend: str) -> Callable[[Path], Index]:
    """Return a function that opens the index of a folder; the same folder has the same index."""
    if backend == "sqlite":
        return lambda folder: SqliteIndex(folder / "index.db")
    from memsync.index.postgres.index import Claim, PostgresIndex
    from tests.support.postgres_server import shared_database

    token = secrets.token_hex(4)

    def open_postgres(folder: Path) -> Index:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        claim = Claim(f"{token}:{folder}", f"a test in {folder}")
        return PostgresIndex(shared_database(), f"{folder.name} {token} {folder}", folder, claim)

    return open_postgres
