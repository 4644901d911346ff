"""Hooks are run as agents run them, and what is wrong with them is named."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from memsync.agents import NAMES, agent_named
from memsync.agents.checking import faults, installed, untried_version
from memsync.agents.connecting import apply, planned
from memsync.agents.ingest import ingest
from memsync.agents.recall_records import sessions
from memsync.cli.main import run
from memsync.settings.roots import RegisteredRoot, add, remove_root
from tests.agents.conversations import converse
from tests.support.daemon_process import SHEBANG, Cli

PROGRAM = (sys.executable, "-P", "-m", "memsync")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a script that stands for memsync: it repeats the session's id in the envelope that the agent reads."""
    script = tmp_path / "memsync"
    script.write_text(f"""{SHEBANG}import json, os, sys
from memsync.agents import agent_named
event, agent = sys.argv[2], agent_named(sys.argv[4])
if not os.path.exists("silent"):
    print(agent.answer(event, json.load(sys.stdin)["session_id"]), end="")
""")
    script.chmod(0o755)
    return script


def connected(name: str, program: Path, project: Path | None = None) -> None:
    agent_named(name).home().mkdir(parents=True, exist_ok=True)
    apply(agent_named(name), planned(agent_named(name), [str(program)], project))


def wrong(name: str, folder: Path, said: dict[str, str] | None = None) -> str:
    """Return what is wrong with an agent's hooks, in one text, without its version."""
    found = faults(agent_named(name), folder, {} if said is None else said, time.monotonic())
    return " ".join(fault for fault in found if "its version is" not in fault)


@pytest.mark.parametrize("name", NAMES)
def test_hook_is_run_as_its_file_says(name: str, program: Path, tmp_path: Path) -> None:
    """The command line stands in the agent's own file, quoted for its shell; the answer in the agent's envelope."""
    program = program.rename(program.with_name("my own memsync"))
    connected(name, program)
    said: dict[str, str] = {}
    assert wrong(name, tmp_path, said) == ""
    assert set(said) == {"session-start", "prompt"}
    assert all(text.startswith("memsync-agents-check-") for text in said.values())


@pytest.mark.parametrize(
    ("name", "harm"),
    [*((name, harm) for name in ("claude-code", "opencode") for harm in ("silent", "fails", "gone")),
     ("codex", "chatty"), ("codex", "not JSON"), ("codex", "plain")],
)  # fmt: skip
def test_hook_that_delivers_nothing_is_named(name: str, harm: str, program: Path, tmp_path: Path) -> None:
    """Whether it says nothing, exits with an error, does not exist, or says what the agent cannot read."""
    connected(name, program)
    text = program.read_text()
    endings = {"fails": "sys.exit(2)\n", "chatty": "print('welcome')\n", "not JSON": "print('{')\n"}
    text = text.replace("agent.answer(event, ", "(") if harm == "plain" else text
    program.write_text(text + endings.get(harm, ""))
    if harm == "silent":
        (tmp_path / "silent").touch()
    elif harm == "gone":
        program.unlink()
    assert "its hook for prompt in " in wrong(name, tmp_path)


def test_two_hooks_for_one_event_are_named(program: Path, tmp_path: Path) -> None:
    """Cursor runs the hooks of Claude Code, too; and those of the project besides those of the user."""
    connected("cursor", program)
    assert wrong("cursor", tmp_path) == ""
    connected("claude-code", program)
    assert wrong("claude-code", tmp_path) == ""
    assert "prompt would be answered twice" in wrong("cursor", tmp_path)
    connected("codex", program)
    connected("codex", program, tmp_path)
    assert "session-start would be answered twice" in wrong("codex", tmp_path)


def test_hook_that_a_clone_brings_is_never_run(program: Path, tmp_path: Path) -> None:
    """It may be any command. Only files of a project that memsync wrote are tried, while they are as it wrote them."""
    clone = tmp_path / "clone"
    clone.mkdir()
    connected("claude-code", program, clone)
    settings = clone / ".claude" / "settings.json"
    assert wrong("claude-code", clone) == ""
    settings.write_text(settings.read_text().replace(str(program), f"touch {tmp_path}/harm; {program}"))
    assert "was not tried, because memsync did not write this file" in wrong("claude-code", clone)
    settings.rename(tmp_path / "settings.json")
    (tmp_path / "other" / ".claude").mkdir(parents=True)
    (tmp_path / "settings.json").rename(tmp_path / "other" / ".claude" / "settings.json")
    assert "was not tried" in wrong("claude-code", tmp_path / "other")
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("claude-code", {"cleanupPeriodDays": 0}, "delete transcripts"),
        ("claude-code", {"cleanupPeriodDays": 6}, "delete transcripts"), ("claude-code", {"cleanupPeriodDays": 7}, ""),
        ("claude-code", {"disableAllHooks": True}, "turns all hooks off"),
        ("openclaw", {"plugins": {"allow": ["other"]}}, "from loading memsync"),
        ("openclaw", {"plugins": {"enabled": False}}, "from loading memsync"),
        ("openclaw", {"plugins": {"allow": []}}, ""),
        ("gemini", {"hooksConfig": {"enabled": False}}, "turns all hooks off"), ("gemini", {"hooksConfig": 1}, ""),
    ],
)  # fmt: skip
def test_settings_that_make_memsync_useless_are_named(
    name: str, settings: dict[str, object], words: str, program: Path, tmp_path: Path
) -> None:
    """They are the agent's own settings, with the file."""
    file = agent_named(name).home() / agent_named(name).obstacles[0].file
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(settings))
    connected(name, program)
    found = wrong(name, tmp_path)
    assert (words in found and str(file) in found) if words else not found


