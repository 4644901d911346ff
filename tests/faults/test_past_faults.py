"""States of the past: killed while one is made, on a full disk, made by several processes at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memsync.errors import MemsyncError
from memsync.memory import Memory
from memsync.past import drop_states
from memsync.settings.load import Settings
from tests.conftest import MakeMemory, Write
from tests.faults.test_full_disk import fill, on_disk, small_disk
from tests.faults.test_killed import COMMITTED_TEXT, kill_when, seen
from tests.support.daemon_process import Cli
from tests.support.index_checks import assert_sound
from tests.support.repository import AUTUMN, SPRING, Repository
from tests.support.sampling import sampled

__all__ = ["on_disk", "small_disk"]
NOTES = 150


@pytest.fixture
def history(repository: Repository, write: Write) -> Repository:
    """Commit many notes, then other ones in their place."""
    for number in range(NOTES):
        write(f"n{number:03}.md", f"The heron of note {number} nests.\n")
    repository.commit(SPRING)
    for number in range(NOTES):
        write(f"n{number:03}.md", f"The tern of note {number} dives.\n")
    repository.commit(AUTUMN)
    return repository


def start(root: Path, revision: str) -> subprocess.Popen[bytes]:
    words = ["search", "--mode=keyword", "--at", revision, "heron"]
    command = [sys.executable, "-m", "memsync", "--root", str(root), *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def found(memory: Memory) -> list[tuple[str, str]]:
    return [(hit.path, hit.text) for hit in memory.search('"note 7"', at="main~1", mode="keyword").hits]


@pytest.mark.slow
def test_search_killed_while_it_makes_a_state_leaves_none_or_a_whole_one(
    memory: Memory, history: Repository, root: Path
) -> None:
    """Before its files are written, while they are, while they are indexed, when it is complete."""
    past = memory.settings.index_dir / "past"
    name = history.git("rev-parse", "main~1")
    moments: list[Callable[[], object]] = [
        (past / "making").exists,
        lambda: len(list(past.glob("making/files/*"))) > NOTES // 2,
        (past / "making/ready.json").exists,
        seen(past / "making/index.db", COMMITTED_TEXT),
        lambda: (past / name).exists() and not (past / "making").exists(),
    ]
    for moment in sampled(moments, 2):
        kill_when(start(root, "main~1"), lambda: bool(moment()))  # noqa: B023 (because it is called at once)
        assert (past / name).exists() <= (past / name / "ready.json").exists()
        assert found(memory) == [("n007.md", "The heron of note 7 nests.")]
        assert_sound(past / name / "index.db")
        assert len(memory.search("heron", at="main~1", limit=50, mode="keyword").hits) == 50
        drop_states(memory.settings.index_dir)
    assert [path.name for path in past.iterdir()] == ["lock"]


@pytest.mark.slow
@pytest.mark.parametrize("free_bytes", [0, 40_960, 200_000, 409_600, 800_000])
def test_full_disk_while_a_state_is_made_is_a_clear_error_and_the_next_search_answers(
    make_memory: MakeMemory, history: Repository, on_disk: Settings, small_disk: Path, free_bytes: int
) -> None:
    """The files as they are now are searched meanwhile."""
    memory = make_memory(own_settings=on_disk)
    memory.sync()
    filler = fill(small_disk, free_bytes)
    for ask in (
        lambda: memory.search("heron", at="main~1"),
        lambda: memory.get("n007.md@main~1"),
        lambda: memory.diff("main~1"),
    ):
        try:
            ask()
        except MemsyncError as error:
            assert error.hint, error
    assert memory.search('"note 7"', mode="keyword").hits[0].text == "The tern of note 7 dives."
    filler.unlink()
    assert found(memory) == [("n007.md", "The heron of note 7 nests.")]
    assert memory.get("n007.md@main~1").text == "The heron of note 7 nests."


def test_processes_that_need_the_same_state_at_once_make_it_once(cli: Cli, history: Repository) -> None:
    """Each answers; another state may be made at the same time."""
    words = ("search", "--mode=keyword", "--format=grep", "--at")
    processes = [cli.begin(*words, revision, '"note 7"') for revision in ("main~1", "main", "main~1")]
    printed = [process.communicate() for process in processes]
    heron, tern = (history.git("rev-parse", "--short=12", revision) for revision in ("main~1", "main"))
    expected = f"n007.md@{heron}:1:The heron of note 7 nests.\n"
    other = f"n007.md@{tern}:1:The tern of note 7 dives.\n"
    assert [out for out, _ in printed] == [expected, other, expected], printed
    assert len(list(cli.settings.index_dir.glob("past/*/ready.json"))) == 2


@pytest.mark.slow
def test_daemon_that_is_killed_leaves_states_that_answer(cli: Cli, history: Repository) -> None:
    """The next daemon and a command find them as they are."""
    words = ("search", "--mode=keyword", "--format=grep", "--at", "main~1", '"note 7"')
    cli.start()
    first = cli(*words)
    assert "The heron of note 7 nests." in first.stdout, first.stderr
    cli.close()
    (state,) = cli.settings.index_dir.glob("past/*/index.db")
    before = state.stat().st_ino
    assert cli(*words).stdout == first.stdout
    cli.start()
    assert cli(*words).stdout == first.stdout
    assert state.stat().st_ino == before
