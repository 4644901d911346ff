"""A memory on a PostgreSQL index of the test's choice, and what a new SQLite index of the same notes holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memsync.errors import MemsyncError
from memsync.index.postgres.connections import server_of
from memsync.index.postgres.index import Claim, PostgresIndex
from memsync.index.sqlite.index import SqliteIndex
from memsync.memory import Memory
from memsync.settings.load import Settings, load_settings
from tests.conftest import COUNTER, DEADLINE, FakeEmbedder
from tests.support.index_checks import check_sound, dump, without_words
from tests.support.stand_ins import PutForward

PASSWORD = "hunter2-secret"
Open = Callable[..., Memory]


@contextmanager
def memories(settings: Settings, name: str = "fault") -> Iterator[Open]:
    """Yield a function that opens the settings' root on the memory `name` of a database; all are closed at the end.

    Each call is another process's view. `machine` tells who writes; `folder` is that machine's index folder.
    """
    opened: list[Memory] = []

    def open_memory(dsn: str, *, machine: str = "here", folder: Path | None = None) -> Memory:
        own = settings if folder is None else index_in(settings, folder)
        own.index_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        index = PostgresIndex(dsn, name, own.index_dir, Claim(machine, f"somebody@{machine}"))
        embedder = FakeEmbedder()
        memory = Memory(
            own, index, COUNTER, lambda: embedder, lambda space: embedder, clock=PutForward(), deadline=DEADLINE
        )
        opened.append(memory)
        return memory

    yield open_memory
    for memory in opened:
        memory.close()


def index_in(settings: Settings, folder: Path) -> Settings:
    """Return the settings of the same root with another index folder."""
    other = load_settings(root=settings.root, environ={}, cwd=settings.root)
    other.index_name = str(folder)
    return other


def new_dump(settings: Settings, folder: Path) -> list[str]:
    """Return the dump of a new SQLite index of the notes as they are now, without words."""
    own = index_in(settings, folder)
    own.index_dir.mkdir(parents=True, mode=0o700)
    embedder = FakeEmbedder()
    index = SqliteIndex(own.index_dir / "index.db")
    with Memory(own, index, COUNTER, lambda: embedder, lambda space: embedder, deadline=DEADLINE) as memory:
        memory.sync()
        return without_words(dump(memory))


def assert_converges(memory: Memory, expected: list[str]) -> None:
    """Check that a sync makes the index sound and equal to a new one."""
    report = memory.sync()
    assert report.failed == ()
    assert without_words(dump(memory)) == expected
    check_sound(memory)


def assert_helpful(error: MemsyncError, dsn: str) -> None:
    """Check that an error names the server, says what to do, and has no password."""
    said = error.sentences()
    assert server_of(dsn) in said
    assert error.hint
    assert PASSWORD not in said


@contextmanager
def refused(dsn: str, kind: type[MemsyncError], match: str, hint: str) -> Iterator[None]:
    """Check that the body raises a helpful error whose sentences have `match` and whose hint has `hint`."""
    with pytest.raises(kind, match=match) as raised:
        yield
    assert type(raised.value) is kind
    assert hint in raised.value.hint
    assert_helpful(raised.value, dsn)
