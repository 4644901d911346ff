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
_RUN = secrets.token_hex(4)
"""Tells the memories of this process from those of an earlier one on the same server."""


def only_sqlite(test: Test) -> Test:
    """Mark a test of what only the SQLite index does, or that asks a daemon, which opens its index by itself."""
    on_sqlite: Test = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)(test)
    return on_sqlite if "backend" in test.__code__.co_varnames else pytest.mark.usefixtures("backend")(on_sqlite)


ONLY_SQLITE = [pytest.mark.usefixtures("backend"), pytest.mark.parametrize("backend", ["sqlite"], indirect=True)]
"""The same for all tests of a module, as its `pytestmark`."""


def opener(backend: str) -> Callable[[Path], Index]:
    """Return a function that opens the index of a folder; the same folder has the same index."""
    if backend == "sqlite":
        return lambda folder: SqliteIndex(folder / "index.db")
    from memsync.index.postgres.index import Claim, PostgresIndex
    from tests.support.postgres_server import shared_database

    def open_postgres(folder: Path) -> Index:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        claim = Claim(f"{_RUN}:{folder}", f"a test in {folder}")
        return PostgresIndex(shared_database(), f"{folder.name} {_RUN} {folder}", folder, claim)

    return open_postgres


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Return the index backend of `make_memory`: each in turn, in every test of a folder whose conftest.py has this."""
    return str(request.param)
