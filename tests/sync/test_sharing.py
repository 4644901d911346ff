"""One sync at a time: the second waits or says who is at work; a lock dies with its holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memsync.errors import FilesystemError, IndexBusy
from memsync.memory import Memory
from memsync.sync.syncer import sync_lock

HOLD = """
import sys
from pathlib import Path
from memsync.sync.syncer import sync_lock

with sync_lock(Path(sys.argv[1]), 10):
    print("held", flush=True)
    sys.stdin.readline()
"""
Holder = subprocess.Popen[str]


@pytest.fixture
def holder(memory: Memory) -> Iterator[Holder]:
    """Another process that holds the lock of `memory`'s index until it is told a line."""
    command = [sys.executable, "-c", HOLD, str(memory.settings.index_dir)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def let_go(process: Holder) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_without_waiting_the_second_sync_says_who_is_at_work(memory: Memory, holder: Holder) -> None:
    """The holder is named by its process; rebuild and verify mind the same lock."""
    told: list[str] = []
    for work in (
        lambda: memory.sync(wait_seconds=0, on_wait=told.append),
        lambda: memory.rebuild(wait_seconds=0),
        lambda: memory.verify(wait_seconds=0),
    ):
        with pytest.raises(IndexBusy, match=f"process {holder.pid} is syncing") as caught:
            work()
        assert caught.value.hint
    assert told == []


def test_second_sync_waits_for_the_first_and_goes_on(
    memory: Memory, holder: Holder, write: Callable[[str, str], Path]
) -> None:
    """It tells once for whom it waits."""
    write("a.md", "The heron nests in the alder.\n")
    told: list[str] = []

    def on_wait(name: str) -> None:
        told.append(name)
        let_go(holder)

    assert memory.sync(wait_seconds=30, on_wait=on_wait).added == 1
    assert told == [f"process {holder.pid}"]


def test_searches_do_not_wait_for_a_sync(memory: Memory, holder: Holder, write: Callable[[str, str], Path]) -> None:
    """The lock is for syncs; a search indexes what changed and answers."""
    write("a.md", "The heron nests in the alder.\n")
    assert [hit.path for hit in memory.search("heron").hits] == ["a.md"]


def test_lock_of_a_killed_holder_is_free(memory: Memory, holder: Holder) -> None:
    """The kernel lets go of it; the file that stays behind means nothing."""
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (memory.settings.index_dir / "sync.lock").read_text() == f"process {holder.pid}"
    memory.sync(wait_seconds=0)


def test_lock_is_free_after_an_error_in_its_body(tmp_path: Path) -> None:
    """However the work ends."""
    with pytest.raises(ValueError, match="work"), sync_lock(tmp_path, 0):
        raise ValueError("work")
    with sync_lock(tmp_path, 0):
        assert (tmp_path / "sync.lock").read_text() == f"process {os.getpid()}"


def test_threads_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    """Two syncs in one process are two syncs."""
    refused: list[IndexBusy] = []

    def try_it() -> None:
        try:
            with sync_lock(tmp_path, 0):
                pass
        except IndexBusy as error:
            refused.append(error)

    with sync_lock(tmp_path, 0):
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
    assert [str(error) for error in refused] == [f"process {os.getpid()} is syncing this memory root"]


def test_lock_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    """A file where the folder should be."""
    (tmp_path / "file").write_text("")
    with pytest.raises(FilesystemError, match="cannot be created"), sync_lock(tmp_path / "file", 0):
        pass
