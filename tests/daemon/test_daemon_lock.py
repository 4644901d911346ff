"""Who the daemon is, kernel and socket tell: whatever its lock file says, every command finds it and no other."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsync.daemon import daemon_lock
from memsync.settings.load import Settings
from memsync.system.user_folders import own_folder
from tests.conftest import Patch, Write
from tests.faults.test_full_disk import fill, small_disk
from tests.support.daemon_process import Cli, is_locked, until
from tests.support.index_checks import open_database

__all__ = ["small_disk"]


def assert_every_command_knows_it(cli: Cli, process: int) -> None:
    """Try all commands that are about the daemon; at the end none runs."""
    assert json.loads(cli("status", "--json").stdout)["daemon"]["process"] == process
    assert json.loads(cli("daemon", "start", "--json").stdout)["process"] == process
    assert cli("daemon", "start").stdout == f"process {process} already serves {cli.root}\n"
    assert f"as process {process}" in cli("daemon", "logs").stdout
    refused = cli("daemon", "watch")
    assert refused.returncode == 11
    assert f"process {process} already serves" in refused.stderr
    again = json.loads(cli("daemon", "restart", "--json").stdout)["process"]
    assert again != process
    stopped = cli("daemon", "stop")
    assert (stopped.returncode, stopped.stdout) == (0, f"process {again} has ended\n")
    until(lambda: not cli.processes(), "no process is left")


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that has nothing to do with memsync."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("content", ["", "\0 garbage", "process {}"])
def test_daemon_is_known_whatever_its_lock_says(cli: Cli, content: str, bystander: subprocess.Popen[bytes]) -> None:
    """The file may be empty because the disk was full, or somebody wrote into it: no other process is ended."""
    process = cli.start()
    (cli.settings.index_dir / "daemon.lock").write_text(content.format(bystander.pid))
    assert_every_command_knows_it(cli, process)
    assert bystander.poll() is None


def test_lock_that_nobody_holds_names_nobody(cli: Cli, bystander: subprocess.Popen[bytes]) -> None:
    """What a daemon that was killed left behind is no daemon, though its number belongs to another process now."""
    own_folder(cli.settings.index_dir)
    (cli.settings.index_dir / "daemon.lock").write_text(f"process {bystander.pid}")
    assert cli("daemon", "stop").stdout == "no daemon is running\n"
    assert bystander.poll() is None
    process = cli.start()
    assert_every_command_knows_it(cli, process)


def test_nothing_is_known_of_a_daemon_that_does_not_listen_yet(settings: Settings) -> None:
    """But that there is one."""
    with daemon_lock.daemon_lock(settings):
        assert daemon_lock.running(settings) == {}
    assert daemon_lock.running(settings) is None


@pytest.mark.slow
def test_daemon_started_on_a_full_disk_is_known(cli: Cli, write: Write, small_disk: Path, monkeypatch: Patch) -> None:
    """Where not one byte is free, it serves what is indexed; it is found, asked and stopped as any other."""
    monkeypatch.setenv("XDG_STATE_HOME", str(small_disk))
    write("a.md", "The heron nests.\n")
    assert cli("sync").returncode == 0
    cli.start()
    assert cli("daemon", "stop").returncode == 0
    reader = open_database(cli.settings.index_dir / "index.db")  # whose shared memory the daemon needs no space for
    reader.execute("SELECT count(*) FROM note").fetchall()
    filler = fill(small_disk, 0)
    process = cli.start()
    assert (cli.settings.index_dir / "daemon.lock").read_bytes() == b""
    assert cli("search", "heron", "--mode", "keyword").stdout.startswith("a.md:1")
    stopped = cli("daemon", "stop")
    assert (stopped.returncode, stopped.stdout) == (0, f"process {process} has ended\n")
    process = cli.start()
    filler.unlink()
    reader.close()
    assert_every_command_knows_it(cli, process)
    assert not is_locked(cli.settings)


def test_lock_whose_place_cannot_be_looked_at_is_kept(settings: Settings, monkeypatch: Patch) -> None:
    """A daemon does not end itself because of an error of the file system that passes."""
    with daemon_lock.daemon_lock(settings) as has_lock:

        def failing(path: object, **options: object) -> os.stat_result:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as broken:
            broken.setattr(os, "lstat", failing)
            assert has_lock()
        (settings.index_dir / "daemon.lock").unlink()
        assert not has_lock()
