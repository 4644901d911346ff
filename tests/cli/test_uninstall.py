"""`memsync uninstall` takes out what memsync put on the machine, and leaves notes and the user's own files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from memsync.daemon import user_service
from tests.conftest import Write
from tests.support.daemon_process import Cli


@pytest.fixture
def home(tmp_path: Path, cli: Cli, write: Write) -> Path:
    """Everything that memsync can put on a machine, and the files that must be as before."""
    home = tmp_path / "home"
    (home / ".claude").mkdir(parents=True)
    (home / ".claude" / "settings.json").write_text('{"mine": 1}')
    write("a.md", "The heron nests.\n")
    assert cli("sync").returncode == cli("log", "The heron sleeps.").returncode == 0
    assert cli("agents", "connect", "claude-code", "--yes", cwd=home).returncode == 0
    unit = user_service._folder_of_systemd() / f"memsync-{'0a' * 16}.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Unit]\n")
    (unit.parent / "memsync-mine.service").write_text("[Unit]\n")
    (tmp_path / "state" / "memsync" / "somebody.txt").write_text("not memsync's\n")
    return home


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of each file under a folder, by its path; without what SQLite shares between processes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".db-shm"
    }


def test_dry_run_names_everything_and_changes_nothing(home: Path, cli: Cli, root: Path, tmp_path: Path) -> None:
    """That is the default, too."""
    before = contents(tmp_path)
    for arguments in ((), ("--dry-run",)):
        printed = cli("uninstall", *arguments, cwd=home)
        assert printed.returncode == 0
        for name in (".service", "Claude Code: ", f"(of {root})", "/kept", "/user", f"stays        {root}", "--apply"):
            assert name in printed.stdout
    assert contents(tmp_path) == before


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_apply_leaves_notes_conversations_settings_and_what_is_not_its_own(
    home: Path, cli: Cli, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_interrupted: bool
) -> None:
    """Even if it was interrupted before, and run again."""
    monkeypatch.setattr(user_service, "_run_all", lambda commands: [])
    before = contents(tmp_path)
    if is_interrupted:
        with monkeypatch.context() as failing:
            failing.setattr(shutil, "rmtree", lambda folder: os.stat("/absent"))
            assert cli("uninstall", "--apply", cwd=home).returncode == 9
    done = cli("uninstall", "--apply", cwd=home)
    assert done.returncode == 0, done.stderr
    assert f"stays        {root}" in done.stdout and "Next: " in done.stdout
    named = [line for line in done.stdout.partition("\n\n")[0].splitlines() if not line.startswith("stays ")]
    assert named and all(line.startswith("removed ") for line in named)
    after = contents(tmp_path)
    gone = {name.split("/")[0] for name in before.keys() - after.keys()}
    assert gone <= {"state", "cache", "config", "home"}
    assert {name: content for name, content in after.items() if name.startswith(("notes/", "data/"))} == {
        name: content for name, content in before.items() if name.startswith(("notes/", "data/"))
    }
    kept = {name for name in after if name.startswith(("state", "cache", "config", "home"))}
    assert kept == {
        "state/memsync/somebody.txt", "config/memsync/roots.toml", "config/systemd/user/memsync-mine.service",
        "home/.claude/settings.json",
    }  # fmt: skip
    assert (home / ".claude" / "settings.json").read_text() == '{"mine": 1}'


def test_notes_among_its_own_files_stop_it(home: Path, cli: Cli, tmp_path: Path) -> None:
    """Before anything is removed."""
    notes = tmp_path / "state" / "memsync" / "kept" / "notes"
    assert cli("init", str(notes), cwd=home).returncode == 0
    assert cli("roots", "add", "odd", str(notes), cwd=home).returncode == 0
    before = contents(tmp_path)
    refused = cli("uninstall", "--apply", cwd=home)
    assert refused.returncode == 2 and f"own files: {notes}" in refused.stderr
    assert contents(tmp_path) == before


def test_agents_file_that_cannot_be_read_stops_it_before_the_state(home: Path, cli: Cli, tmp_path: Path) -> None:
    """The state has what the file was before memsync edited it."""
    (home / ".claude" / "settings.json").write_text('{"hooks": memsync')
    before = contents(tmp_path / "state")
    assert cli("uninstall", "--apply", cwd=home).returncode == 3
    assert contents(tmp_path / "state") == before


@pytest.mark.slow
def test_a_running_daemon_ends_first(home: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And does not write its files again."""
    monkeypatch.setattr(user_service, "_run_all", lambda commands: [])
    assert cli("daemon", "start").returncode == 0
    assert cli("uninstall", "--apply", cwd=home).returncode == 0
    assert cli("daemon", "status").returncode != 0
    assert set(contents(tmp_path / "state")) == {"memsync/somebody.txt"}
