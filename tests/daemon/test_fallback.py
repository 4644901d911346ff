"""A command works in its own process where no daemon of its version and settings answers, and says so in one line."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.conftest import Write
from tests.support.daemon_process import Cli, until

SEARCH = ("search", "heron", "--mode", "keyword")


@pytest.fixture
def other_version(tmp_path: Path) -> str:
    """Make a folder for PYTHONPATH with which memsync believes to be of another version."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text('import memsync\n\nmemsync.__version__ = "99.0"\n')
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))


def assert_works_here(cli: Cli, reason: str, advice: str, environ: dict[str, str] | None = None) -> None:
    """Check the answer, the one line on stderr, and that stdout of --json is one document and nothing else."""
    done = cli.process(*SEARCH, environ=environ)
    assert done.returncode == 0
    assert done.stdout.startswith("a.md:1")
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(f"memsync: {reason}")
    assert advice in done.stderr
    for command in (SEARCH, ("status",), ("get", "a.md:1"), ("sync",)):
        document = cli.process(*command, "--json", environ=environ)
        assert isinstance(json.loads(document.stdout), dict)
        assert reason in document.stderr


def test_no_daemon(cli: Cli, write: Write) -> None:
    """No command has anything to say of it; `status` says that none is running."""
    write("a.md", "The heron nests.\n")
    for command in (SEARCH, ("status",), ("get", "a.md:1"), ("sync",)):
        done = cli(*command)
        assert (done.returncode, done.stderr) == (0, ""), command
    assert "daemon        not running" in cli("status").stdout
    assert json.loads(cli("status", "--json").stdout)["daemon"] is None


def test_a_daemon_with_other_settings(cli: Cli, write: Write) -> None:
    """Its answers would be others than those asked for."""
    write("a.md", "The heron nests.\n")
    write("b.md", "The heron nests.\n")
    process = cli.start()
    reason = f"the daemon (process {process}) runs with other settings"
    assert_works_here(cli, reason, "memsync daemon restart", environ={"MEMSYNC_SEARCH_LIMIT": "1"})
    assert cli(*SEARCH, environ={"MEMSYNC_SEARCH_LIMIT": "1"}).stdout.count("heron nests") == 1
    assert cli(*SEARCH).stderr == ""


def test_settings_of_the_daemon_alone_are_no_difference(cli: Cli, write: Write) -> None:
    """Whether a command starts it changes no answer."""
    write("a.md", "The heron nests.\n")
    cli.start()
    assert cli(*SEARCH, environ={"MEMSYNC_DAEMON_AUTOSTART": "never"}).stderr == ""


def test_a_daemon_of_another_version(cli: Cli, write: Write, other_version: str) -> None:
    """It is asked to restart, and restart gives one of this version."""
    write("a.md", "The heron nests.\n")
    process = cli.start()
    reason = f"the daemon (process {process}) is memsync 0."
    assert_works_here(cli, reason, "this is 99.0", environ={"PYTHONPATH": other_version})
    assert cli.process("daemon", "restart", environ={"PYTHONPATH": other_version}).returncode == 0
    assert cli.process(*SEARCH, environ={"PYTHONPATH": other_version}).stderr == ""


def test_a_daemon_that_does_not_answer(cli: Cli, write: Write) -> None:
    """A stopped process takes connections and says nothing; nobody waits for it for long."""
    write("a.md", "The heron nests.\n")
    process = cli.start()
    os.kill(process, signal.SIGSTOP)
    try:
        done = cli(*SEARCH)
    finally:
        os.kill(process, signal.SIGCONT)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert "does not answer: timed out" in done.stderr
    until(lambda: cli(*SEARCH).stderr == "", "it serves again")


def test_a_failure_in_a_json_command_leaves_stdout_empty(cli: Cli) -> None:
    """Half a document would be worse than none."""
    done = cli("search", "kind:nonsense", "--json")
    assert (done.returncode, done.stdout) == (2, "")
