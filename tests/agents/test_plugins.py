"""memsync as a plugin of an agent: what integrations/ has, and how an installed plugin is found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from memsync.agents import agent_named
from memsync.agents.agent import Agent
from memsync.agents.checking import faults, hooks_in, installed
from memsync.agents.connecting import apply, planned, plugged
from memsync.agents.plugin_files import COMMANDS, USE, guide
from memsync.cli.main import run
from memsync.errors import ConfigError
from memsync.wiring import make_token_counter
from tests.conftest import PROJECT
from tools.integrations import FOLDER, INSTALL, contents

PROGRAM = ("/opt/my tools/memsync",)
PLUGINS = PROJECT / FOLDER
HOOK_FILES = {name: "index.js" if name.startswith("open") else "hooks/hooks.json" for name in INSTALL}


def test_repository_has_what_the_script_writes() -> None:
    """Run `make plugins` after a change. Each agent that has a plugin says how it is installed and removed."""
    written = contents()
    assert {name for name, text in written.items() if (PROJECT / name).read_text() != text} == set()
    assert {str(path.relative_to(PROJECT)) for path in PLUGINS.rglob("*") if path.is_file()} <= written.keys()
    for name in INSTALL:
        files = {path: text for path, text in written.items() if path.startswith(f"{FOLDER}/{name}/")}
        assert f"{FOLDER}/{name}/skills/memory/SKILL.md" in files and agent_named(name).unplug
        assert all(any(command in path or command in text for path, text in files.items()) for command in COMMANDS)


def test_guide_is_short() -> None:
    """A model reads it in each session with this AGENTS.md, and always what says when to use the skill."""
    assert sum(make_token_counter().count([guide()])) <= 450 and len(USE) <= 500


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini"])
@pytest.mark.parametrize("program", ["", "exit 2", "echo recalled; cat; echo harm >&2"])
def test_hook_never_disturbs(name: str, program: str, tmp_path: Path) -> None:
    """Without memsync, and if it fails: nothing is printed, and the exit code is 0."""
    hooks = list(hooks_in(agent_named(name), str(PLUGINS / name / HOOK_FILES[name])))
    assert {"session-start", "prompt", "session-end"} <= {hook.event for hook in hooks}
    memsync = tmp_path / "memsync"
    if program:
        memsync.write_text(f"#!/bin/sh\n{program}\necho $*\n")
        memsync.chmod(0o755)
    for hook in hooks:
        environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        done = subprocess.run(
            ["/bin/sh", "-c", hook.command], input=b"{}", capture_output=True, env=environ, check=True
        )
        said = f"recalled\n{{}}hook {hook.event} --agent {name}\n" if "echo" in program else ""
        assert (done.stdout.decode(), done.stderr) == (said, b"")


def plug(agent: Agent, *, on: bool = True, linked: bool = False) -> Path:
    """Install an agent's plugin as the agent does, and return the file with its hooks."""
    home, source = agent.home(), PLUGINS / agent.name
    folder = home / "extensions" / "memsync"
    texts: dict[str, object] = {}
    if agent.name == "claude-code":
        folder = home / "plugins/cache/memsync/memsync/0.1.0"
        texts["plugins/installed_plugins.json"] = {"plugins": {"memsync@memsync": [{"installPath": str(folder)}]}}
        texts["settings.json"] = {"enabledPlugins": {"memsync@memsync": on}}
    elif agent.name == "codex":
        folder = home / "plugins/cache/memsync/memsync/0.1.0"
        texts["config.toml"] = f'[plugins."memsync@memsync"]\nenabled = {str(on).lower()}\n'
    elif agent.name == "gemini":
        install = {"type": "link" if linked else "local", "source": str(source)}
        texts["extensions/memsync/.gemini-extension-install.json"] = install
        texts["extensions/extension-enablement.json"] = {"memsync": {"overrides": [] if on else [f"!{Path.home()}/*"]}}
    elif agent.name == "opencode":
        linked = True
        texts["opencode.json"] = {"plugin": ["other", ["x", {}], f"file://{source}" if on else str(PLUGINS)]}
    else:
        entries = {"memsync": {"enabled": on, "hooks": {"allowConversationAccess": True}}}
        texts["openclaw.json"] = {"plugins": {"entries": entries, "load": {"paths": [str(source)] if linked else []}}}
    if linked:
        folder = source
    else:
        shutil.copytree(source, folder)
    for name, value in texts.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(value if isinstance(value, str) else json.dumps(value))
    return folder / HOOK_FILES[agent.name]


