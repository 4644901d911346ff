"""What a daemon does about its own losses: lock, socket, model, a full disk, a stranger's folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from memsync.daemon import process
from memsync.daemon.daemon_lock import daemon_lock
from memsync.daemon.process import stop
from memsync.errors import DaemonError, FilesystemError
from memsync.index.sqlite.index import SqliteIndex
from memsync.settings.load import Settings
from memsync.sync.gate import Stopped
from memsync.system.user_folders import socket_path
from tests.conftest import Write
from tests.support.daemon_fixtures import Served
from tests.support.daemon_process import Cli, until


def children(process: int) -> set[int]:
    """Return the processes that a process has begun; a thread that ends meanwhile has none."""
    found: set[int] = set()
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            found.update(map(int, path.read_text().split()))
    return found


def status(cli: Cli) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli("status", "--json").stdout)
    return found


@pytest.mark.parametrize("name", ["socket", "lock", "folder"])
def test_what_others_find_it_by_is_put_back(cli: Cli, write: Write, name: str) -> None:
    """The index folder may be deleted at any time: the same daemon is found again, and there is no second one."""
    write("a.md", "The heron nests.\n")
    process = cli.start()
    found = status(cli)
    folder, socket = Path(found["index_path"]), Path(found["daemon"]["socket"])
    if name == "lock":
        (folder / "daemon.lock").unlink()
    elif name == "folder":
        shutil.rmtree(folder)
    if name != "lock":
        socket.unlink(missing_ok=True)
    until(lambda: socket.exists() and (folder / "daemon.lock").exists(), "both are there again")
    again = json.loads(cli("daemon", "start", "--json").stdout)
    assert (again["started"], again["process"]) == (False, process)
    assert cli("search", "heron", "--mode", "keyword").stdout.startswith("a.md:1")
    assert cli("daemon", "stop").stdout == f"process {process} has ended\n"


def test_daemon_whose_lock_another_has_taken_ends(cli: Cli) -> None:
    """It begins anew, finds that another serves, and says so in the log."""
    first = cli.start()
    (cli.settings.index_dir / "daemon.lock").unlink()
    with daemon_lock(cli.settings):
        until(lambda: first not in cli.processes(), "the first one has ended")
    assert "already serves" in cli.log


def test_stop_finds_a_daemon_whose_socket_was_removed(cli: Cli) -> None:
    """It listens again soon, and is asked then."""
    process = cli.start()
    Path(socket_path(cli.settings.index_name)).unlink()
    assert cli("daemon", "stop").stdout == f"process {process} has ended\n"
    until(lambda: not cli.processes(), "no process is left")


def test_lock_is_kept_from_one_run_to_the_next(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that looks for the daemon between two runs finds it."""
    lock = Mock(wraps=daemon_lock)
    monkeypatch.setattr(process, "daemon_lock", lock)
    monkeypatch.setattr(process, "_run_once", Mock(side_effect=[True, True, False]))
    process.serve(settings)
    assert lock.call_count == 1


def test_lock_that_was_removed_is_taken_again(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run begins only with a lock that others find."""
    runs: list[bool] = []

    def run(daemon: process.Daemon, ready: object) -> bool:
        runs.append(daemon._has_lock())
        (settings.index_dir / "daemon.lock").unlink()
        return len(runs) < 3

    monkeypatch.setattr(process, "_run_once", run)
    process.serve(settings)
    assert runs == [True] * 3


def test_stop_names_the_daemon_that_does_not_end(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel tells which process listens, even if it does not answer."""
    process = cli.start()
    monkeypatch.setattr("memsync.sync.without_daemon.WAIT_SECONDS", 0.1)
    os.kill(process, signal.SIGSTOP)
    with pytest.raises(DaemonError, match=f"process {process} does not end"):
        stop(cli.settings)


def test_daemon_begins_anew_if_a_thread_has_died(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """No error ends one, so nothing of this run can be relied on."""
    daemon = process.Daemon(served.settings, Mock(), lambda: True, until_idle=False)
    assert served.server is not None
    assert daemon._why_anew(served.server, served.engine) == ""
    monkeypatch.setattr(served.engine.keeper, "step", Mock(side_effect=Stopped))
    served.engine.keeper.notice()
    until(served.engine.has_died, "the thread has ended")
    assert daemon._why_anew(served.server, served.engine) == "a thread has died"


def test_beginning_anew_leaves_no_model_behind(cli: Cli, write: Write) -> None:
    """One model a daemon, however often its settings change."""
    write("a.md", "The heron nests.\n")
    config = write("config.toml", '[memsync]\nroot = "."\n')
    process = cli.start()
    until(lambda: len(children(process)) == 1, "the model is loaded")
    for limit in (3, 4):
        (before,) = children(process)
        config.write_text(f'[memsync]\nroot = "."\n[search]\nlimit = {limit}\n')
        until(lambda before=before: before not in children(process), "the old model has ended")  # type: ignore[misc]  # because mypy cannot type a lambda's default
        until(lambda: len(children(process)) == 1, "the new model is loaded")


def test_stop_does_not_wait_for_a_model_that_hangs(cli: Cli, write: Write) -> None:
    """A question that hangs with it is answered by words, and the daemon ends."""
    write("a.md", "The heron nests.\n")
    process = cli.start()
    until(lambda: status(cli)["vectors"] == 1, "the note is embedded")
    (model,) = children(process)
    os.kill(model, signal.SIGSTOP)
    found = cli("search", "heron")
    assert "the embedding model does not answer" in found.stderr
    assert "does not answer" in cli("status").stdout
    assert cli("daemon", "stop").returncode == 0
    until(lambda: not Path(f"/proc/{model}").exists(), "the model has ended")


def test_bounded_says_what_could_not_be_indexed(served: Served, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is no reason to claim that an answer is fresh; and what is there is searched all the same."""
    write("a.md", "The heron nests.\n")
    served.memory.search("heron", mode="keyword")

    def full(index: SqliteIndex) -> None:
        raise FilesystemError("no space left for the index", hint="Free some disk space.")

    monkeypatch.setattr(SqliteIndex, "writing", full)
    write("b.md", "The zebra swims.\n")
    served.watcher.on_path("b.md")
    for fresh in ("bounded", "strict", "none"):
        result = served.memory.search("zebra", mode="keyword", fresh=fresh)
        assert (result.hits, result.freshness.stale) == ((), True)
    assert "no space left" in " ".join(served.memory.search("heron", mode="keyword").warnings)
    assert "a.md" in [hit.path for hit in served.memory.search("heron", mode="keyword").hits]
