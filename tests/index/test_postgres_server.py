"""The PostgreSQL server is stopped, restarted, full, or does not let memsync in: errors say what to do, and it recovers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from memsync.errors import IndexFailure
from memsync.memory import Memory
from memsync.settings.load import Settings
from tests.support.daemon_process import until
from tests.support.own_postgres import OwnServer, own_server
from tests.support.postgres_memory import Open, assert_converges, memories, new_dump, refused

Write = Callable[[str, str], Path]
AT_ONCE_SECONDS = 0.8


@pytest.fixture
def own() -> OwnServer:
    return own_server()


@pytest.fixture
def open_memory(settings: Settings, write: Write) -> Iterator[Open]:
    """Open the root's two notes on a database."""
    write("birds.md", "# Birds\n\nThe heron nests.\n")
    write("boats.md", "# Boats\n\nThe ketch leaks.\n")
    with memories(settings) as found:
        yield found


def test_connections_that_went_stale_are_replaced_unnoticed(own: OwnServer, open_memory: Open, write: Write) -> None:
    """The server was restarted between two operations: neither search nor sync nor a memory's many threads fail."""
    memory = open_memory(own.new_database("stale"))
    memory.sync()
    for work in (lambda: memory.search("heron").hits, lambda: memory.sync().generation, memory.rebuild):
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(memory.index._connections.reading())  # type: ignore[attr-defined]
        own.restart()
        write("new.md", f"A note at {time.time_ns()}.\n")
        assert work()


def test_stopped_server_is_named_at_once_and_recovered_from(
    own: OwnServer, open_memory: Open, settings: Settings, tmp_path: Path, write: Write
) -> None:
    """A search, a sync and a status do not wait; the same memory works when the server is back."""
    dsn = own.new_database("stopped")
    memory = open_memory(dsn)
    memory.sync()
    own.stop()
    write("new.md", "The tern dives.\n")
    for work in (lambda: memory.search("heron"), memory.sync, memory.status, memory.rebuild, memory.verify):
        began = time.perf_counter()
        with refused(dsn, IndexFailure, "cannot be reached|ended the connection", "MEMSYNC_INDEX_DSN"):
            work()
        assert time.perf_counter() - began < AT_ONCE_SECONDS
    own.start()
    until(lambda: answers(memory, "tern", "new.md"), "the memory uses the server that is back")
    assert_converges(memory, new_dump(settings, tmp_path / "new"))


def answers(memory: Memory, question: str, path: str) -> bool:
    """Tell whether a search finds a note; False if it fails as it should."""
    try:
        return [hit.path for hit in memory.search(question, limit=1).hits] == [path]
    except IndexFailure as error:
        assert error.hint
        return False