@pytest.mark.parametrize(
    ("name", "linked"), [*((name, False) for name in INSTALL), ("gemini", True), ("openclaw", True)]
)
def test_plugin_is_found_and_nothing_answers_twice(
    name: str, linked: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`connect` then adds no hooks. `agents`, `check` and `disconnect` name the plugin."""
    agent = agent_named(name)
    (project := tmp_path / "project").mkdir()
    file = plug(agent, linked=linked)
    before = {path: path.read_bytes() for path in agent.home().rglob("*") if path.is_file()}
    assert plugged(agent) == plugged(agent, project) == [str(file)]
    assert {hook.file for hook in installed(agent, project)} == {str(file)}
    monkeypatch.chdir(project)
    assert run(["agents", "connect", name, "--yes", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["changed"] == [] and f"its hooks are those of its plugin: {file}" in said.err
    assert run(["agents", "--json"]) == 0
    (known,) = json.loads(capsys.readouterr().out)["agents"]
    assert known["plugin"] == known["connected"] == [str(file)]
    assert run(["agents", "disconnect", name, "--yes"]) == 1
    assert f"{file} stays, with the plugin; to remove it: {agent.unplug}" in capsys.readouterr().err
    assert run(["uninstall"]) == 1
    assert agent.unplug in capsys.readouterr().err
    kept = {path: path.read_bytes() for path in agent.home().rglob("*") if path.is_file()}
    assert kept == before or (name == "openclaw" and kept.keys() == before.keys())  # its hooks may no longer run


@pytest.mark.parametrize("name", INSTALL)
def test_hooks_of_connect_go_when_the_plugin_comes(name: str, tmp_path: Path) -> None:
    """Also its MCP server. What the plugin needs in the settings stays; its files are not memsync's to delete."""
    agent = agent_named(name)
    agent.home().mkdir(parents=True)
    apply(agent, planned(agent, PROGRAM, None))
    assert plugged(agent) == []
    shutil.rmtree(agent.home() / "extensions", ignore_errors=True)
    file = plug(agent)
    assert plugged(agent) == [str(file)]
    apply(agent, planned(agent, PROGRAM, None))
    assert {hook.file for hook in installed(agent, tmp_path)} == {str(file)}
    assert not any(b"/opt/my tools" in path.read_bytes() for path in agent.home().rglob("*") if path.is_file())
    folder, source = file.parents[file.parent.name == "hooks"], PLUGINS / name
    assert all((folder / path.relative_to(source)).exists() for path in source.rglob("*"))


@pytest.mark.parametrize("name", INSTALL)
def test_plugin_that_is_off_or_unreadable_does_not_count(name: str) -> None:
    """Settings may say anything, in any form."""
    agent = agent_named(name)
    plug(agent, on=False)
    assert plugged(agent) == []
    for path in [path for path in agent.home().rglob("*.json") if "memsync" not in str(path.relative_to(agent.home()))]:
        for text in ('{"enabledPlugins": [], "plugins": 7, "plugin": 7}', '{"plugins": {"memsync@x": 1, "load": [1]}}',
                     '{"plugin": [7, null, [], "a\\u0000"], "memsync": []}'):  # fmt: skip
            path.write_text(text)
            with suppress(ConfigError):
                plugged(agent)


def test_plugin_of_openclaw_needs_a_permission(tmp_path: Path) -> None:
    """OpenClaw installs it without, and then runs no hook at a prompt."""
    agent = agent_named("openclaw")
    plug(agent)
    settings = agent.home() / "openclaw.json"
    for text in (settings.read_text().replace("true", "false").replace("false", "true", 1), "{}"):
        settings.write_text(text)
        assert any("openclaw config set" in fault for fault in faults(agent, tmp_path, {}, 0.0))


def test_snippet_is_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    """As a section of AGENTS.md, and as a skill."""
    assert run(["agents", "snippet"]) == 0
    assert capsys.readouterr().out == f"## Memory\n\n{guide()}"
    assert run(["agents", "snippet", "--skill"]) == 0
    said = capsys.readouterr().out
    assert said == (PLUGINS / "claude-code/skills/memory/SKILL.md").read_text()
    assert said.startswith('---\nname: "memory"\ndescription: "')
    assert os.linesep.join(guide().splitlines()) in said
