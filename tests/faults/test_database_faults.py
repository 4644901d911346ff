"""Every write, sync and truncate of the database made to fail in turn; here a share, in soak_database.py all."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path

import pytest

from memsync.errors import FilesystemError
from memsync.index.sqlite.index import SqliteIndex
from memsync.memory import Memory
from tests.conftest import Write
from tests.support.database_scenario import Clean, run_clean, run_with_fault
from tests.support.faulty_database import Disk, Fault, faulty_calls, faulty_disk
from tests.support.index_checks import check_sound, database, dump
from tests.support.sampling import sampled

EVERY_CALL = 37
EVERY_SYSTEM_CALL = 131


def run_share(disk: Disk, clean: Clean, folder: Path, every: int, *, is_full: bool, lasts: bool) -> None:
    """Fail one call in so many, a run each; each sort of fault takes others."""
    struck = refused = runs = 0
    for at in sampled(range(1 + (2 * is_full + lasts) * every // 4, clean.calls + 1, every), 8):
        met = run_with_fault(disk, Fault(at, is_full, lasts), folder, clean, reopens=runs % 2 == 0)
        struck, refused, runs = struck + met.struck, refused + met.refused, runs + 1
    assert struck >= runs - 1 > 5  # the calls of the last close come after healing where nothing is reopened
    assert refused > 0


@pytest.mark.slow
@pytest.mark.parametrize("lasts", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("is_full", [False, True], ids=["I/O error", "disk full"])
def test_any_call_to_the_disk_may_fail(tmp_path: Path, is_full: bool, lasts: bool) -> None:
    """Each step does its work or raises a MemsyncError; after healing, a sync equals an index built from nothing."""
    with faulty_disk() as disk:
        clean = run_clean(disk, tmp_path / "clean")
        run_share(disk, clean, tmp_path / "life", EVERY_CALL, is_full=is_full, lasts=lasts)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: SQLite's system calls have other names elsewhere")
@pytest.mark.parametrize("lasts", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("is_full", [False, True], ids=["I/O error", "disk full"])
def test_any_system_call_may_fail(tmp_path: Path, is_full: bool, lasts: bool) -> None:
    """The same where SQLite keeps silent about what fails, and where the memory between connections cannot grow."""
    with faulty_calls() as disk:
        clean = run_clean(disk, tmp_path / "clean")
        run_share(disk, clean, tmp_path / "life", EVERY_SYSTEM_CALL, is_full=is_full, lasts=lasts)


@pytest.mark.parametrize("name", ["replace", "unlink", "fsync"])
def test_rebuild_whose_last_step_fails_leaves_the_old_index_answering(
    memory: Memory, write: Write, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Removing old files, syncing the folder, renaming: an error of ours, and the open memory goes on with the old."""
    write("a.md", "The heron nests in the alder.\n")
    memory.sync()
    write("b.md", "The heron fishes.\n")
    memory.search("heron")
    before = dump(memory)
    real = getattr(os, name)

    def fails(*arguments: object, **keywords: object) -> object:
        if name == "fsync" or "-wal" in str(arguments[0]) or "beside" in str(arguments[0]):
            raise OSError(5, "Input/output error")
        return real(*arguments, **keywords)

    with monkeypatch.context() as patched:
        patched.setattr(os, name, fails)
        with pytest.raises(FilesystemError) as caught:
            memory.rebuild()
        assert caught.value.hint
    beside = list(database(memory).parent.glob("*beside*"))
    assert beside == []
    assert dump(memory) == before
    memory.sync()
    assert memory.verify() is None
    check_sound(memory)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: nothing else tells which locks are held")
def test_opening_an_index_twice_in_one_process_keeps_its_locks(memory: Memory, write: Write) -> None:
    """Who closes any descriptor of a file drops all its locks: other processes would think that nobody reads it."""
    write("a.md", "The heron nests in the alder.\n")
    memory.sync()
    inode = database(memory).stat().st_ino
    with closing(SqliteIndex(database(memory))):
        held = [line for line in Path("/proc/locks").read_text().splitlines() if f":{inode} " in line]
        assert any(f" {os.getpid()} " in line for line in held)
