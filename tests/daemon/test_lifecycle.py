"""The daemon as a process: started, found, given other settings, stopped, killed; one a memory root."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from memsync.client import wire
from memsync.daemon import process
from memsync.errors import DaemonOutdated, DaemonUnavailable
from memsync.memory import Memory, RemoteMemory
from memsync.settings.load import Settings
from memsync.system.user_folders import socket_path
from tests.conftest import Write
from tests.faults.test_killed import COMMITTED_TEXT, COMMITTED_VECTORS, seen
from tests.support.daemon_process import Cli, is_locked, until
from tests.support.index_checks import assert_sound


def connected(settings: Settings) -> RemoteMemory:
    return RemoteMemory(socket_path(str(settings.index_dir)), wire.settings_digest(settings))


def test_a_second_start_says_who_serves_and_is_no_failure(cli: Cli) -> None:
    """There is one daemon a memory root; asking for it twice gives the same one."""
    process = cli.start()
    again = cli("daemon", "start")
    assert (again.returncode, again.stdout) == (0, f"process {process} already serves {cli.root}\n")
    assert json.loads(cli("daemon", "start", "--json").stdout)["started"] is False
    assert cli.processes() == [process]


def test_two_starts_at_once_start_one_daemon(cli: Cli) -> None:
    """The lock decides, and the one that loses says who has won."""
    both = [cli.begin("daemon", "start", "--json"), cli.begin("daemon", "start", "--json")]
    answers = [json.loads(one.communicate(timeout=120)[0]) for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert sorted(answer["started"] for answer in answers) == [False, True]
    assert {answer["process"] for answer in answers} == set(cli.processes())


def test_a_second_watch_is_refused_with_the_name_of_the_first(cli: Cli) -> None:
    """Exit code 11 and the process that serves."""
    process = cli.start()
    refused = cli("daemon", "watch")
    assert refused.returncode == 11
    assert f"process {process} already serves {cli.root}" in refused.stderr
    assert "memsync daemon stop" in refused.stderr


def test_stop_ends_it_and_without_one_says_so(cli: Cli) -> None:
    """Lock and socket are let go of; to stop what does not run is no failure."""
    process = cli.start()
    stopped = cli("daemon", "stop")
    assert (stopped.returncode, stopped.stdout) == (0, f"process {process} has ended\n")
    assert not is_locked(cli.settings)
    assert not Path(socket_path(str(cli.settings.index_dir))).exists()
    until(lambda: not cli.processes(), "no process is left")
    again = cli("daemon", "stop")
    assert (again.returncode, again.stdout) == (0, "no daemon is running\n")
    assert json.loads(cli("daemon", "stop", "--json").stdout) == {"stopped": False}


def test_restart_gives_a_new_process_whether_or_not_there_was_one(cli: Cli) -> None:
    """It is what a message about other settings or another version advises."""
    first = json.loads(cli("daemon", "restart", "--json").stdout)["process"]
    second = json.loads(cli("daemon", "restart", "--json").stdout)["process"]
    assert first != second
    until(lambda: cli.processes() == [second], "only the new process runs")


def test_status_tells_of_the_daemon_and_of_there_being_none(cli: Cli, write: Write) -> None:
    """In text and in JSON."""
    assert json.loads(cli("status", "--json").stdout)["daemon"] is None
    assert "daemon        not running\n" in cli("status").stdout
    process = cli.start()
    other = cli("status", environ={"MEMSYNC_SEARCH_LIMIT": "1"}).stdout
    assert f"daemon        running with other settings (process {process})\n" in other
    unused = cli("status", environ={"MEMSYNC_DAEMON_USE": "false"}).stdout
    assert f"daemon        running, daemon.use is false (process {process})\n" in unused
    write("a.md", "The heron nests.\n")
    with Memory.connect(cli.root) as memory:
        until(lambda: memory.status().vectors == 1, "the note is embedded")
    text = cli("status").stdout
    assert f"daemon        process {process}, memsync " in text
    assert "watching      live; compared 20" in text
    about = json.loads(cli("status", "--json").stdout)["daemon"]
    assert (about["watcher"], about["reason"], about["pending_text"], about["errors"]) == ("live", "", 0, [])
    assert about["memory_bytes"] > 1_000_000


@pytest.mark.usefixtures("real_models")
@pytest.mark.parametrize("moment", [COMMITTED_TEXT, COMMITTED_VECTORS], ids=["indexing", "embedding"])
def test_sigterm_ends_it_in_the_midst_of_work_and_nothing_is_half_written(moment: str, cli: Cli) -> None:
    """The log says that it stopped, socket and lock are let go of, and the index is that of some of the files."""
    for number in range(600):
        (cli.root / f"n{number:03}.md").write_text(f"The heron of note {number} nests.\n")
    process = cli.start()
    database = cli.settings.index_dir / "index.db"
    until(lambda: seen(database, moment)(), "work has begun")
    os.kill(process, signal.SIGTERM)
    until(lambda: not is_locked(cli.settings), "the lock is let go of", seconds=10)
    assert "INFO stopped" in cli.log.splitlines()[-1]
    assert not Path(socket_path(str(cli.settings.index_dir))).exists()
    assert seen(database, "SELECT count(*) = 0 FROM note WHERE id NOT IN (SELECT note FROM chunk)")()
    assert seen(database, "SELECT count(*) < 600 FROM vector")(), "it had nothing left to do: the test shows nothing"
    assert_sound(database)


def test_ctrl_c_ends_a_watch_in_the_foreground(cli: Cli) -> None:
    """Exit code 0, the log on stderr, nothing on stdout."""
    watch = cli.begin("daemon", "watch")
    until(lambda: json.loads(cli("status", "--json").stdout)["daemon"] is not None, "it answers")
    watch.send_signal(signal.SIGINT)
    out, err = watch.communicate(timeout=120)
    assert (watch.returncode, out) == (0, "")
    assert f"serves {cli.root} as process {watch.pid}" in err
    assert "INFO stopped" in err.splitlines()[-1]
    assert cli.log == ""


def test_a_watch_ends_with_its_terminal(cli: Cli) -> None:
    """A closed window sends a signal, which means nothing as long as the window is open."""
    ours, theirs = pty.openpty()
    with open(theirs, "w", encoding="utf-8") as terminal:
        watch = cli.begin("daemon", "watch", stderr=terminal)
    until(lambda: json.loads(cli("status", "--json").stdout)["daemon"] is not None, "it answers")
    os.kill(watch.pid, signal.SIGHUP)
    assert json.loads(cli("status", "--json").stdout)["daemon"]["process"] == watch.pid
    os.close(ours)
    os.kill(watch.pid, signal.SIGHUP)
    assert watch.wait(timeout=120) == 0


def test_daemon_begins_anew_with_new_settings(cli: Cli, write: Write) -> None:
    """Without a restart: until then it answers nothing by the old ones, and the process stays the same."""
    config = write("config.toml", '[memsync]\nroot = "."\n[search]\nlimit = 1\n')
    for name in "abc":
        write(f"{name}.md", f"The heron {name} nests.\n")
    process = cli.start()
    with connected(cli.settings) as memory:
        assert len(memory.search("heron", mode="keyword").hits) == 1
        config.write_text(config.read_text().replace("limit = 1", "limit = 3"))
        with pytest.raises(DaemonUnavailable):
            memory.search("heron", mode="keyword")

    def hits() -> int:
        with suppress(DaemonUnavailable), connected(cli.settings) as memory:  # it has not begun anew yet
            return len(memory.search("heron", mode="keyword").hits)
        return 0

    until(lambda: hits() == 3, "the new limit holds")
    assert cli("status").stderr == ""
    assert cli.processes() == [process]


def test_a_daemon_with_a_broken_config_tells_it_and_answers_nothing_else(cli: Cli, write: Write) -> None:
    """In status and in the log, until it is mended."""
    good = '[memsync]\nroot = "."\n[search]\nlimit = 2\n'
    config = write("config.toml", good)
    for name in "abc":
        write(f"{name}.md", f"The heron {name} nests.\n")
    process = cli.start()

    def errors() -> tuple[str, ...]:
        about = memory.status().daemon
        assert about is not None
        return about.errors

    with connected(cli.settings) as memory:
        config.write_text(good + "colour = 5\n")
        until(errors, "status tells of it")
        assert 'unknown setting "search.colour"' in errors()[0]
        with pytest.raises(DaemonOutdated, match=r"unknown setting \"search.colour\""):
            memory.search("heron", mode="keyword")
        config.write_text(good)
        until(lambda: not errors(), "status is content again")
        assert memory.search("heron", mode="keyword").hits
    assert cli.processes() == [process]


def test_daemon_that_is_being_stopped_does_not_begin_anew(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server removes the socket before the last requests end; the check of the socket must allow that."""
    monkeypatch.setattr(process, "CHECK_SECONDS", 0.01)

    async def stopped() -> bool:
        daemon = process.Daemon(settings, Mock(), lambda: False, until_idle=False)
        checks = asyncio.create_task(daemon._check(Mock(), Mock()))
        await asyncio.sleep(0)
        daemon._stop()
        await checks
        return daemon.begins_anew

    assert not asyncio.run(stopped())
