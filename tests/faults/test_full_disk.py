"""The disk is full, read-only or limited: a clear error, the old state or the new one, and the next sync converges."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsync.errors import FilesystemError, IndexFailure, MemsyncError
from memsync.memory import Memory
from memsync.settings.load import Settings, load_settings
from memsync.sync.syncer import sync_lock
from tests.conftest import MakeMemory, Write
from tests.support.index_checks import assert_sound, check_sound, database, dump, value


def mount(*arguments: str) -> bool:
    try:
        return subprocess.run(arguments, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 3 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not mount("mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)):
        pytest.skip("needs a small file system to be mounted; run the tests as root, in a container with CAP_SYS_ADMIN")
    yield folder
    mount("umount", "--lazy", str(folder))


@pytest.fixture
def on_disk(root: Path, small_disk: Path) -> Settings:
    """Put the index on the small file system."""
    settings = load_settings(root=root, environ={}, cwd=root)
    settings.index_name = str(small_disk / "index")
    return settings


def fill(disk: Path, free_bytes: int) -> Path:
    """Take all of a disk but so many bytes."""
    filler = disk / "filler"
    space = os.statvfs(disk)
    filler.write_bytes(bytes(max(0, space.f_bavail * space.f_frsize - free_bytes)))
    return filler


@pytest.mark.slow
@pytest.mark.parametrize("free_bytes", [0, 4_096, 40_960, 102_400, 204_800, 409_600])
def test_disk_full_at_any_point_leaves_old_or_new_state_and_the_next_sync_converges(
    make_memory: MakeMemory, on_disk: Settings, small_disk: Path, write: Write, free_bytes: int
) -> None:
    """Each commit is all or nothing; nothing but space is needed to go on."""
    for number in range(40):
        write(f"n{number}.md", f"The heron nests in alder {number}.\n")
    memory = make_memory(own_settings=on_disk)
    memory.sync()
    for number in range(400):
        write(f"m{number}.md", f"# Boat {number}\n\nThe ketch lies in harbour {number}.\n")
    filler = fill(small_disk, free_bytes)
    with pytest.raises(MemsyncError) as caught:
        memory.sync()
    assert isinstance(caught.value, FilesystemError | IndexFailure)
    assert caught.value.hint
    memory.close()
    filler.unlink()
    again = make_memory(own_settings=on_disk)
    status = again.status()
    assert 40 <= status.notes <= 440
    assert 440 - status.notes + status.pending_vectors > 0
    assert value(database(again), "SELECT count(*) FROM note WHERE id NOT IN (SELECT note FROM chunk)") == 0
    assert_sound(database(again))
    report = again.sync()
    assert (report.failed, report.vectors_pending, again.status().notes) == ((), 0, 440)
    assert again.verify() is None
    assert_sound(database(again))


def test_rebuild_on_a_full_disk_leaves_the_old_index(
    make_memory: MakeMemory, on_disk: Settings, small_disk: Path, write: Write
) -> None:
    """The new one is removed, so that the disk is no fuller than before."""
    for number in range(200):
        write(f"n{number}.md", f"The heron nests in alder {number}.\n")
    memory = make_memory(own_settings=on_disk)
    memory.sync()
    before = dump(memory)
    filler = fill(small_disk, 150_000)
    with pytest.raises(MemsyncError):
        memory.rebuild()
    filler.unlink()
    assert dump(memory) == before
    assert not list(on_disk.index_dir.glob("*beside*"))


def test_index_on_a_read_only_disk_is_a_clear_error(
    make_memory: MakeMemory, on_disk: Settings, small_disk: Path, write: Write
) -> None:
    """Whether the index is there already or not: an error of ours with a hint, no traceback of SQLite's."""
    write("a.md", "The heron nests in the alder.\n")
    assert mount("mount", "-o", "remount,ro", str(small_disk))
    with pytest.raises(FilesystemError) as caught:
        make_memory(own_settings=on_disk)
    assert caught.value.hint
    with pytest.raises(FilesystemError), sync_lock(on_disk.index_dir, 0):
        pass
    assert mount("mount", "-o", "remount,rw", str(small_disk))
    with make_memory(own_settings=on_disk) as memory:
        memory.sync()
    assert mount("mount", "-o", "remount,ro", str(small_disk))
    with pytest.raises(MemsyncError) as refused:
        make_memory(own_settings=on_disk).sync()
    assert refused.value.hint


@pytest.mark.slow
@pytest.mark.parametrize("limit_bytes", [0, 50_000, 300_000])
def test_command_that_cannot_write_exits_with_an_error_and_the_next_one_converges(
    root: Path, write: Write, limit_bytes: int
) -> None:
    """One sentence, a hint and a code other than 0; no traceback."""
    for number in range(60):
        write(f"n{number}.md", f"# Boat {number}\n\nThe ketch lies in harbour {number}.\n\n- one\n- two\n" * 4)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

    command = [sys.executable, "-m", "memsync", "--root", str(root), "sync"]
    failed = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, timeout=60)
    assert failed.returncode == IndexFailure.exit_code, failed.stderr
    assert failed.stderr.startswith("memsync: ")
    assert "Traceback" not in failed.stderr
    with Memory.open(root) as memory:
        assert memory.sync().failed == ()
        assert memory.verify() is None
        check_sound(memory)
