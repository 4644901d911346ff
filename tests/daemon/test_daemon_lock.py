"""Who the daemon is, the kernel knows: whatever stands in its lock file, every command finds it and no other."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memsync.client import wire
from memsync.daemon import daemon_lock
from memsync.settings.load import Settings
from memsync.system.user_folders import own_folder
from tests.faults.test_full_disk import fill, small_disk
from tests.support.daemon_process import Cli, is_locked, until
from tests.support.index_checks import open_database

Write = Callable[[str, str], Path]
__all__ = ["small_disk"]
ASK = """
import json, sys
from memsync.daemon import daemon_lock
from memsync.settings.load import load_settings
settings = load_settings(root=sys.argv[1], environ={"MEMSYNC_INDEX_DIR": sys.argv[2]})
print(json.dumps(daemon_lock.running(settings)))
"""


def assert_every_command_knows_it(cli: Cli, process: int) -> None:
    """Try all commands that are about the daemon; at the end none runs."""
    assert json.loads(cli("status", "--json").stdout)["daemon"]["process"] == process
    assert json.loads(cli("start", "--json").stdout)["process"] == process
    assert cli("start").stdout == f"process {process} already serves {cli.root}\n"
    assert f"as process {process}" in cli("logs").stdout
    refused = cli("watch")
    assert refused.returncode == 11
    assert f"process {process} (memsync " in refused.stderr
    again = json.loads(cli("restart", "--json").stdout)["process"]
    assert again != process
    stopped = cli("stop")
    assert (stopped.returncode, stopped.stdout) == (0, f"process {again} has ended\n")
    until(lambda: not cli.processes(), "no process is left")


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that has nothing to do with memsync."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\x00 garbage", b"[1]", b'{"process": 0}', b'{"process": "x"}'])
def test_daemon_is_known_whatever_stands_in_its_lock(cli: Cli, content: bytes) -> None:
    """The file may be empty because the disk was full, or somebody wrote into it."""
    process = cli.start()
    (cli.settings.index_dir / "daemon.lock").write_bytes(content)
    assert_every_command_knows_it(cli, process)


def test_process_that_a_lock_names_wrongly_is_left_alone(cli: Cli, bystander: subprocess.Popen[bytes]) -> None:
    """No signal goes to a process because a file names it."""
    process = cli.start()
    written = json.dumps({"process": bystander.pid, "version": "9.9", "root": "/elsewhere"})
    (cli.settings.index_dir / "daemon.lock").write_text(written)
    assert_every_command_knows_it(cli, process)
    assert bystander.poll() is None


def test_lock_that_nobody_holds_names_nobody(cli: Cli, bystander: subprocess.Popen[bytes]) -> None:
    """What a daemon that was killed left behind is no daemon, though its number belongs to another process now."""
    own_folder(cli.settings.index_dir)
    (cli.settings.index_dir / "daemon.lock").write_text(json.dumps({"process": bystander.pid}))
    assert cli("stop").stdout == "no daemon is running\n"
    assert bystander.poll() is None
    process = cli.start()
    assert_every_command_knows_it(cli, process)


def test_daemon_that_cannot_write_its_name_is_known(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk takes no byte, at that moment only or for good."""

    def full(descriptor: int, content: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("memsync.daemon.daemon_lock.os.pwrite", full)
    with daemon_lock.daemon_lock(settings):
        asked = [sys.executable, "-c", ASK, str(settings.root), str(settings.index_dir)]
        told = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert json.loads(told.stdout) == {"process": os.getpid()}
    assert (settings.index_dir / "daemon.lock").read_bytes() == b""


def test_daemon_of_a_version_without_record_lock_is_known_by_its_socket(settings: Settings) -> None:
    """It holds the one lock only that decides; who listens on its socket is the kernel's to tell, too."""
    own_folder(settings.index_dir)
    with (settings.index_dir / "daemon.lock").open("w") as file, socket.socket(socket.AF_UNIX) as listening:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert daemon_lock.running(settings) == {}
        path = Path(wire.socket_path(str(settings.index_dir)))
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        listening.bind(str(path))
        listening.listen()
        assert daemon_lock.running(settings) == {"process": os.getpid()}
        path.unlink()


def test_daemon_started_on_a_full_disk_is_known(
    cli: Cli, write: Write, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where not one byte is free, it serves what is indexed; it is found, asked and stopped as any other."""
    monkeypatch.setenv("MEMSYNC_INDEX_DIR", str(small_disk / "index"))
    write("a.md", "The heron nests.\n")
    assert cli("sync").returncode == 0
    cli.start()
    assert cli("stop").returncode == 0
    reader = open_database(cli.settings.index_dir / "index.db")  # whose shared memory the daemon needs no space for
    reader.execute("SELECT count(*) FROM note").fetchall()
    filler = fill(small_disk, 0)
    process = cli.start()
    assert (cli.settings.index_dir / "daemon.lock").read_bytes() == b""
    assert cli("search", "heron", "--mode", "keyword").stdout.startswith("a.md:1")
    stopped = cli("stop")
    assert (stopped.returncode, stopped.stdout) == (0, f"process {process} has ended\n")
    process = cli.start()
    filler.unlink()
    reader.close()
    assert_every_command_knows_it(cli, process)
    assert not is_locked(cli.settings)


def test_lock_whose_place_cannot_be_looked_at_is_kept(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon does not end itself because of an error of the file system that passes."""
    with daemon_lock.daemon_lock(settings) as held:

        def failing(path: object, **options: object) -> os.stat_result:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as broken:
            broken.setattr(os, "stat", failing)
            assert held.is_in_place()
        (settings.index_dir / "daemon.lock").unlink()
        assert not held.is_in_place()
