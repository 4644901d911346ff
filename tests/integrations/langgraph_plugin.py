"""Puts memsync's store in place of LangGraph's SqliteStore, for the tests of langgraph-checkpoint-sqlite.

PYTHONPATH=tests/integrations pytest -p langgraph_plugin TESTS/test_store.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import langgraph.store.sqlite

from memsync import Memory
from memsync.integrations.langgraph import MemsyncStore


class StandIn(MemsyncStore):
    """A store that opens as theirs does: each one in a memory of its own, with memsync's own vectors."""

    MIGRATIONS = langgraph.store.sqlite.SqliteStore.MIGRATIONS

    @classmethod
    @contextmanager
    def from_conn_string(cls, name: str, **_: Any) -> Iterator[Self]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder, "notes")
            root.mkdir()
            with Memory.open(root) as memory:
                yield cls(memory)

    def setup(self) -> None:
        """Nothing is to set up."""


langgraph.store.sqlite.SqliteStore = StandIn  # type: ignore[misc, assignment]
