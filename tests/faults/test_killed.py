"""kill -9 at any moment: the index is in a state that was committed, and the next sync converges."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from memsync.memory import Memory
from tests.support.index_checks import assert_sound, database, open_database
from tests.support.sampling import sampled

DEADLINE_SECONDS = 60
NOTES = 450

# Moments of a sync as another process can see them, in the order in which they come.
COMMITTED_TEXT = "SELECT count(*) > 0 FROM note"
COMMITTED_ALL_TEXT = f"SELECT count(*) = {NOTES} FROM note"
COMMITTED_VECTORS = "SELECT count(*) > 0 FROM vector"
MORE_VECTORS = "SELECT count(*) >= 256 FROM vector"


def start(root: Path, *command: str) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-m", "memsync", "--root", str(root), *command]
    return subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kill_when(process: subprocess.Popen[bytes], happened: Callable[[], bool]) -> None:
    """Kill -9 a process as soon as something has happened, or when it ended by itself before that was seen."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not happened() and process.poll() is None:
        assert time.monotonic() < deadline
    process.kill()
    process.wait()


def seen(path: Path, statement: str) -> Callable[[], bool]:
    """Return a check that asks an index that may not be there yet."""

    def check() -> bool:
        try:
            connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        except apsw.CantOpenError:
            return False
        try:
            return bool(connection.execute(statement).get)
        except apsw.Error:
            return False
        finally:
            connection.close()

    return check


@pytest.mark.slow
def test_sync_and_rebuild_killed_at_many_moments_converge(memory: Memory, root: Path) -> None:
    """Before the first commit, between text commits, between vector commits, within a rebuild; each time sound."""
    for number in range(NOTES):
        (root / f"n{number:03}.md").write_text(f"The heron of note {number} nests.\n")
    path = database(memory)
    memory.close()
    for name in ("index.db", "index.db-wal", "index.db-shm"):
        path.with_name(name).unlink(missing_ok=True)
    kill_when(start(root, "sync"), path.exists)
    for moment in sampled((COMMITTED_TEXT, COMMITTED_ALL_TEXT, COMMITTED_VECTORS, MORE_VECTORS), 2):
        kill_when(start(root, "sync"), seen(path, moment))
        half_notes = "SELECT count(*) FROM note WHERE id NOT IN (SELECT note FROM chunk)"
        connection = open_database(path)
        assert connection.execute(half_notes).get == 0
        connection.close()
        assert_sound(path)
    beside = path.with_name("index.db.beside")
    kill_when(start(root, "index", "rebuild"), seen(beside, COMMITTED_TEXT))
    assert_sound(path)
    with Memory.open(root) as again:
        report = again.sync()
        assert (again.status().notes, report.failed, report.vectors_pending) == (NOTES, (), 0)
        assert again.verify() is None
        assert not list(path.parent.glob("*beside*"))
    assert_sound(path)
