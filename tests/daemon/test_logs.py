"""`memsync daemon logs`, and that no note's text and no question is ever in the log."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsync.daemon.logs import LOG_BYTES, LOG_FILES
from memsync.errors import MemsyncError
from memsync.memory import Memory, RemoteMemory
from memsync.system.user_folders import own_folder
from tests.conftest import Write
from tests.support.daemon_process import Cli, is_locked, until


def logged(cli: Cli, *lines: str) -> Path:
    """Write a log as a daemon would have."""
    path = cli.settings.index_dir / "daemon.log"
    own_folder(path.parent)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_logs_prints_the_last_lines(cli: Cli) -> None:
    """50, or as many as asked for."""
    logged(cli, *(f"line {number}" for number in range(60)))
    assert cli("daemon", "logs").stdout.splitlines() == [f"line {number}" for number in range(10, 60)]
    assert cli("daemon", "logs", "-n", "2").stdout == "line 58\nline 59\n"
    assert cli("daemon", "logs", "-n", "0").stdout == ""


def test_logs_without_a_log_says_who_writes_it(cli: Cli) -> None:
    """9, and a hint."""
    done = cli("daemon", "logs")
    assert (done.returncode, done.stdout) == (9, "")
    assert "memsync daemon start" in done.stderr


def test_logs_follows_and_survives_rotation(cli: Cli, tmp_path: Path) -> None:
    """What is added is printed once, in order, also when the file was moved away and begun anew."""
    path = logged(cli, "first")
    printed = tmp_path / "printed"
    with printed.open("w") as output:
        follower = cli.begin("daemon", "logs", "-f", stdout=output)
    expected = "first\n"
    until(lambda: printed.read_text() == expected, "what was there")
    for line in ("second\n", "third: ж\n"):
        with path.open("a") as file:
            file.write(line)
        expected += line
        until(lambda: printed.read_text() == expected, "what was added")  # noqa: B023 (because it is called at once)
    with path.open("a") as file:
        file.write("the last of the old\n")
    path.rename(path.with_name("daemon.log.1"))
    path.write_text("the first of the new\n")
    until(lambda: printed.read_text() == f"{expected}the last of the old\nthe first of the new\n", "both files")
    path.write_text("cut short\n")
    until(lambda: printed.read_text().endswith("the new\ncut short\n"), "what a shorter file holds")
    assert follower.poll() is None


def test_log_is_private_and_kept_small(cli: Cli) -> None:
    """0600, a megabyte, with three older ones beside it."""
    path = logged(cli, "x" * LOG_BYTES)
    path.chmod(0o600)
    cli.start()
    cli("daemon", "stop")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_size < LOG_BYTES
    assert path.with_name("daemon.log.1").stat().st_size >= LOG_BYTES
    assert LOG_FILES == 3


@pytest.fixture
def failing(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """Run a daemon whose model fails, at times with an error that quotes the note."""
    monkeypatch.setenv("FAKE_EMBED_FAILS", "1")
    process = subprocess.Popen([sys.executable, "-m", "tests.support.fake_daemon", str(cli.root)])
    until(lambda: '"daemon": null' not in cli("status", "--json").stdout, "it answers")
    yield cli
    process.terminate()
    process.wait(timeout=120)


def test_neither_notes_nor_questions_are_ever_logged(failing: Cli, write: Write) -> None:
    """Whatever fails: the model (with an error that quotes the note), front matter, a file, a request."""
    write("a.md", "---\nsecretkey: [unclosed secrethead\n---\n# secretheading\n\nunexpected secretword here\n")
    write("b.md", "plain secretword\n")
    (failing.root / "binary.md").write_bytes(b"\x00\x01secretbytes" * 20)
    (failing.root / "noutf8.md").write_bytes(b"secretlatin \xff\xfe\xe9\n")
    os.mkfifo(failing.root / "fifo.md")
    (failing.root / "dangling.md").symlink_to("secrettarget")
    with Memory.connect(failing.root) as memory:
        for query in ("secretquery", '"secretphrase', "secretquery AND NEAR(", "kind:secretkind", "x" * 10):
            failing("search", query)
            failing("search", query, "--json", "--mode", "keyword")
        for params in ({"query": ["secretparam"]}, {"secretname": "secretvalue"}, {"query": "x", "mode": "secretmode"}):
            with pytest.raises(MemsyncError):
                memory.call("search", params)
        failing("get", "secretpath.md")
        until(lambda: "model" in " ".join(_faults(memory)), "the model's failure is noted")
    failing("daemon", "stop")
    assert not is_locked(failing.settings)
    log = failing.log
    assert "WARNING model: " in log
    assert "secret" not in log.lower()
    assert "unexpected" not in log


def _faults(memory: RemoteMemory) -> tuple[str, ...]:
    about = memory.status().daemon
    assert about is not None
    return about.errors