@pytest.mark.slow
def test_transcripts_that_nobody_has_read_are_named(program: Path, tmp_path: Path) -> None:
    """Only old ones: what is a day old will be read in time."""
    connected("claude-code", program)
    converse("claude-code")
    assert wrong("claude-code", tmp_path) == ""
    os.utime(converse("claude-code"), (1e9, 1e9))
    assert "has not read 1 transcript" in wrong("claude-code", tmp_path)
    ingest()
    assert wrong("claude-code", tmp_path) == ""


@pytest.mark.parametrize(
    ("name", "file"), [("codex", "config.toml"), ("openclaw", "extensions/memsync/openclaw.plugin.json")]
)
def test_server_that_is_no_more_is_named(name: str, file: str, program: Path, tmp_path: Path) -> None:
    """An installation that moved leaves its path in the settings."""
    connected(name, program)
    assert wrong(name, tmp_path) == ""
    settings = agent_named(name).home() / file
    settings.write_text(settings.read_text().replace(str(program), "/gone/memsync"))
    assert "MCP server in" in wrong(name, tmp_path)


def test_broken_file_of_a_clone_is_a_fault_of_one_agent(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other agents are checked as ever. A folder in which recall is off is named."""
    connected("codex", program)
    clone = tmp_path / "clone"
    (clone / ".claude").mkdir(parents=True)
    (clone / ".claude" / "settings.json").write_text('{"hooks": memsync')
    monkeypatch.chdir(clone)
    monkeypatch.setenv("MEMSYNC_AGENTS_OFF", str(clone))
    assert run(["agents", "check", "--json"]) == 1
    printed = capsys.readouterr()
    claude, codex = json.loads(printed.out)["agents"]
    assert "not JSON" in claude["faults"][0]
    assert (codex["name"], set(codex["heard"])) == ("codex", {"session-start", "prompt"})
    assert "agents.off turns recall off in this folder" in printed.err


def test_version_must_be_the_one_that_was_tried(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one may need another form; one that is not known cannot be vouched for."""
    connected("codex", program)
    codex = tmp_path / "bin" / "codex"
    codex.parent.mkdir()
    monkeypatch.setenv("PATH", f"{codex.parent}:/usr/bin:/bin")
    for printed, words in ((agent_named("codex").tried, []), ("9.9.9", ["9.9.9"]), ("", ["unknown"])):
        codex.write_text(f"#!/bin/sh\necho codex-cli {printed}\n")
        codex.chmod(0o755)
        found = untried_version(agent_named("codex"))
        assert [word for word in words if word in found] == words
        assert bool(found) == bool(words)
        assert list(faults(agent_named("codex"), tmp_path, {}, time.monotonic())) == []


def test_check_pause_and_list_with_the_real_daemon(
    cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trial reaches no memory and is no recall. Paused hooks are silent, and check says why."""
    home = agent_named("claude-code").home()
    home.mkdir(parents=True)
    (root / "birds.md").write_text("# Birds\n\nThe heron nests in the alder.\n")
    add(RegisteredRoot("mine", str(root), default=True))
    apply(agent_named("claude-code"), planned(agent_named("claude-code"), PROGRAM, None))
    monkeypatch.chdir(root.parent)
    assert len(installed(agent_named("claude-code"), root.parent)) == 4
    run(["agents", "check", "--json"])
    (checked,) = json.loads(capsys.readouterr().out)["agents"]
    assert checked["faults"] == []
    assert "version" in checked["warnings"][0]
    assert "memsync-agents-check" in checked["heard"]["prompt"]
    assert "heron" not in json.dumps(checked)
    assert list(sessions()) == []
    assert run(["agents", "pause"]) == 0
    assert wrong("claude-code", root).count("delivers nothing") == 2
    assert run(["agents", "check"]) == 1
    assert "agents resume" in capsys.readouterr().err
    assert run(["agents", "resume"]) == 0
    assert wrong("claude-code", root) == ""
    assert cli("daemon", "stop").returncode == 0
    monkeypatch.setattr("memsync.agents.checking.MAX_SECONDS", 0.0)
    run(["agents", "check"])
    assert "no memory is used" not in capsys.readouterr().err
    remove_root("mine")
    monkeypatch.setattr("memsync.cli.hook.trial", lambda asked: "")
    assert run(["agents", "check"]) == 1
    assert "no memory is used in this folder" in capsys.readouterr().err
