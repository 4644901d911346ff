"""A daemon that cannot start says why, with the exit code of the cause, and leaves no process behind."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path

import apsw
import pytest

from memsync.daemon import process
from memsync.daemon.daemon_lock import daemon_lock
from memsync.errors import FilesystemError
from memsync.settings.load import Settings
from memsync.system.user_folders import own_folder, socket_path
from tests.conftest import Patch, Write
from tests.support.daemon_process import Cli, until

COMMANDS = pytest.mark.parametrize("command", ["start", "watch"])


def assert_fails(cli: Cli, command: str, code: int, message: str) -> None:
    done = cli("daemon", command)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    until(lambda: not cli.processes(), "no process is left")


@COMMANDS
def test_broken_config(command: str, cli: Cli, write: Write) -> None:
    """3, with file and line."""
    write("config.toml", '[memsync]\nroot = "."\n[search]\nlimit = "many"\n')
    assert_fails(cli, command, 3, "config.toml: search.limit must be a whole number")


@COMMANDS
def test_missing_root(command: str, cli: Cli) -> None:
    """A folder that is not there is not taken for an empty memory."""
    cli.root.rmdir()
    assert_fails(cli, command, 4, "does not exist")


@COMMANDS
def test_unwritable_state_folder(command: str, cli: Cli, monkeypatch: Patch, tmp_path: Path) -> None:
    """9: neither lock nor log can be made."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert_fails(cli, command, 9, "cannot be")


@COMMANDS
def test_something_in_the_way_of_the_socket(command: str, cli: Cli) -> None:
    """11: what is no socket is not removed."""
    place = Path(socket_path(str(cli.settings.index_dir)))
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    place.write_text("mine")
    try:
        assert_fails(cli, command, 11, "in the way of the daemon's socket")
        assert place.read_text() == "mine"
    finally:
        place.unlink()


def test_a_daemon_that_is_not_ready_in_time_is_ended(cli: Cli) -> None:
    """Exit code 11, and it is not left to become ready when nobody waits any more."""
    done = cli("daemon", "start", "--wait", "0")
    assert done.returncode == 11
    assert "did not answer within 0 s" in done.stderr
    until(lambda: not cli.processes(), "no process is left")


def test_start_does_not_take_a_lock_for_an_answer(cli: Cli) -> None:
    """Who has the lock and does not answer is no daemon to use; exit code 11."""
    with daemon_lock(cli.settings):
        done = cli("daemon", "start", "--wait", "0.1")
    assert done.returncode == 11
    assert "does not answer within 0.1 s" in done.stderr


def test_a_start_that_failed_left_its_reason_in_the_log(cli: Cli) -> None:
    """Who starts it with the session sees no stderr."""
    own_folder(cli.settings.index_dir)
    database = cli.settings.index_dir / "index.db"
    connection = apsw.Connection(str(database))
    connection.pragma("user_version", 10_000)
    connection.close()
    assert cli("daemon", "start").returncode == 6
    assert "schema version 10000" in cli.log


@pytest.mark.parametrize(("error", "is_logged"), [(KeyError("x"), True), (FilesystemError("no space"), False)])
def test_daemon_that_dies_passes_its_error_on(
    settings: Settings, monkeypatch: Patch, caplog: pytest.LogCaptureFixture, error: Exception, is_logged: bool
) -> None:
    """Whoever started it gets the exit code; what nobody foresaw is in the log, too."""

    async def die(*arguments: object) -> bool:
        raise error

    monkeypatch.setattr(process.Daemon, "run", die)
    monkeypatch.setattr("threading.excepthook", threading.excepthook)  # so that it is put back, as is the interval
    monkeypatch.setattr("sys.setswitchinterval", lambda seconds: None)
    with pytest.raises(type(error)), warnings.catch_warnings():
        process.serve(settings)
    assert ("died: " in caplog.text) is is_logged
