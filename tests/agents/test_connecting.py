"""Agents are connected by edits of their settings files, and disconnected to the byte."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memsync.agents import NAMES, agent_named, agents, connecting
from memsync.agents.connecting import MAX_BYTES, apply, connections, planned, taken_back
from memsync.agents.edits import NotEditable, parsed
from memsync.cli.main import run
from memsync.edit import note_file
from memsync.errors import ConfigError, FilesystemError, UsageError, WriteRefused
from memsync.memory import Memory
from memsync.settings.load import load_settings
from memsync.settings.registering import add_root
from memsync.settings.roots import RegisteredRoot, add, default_root, registered_roots, roots_path
from memsync.system.state_file import state_of_user

PROGRAM = ("/opt/my tools/memsync",)
CLAUDE = agent_named("claude-code")

SETTINGS = [
    '{"hooks": 1, "hooks": {"Stop": []}, "s": "\\ud800", "n": 1e400}',
    "", "{}", "{}\n", '{"a": 1}', '\ufeff{\r\n\t"a": 1, // mine\r\n\t"hooks": {"Stop": []}\r\n}', "// nothing\n",
    '{\n    "hooks": {\n        "SessionStart": [\n            {"hooks": []} // b\n        ],\n    },\n}\n\n',
]  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home with the folders of all agents."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "CURSOR_CONFIG_DIR", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    for agent in agents():
        agent.home().mkdir(parents=True)
    return tmp_path / "home"


def connect(name: str = "claude-code", project: Path | None = None) -> list[str]:
    """Connect an agent and return the files that changed."""
    changes = planned(agent_named(name), PROGRAM, project)
    apply(agent_named(name), changes)
    return [change.path for change in changes if change.new != change.old]


def disconnect(name: str = "claude-code") -> list[str]:
    """Disconnect an agent and return the remarks."""
    changes, remarks = taken_back(agent_named(name), PROGRAM)
    apply(agent_named(name), changes)
    return remarks


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return all files below a folder, and its folders."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("in_project", [False, True])
def test_connecting_twice_is_connecting_once_and_disconnecting_leaves_nothing(
    name: str, in_project: bool, home: Path, tmp_path: Path
) -> None:
    """Every file names the program by its full path, and folders that were made go again."""
    project = tmp_path / "project" if in_project else None
    (tmp_path / "project").mkdir()
    before = tree(home) | tree(tmp_path / "project")
    if name == "openclaw" and in_project:
        with pytest.raises(UsageError, match="cannot be connected in a project"):
            connect(name, project)
        return
    changed = connect(name, project)
    texts = [Path(path).read_text() for path in changed]
    assert any("hook" in text and "/opt/my tools/memsync" in text for text in texts)
    assert all(parsed(path, Path(path).read_text()) for path in changed if path.endswith(("json", "toml")))
    assert connect(name, project) == []
    assert disconnect(name) == []
    assert tree(home) | tree(tmp_path / "project") == before


@pytest.mark.parametrize("text", SETTINGS)
def test_settings_come_back_to_the_byte(text: str, home: Path) -> None:
    """With their mode, through the user's link to them, which stays."""
    dotfiles = home / "dotfiles.json"
    dotfiles.write_bytes(text.encode())
    dotfiles.chmod(0o640)
    settings = home / ".claude" / "settings.json"
    settings.symlink_to(dotfiles)
    connect()
    value = parsed("x.json", dotfiles.read_bytes().decode())
    assert value["hooks"]["SessionStart"][0]["hooks"][0]["command"].startswith("'/opt/my tools/memsync' hook session-")
    assert connect() == []
    disconnect()
    assert dotfiles.read_bytes() == text.encode()
    assert settings.is_symlink() and dotfiles.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", NAMES)
def test_without_records_and_after_a_kill_nothing_of_memsync_stays(
    name: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records may be lost with the state folder; a killed writer leaves a hidden file."""
    connect(name)
    connected = [path for path in tree(home) if os.path.isfile(path)]
    (Path(connected[0]).parent / ".memsync-1-a.tmp").write_text("cut")
    monkeypatch.setattr(connecting, "LEFTOVER_SECONDS", 0.0)
    state_of_user().path.unlink()
    assert disconnect(name) == []
    left = {path: content for path, content in tree(home).items() if content is not None}
    assert set(left) <= set(connected) and not any(b"memsync" in content for content in left.values())


@pytest.mark.parametrize("text", SETTINGS)
def test_what_the_user_wrote_meanwhile_stays(text: str, home: Path, tmp_path: Path) -> None:
    """Then only memsync's own entries go. If they cannot be told apart, nothing changes, and the error has them."""
    settings = home / ".claude" / "settings.json"
    settings.write_bytes(text.encode())
    connect()
    said = settings.read_bytes().decode()
    is_plain = "//" not in text
    new = json.dumps({**json.loads(said), "mine": 1}, indent=2) if is_plain else re.sub("//.*", "// mine", said)
    settings.write_bytes(edited := new.encode())
    connect()
    assert settings.read_text().count("hook prompt --agent claude-code") == 1
    disconnect()
    left = settings.read_bytes().decode()
    wanted = {**parsed("x.json", text), "mine": 1} if is_plain else parsed("x.json", text)
    assert parsed("x.json", left) == wanted and "memsync" not in left
    assert is_plain or "".join(left.split()).startswith("".join(re.sub("//.*", "// mine", text).split()))
    settings.write_bytes(edited)
    state_of_user().path.unlink()
    try:
        connect()
        disconnect()
    except NotEditable as error:
        assert "hook prompt --agent claude-code" in error.hint and settings.read_bytes() == edited and not is_plain


def test_settings_that_the_agent_wrote_anew_are_connected(home: Path) -> None:
    """With other white space and another order of keys they say the same, so there is nothing to change."""
    settings = home / ".claude" / "settings.json"
    settings.write_text('{"a": {}, "b": 1}')
    connect()
    said = json.loads(settings.read_text())
    settings.write_text(json.dumps(dict(reversed(said.items())), indent=4))
    assert connect() == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{\n\n"a": nope}', r"settings.json: it is not JSON \(line 3\). Nothing was changed"),
        (b'{\n"a": "\xff"}', "line 2 is not UTF-8"), (b" " * (MAX_BYTES + 1), "at most 20 MB"),
        (b'{"hooks": {"SessionStart": {}}}', "has no place for memsync's entries in hooks"),
    ],
)  # fmt: skip
def test_unreadable_settings_are_named_and_nothing_changes(content: bytes, words: str, home: Path) -> None:
    """Not even the other files of the agent."""
    settings = home / ".claude" / "settings.json"
    settings.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        connect()
    assert settings.read_bytes() == content and not (home / ".claude.json").exists()


def test_files_of_others_are_not_overwritten(home: Path, tmp_path: Path) -> None:
    """A plugin of the same name, an edited one of memsync's, a device, a link out of a project, a read-only file."""
    plugin = home / ".copilot" / "hooks" / "memsync.json"
    plugin.parent.mkdir()
    plugin.write_text("{}")
    with pytest.raises(UsageError, match="memsync did not write it"):
        connect("copilot")
    plugin.unlink()
    connect("copilot")
    plugin.write_text(plugin.read_text() + "\n")
    assert "stays, because it was edited" in disconnect("copilot")[0]
    assert plugin.exists()
    os.mkfifo(home / ".cursor" / "hooks.json")
    with pytest.raises(ConfigError, match="not a file of at most"):
        connect("cursor")
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone" / ".claude").symlink_to(home / ".claude")
    with pytest.raises(UsageError, match="leads out of the project"):
        connect(project=tmp_path / "clone")
    (home / ".claude" / "settings.json").write_text("{}")
    (home / ".claude" / "settings.json").chmod(0o400)
    with pytest.raises(WriteRefused, match="is read-only"):
        connect()


def test_file_that_changed_since_the_diff_is_not_overwritten(home: Path) -> None:
    """Neither if it changed before the first write, nor just before its own."""
    settings = home / ".claude" / "settings.json"
    settings.write_text("{}")
    changes = planned(CLAUDE, PROGRAM, None)
    settings.write_text('{"mine": 1}')
    with pytest.raises(WriteRefused, match="was changed meanwhile"):
        apply(CLAUDE, changes)
    assert settings.read_text() == '{"mine": 1}' and not (home / ".claude.json").exists()
    changes = planned(CLAUDE, PROGRAM, None)
    settings.unlink()
    with pytest.raises(WriteRefused, match="was changed meanwhile"):
        apply(CLAUDE, changes)
    assert not settings.exists()


@pytest.mark.parametrize(("name", "number"), [("claude-code", 0), ("claude-code", 1), ("gemini", 0), ("gemini", 1)])
@pytest.mark.parametrize("times", [1, 100])
def test_full_disk_changes_nothing(
    name: str, number: int, times: int, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written before is put back, too; if there is no room even for that, by disconnecting later."""
    (home / ".claude" / "settings.json").write_text('{"mine": 1}')
    (home / ".claude.json").write_text("{ }")
    before, write, calls = tree(home), os.write, itertools.count()

    def fail(descriptor: int, content: Any) -> int:
        if number <= next(calls) < number + times:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, content)

    monkeypatch.setattr("memsync.edit.note_file.os.write", fail)
    with pytest.raises(FilesystemError, match="No space left"):
        connect(name)
    monkeypatch.setattr("memsync.edit.note_file.os.write", write)
    if times > 1:
        disconnect(name)
    assert tree(home) == before
    assert connections(agent_named(name)) == {}


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("is_upgrade", [False, True])
def test_killed_process_leaves_each_file_old_or_new(
    number: int, is_upgrade: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Disconnecting ends what it began, and so does connecting again."""
    settings = home / ".claude" / "settings.json"
    settings.write_text('{"mine": 1}')
    (home / ".claude.json").write_text("{ }")
    before = tree(home)
    swap, left = note_file.swap, iter(range(number))

    def swap_or_die(*arguments: Any) -> bool:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return swap(*arguments)

    if is_upgrade:
        connect()
    monkeypatch.setattr(note_file, "swap", swap_or_die)
    killed = os.fork()
    if not killed:
        apply(CLAUDE, planned(CLAUDE, ("/opt/new/memsync",), None))
        os._exit(0)
    os.waitpid(killed, 0)
    monkeypatch.setattr(note_file, "swap", swap)
    disconnect()
    assert tree(home) == before
    assert len(connect()) == 2


def test_two_at_once_connect_once(home: Path) -> None:
    """The second one finds the files as it wants them, or says that they have changed."""
    with ThreadPoolExecutor(4) as pool:
        errors = [future.exception() for future in [pool.submit(connect) for _ in range(4)]]
    assert all(error is None or "was changed meanwhile" in str(error) for error in errors)
    assert None in errors
    connect()
    assert (home / ".claude" / "settings.json").read_text().count("hook prompt") == 1
    disconnect()
    assert not (home / ".claude" / "settings.json").exists()


def test_commands(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    """Nobody is asked without a terminal; --json is one document; the agent's notes are registered and left alone."""
    memory = home / ".claude" / "projects" / "-p" / "memory"
    memory.mkdir(parents=True)
    (memory / "fact.md").write_text("The heron nests.")
    before = tree(home)
    monkeypatch.chdir(tmp_path)
    assert run(["agents", "connect", "claude-code"]) == UsageError.exit_code
    assert run(["agents", "--json", "pause"]) == UsageError.exit_code
    assert run(["agents", "connect", "claude-code", "--dry-run"]) == 0
    assert "+" in capsys.readouterr().out and tree(home) == before and not registered_roots()
    assert run(["agents", "connect", "claude-code", "--yes", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["changed"]) == 2
    assert registered_roots()["claude-code"].only == CLAUDE.memory
    assert run(["agents", "pause"]) == run(["agents", "--json"]) == 0
    described = json.loads(capsys.readouterr().out.partition("\n")[2])
    assert described["paused"] and described["agents"][0]["connected"] and described["agents"][0]["notes"] == 1
    assert run(["agents", "resume"]) == run(["agents", "disconnect", "claude-code", "--yes"]) == 0
    assert tree(home) == before and list(registered_roots()) == ["transcripts"]  # what was kept stays


@pytest.mark.parametrize("notes", ["", "no-such-program -p", "'"])
def test_words_of_notes_need_a_program(notes: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree(home)
    assert run(["agents", "connect", "claude-code", "--yes", "--notes", notes]) == UsageError.exit_code
    assert "--notes" in capsys.readouterr().err and tree(home) == before


@pytest.mark.parametrize("name", ["transcripts", "codex", "notes", "Über uns"])
def test_memory_that_is_not_registered_gets_a_name_that_nothing_else_has(
    name: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither another memory's, nor one that conversations or the notes of an agent will have."""
    for number, known in enumerate(("notes", "notes-2")):
        (tmp_path / str(number)).mkdir()
        add(RegisteredRoot(known, str(tmp_path / str(number))))
    here = tmp_path / "x" / name
    here.mkdir(parents=True)
    (here / "config.toml").write_text('[memsync]\nroot = "."\n')
    monkeypatch.chdir(here)
    assert run(["agents", "connect", "claude-code", "--yes"]) == 0
    wanted = {"transcripts": "transcripts-2", "codex": "codex-2", "notes": "notes-3"}.get(name, "ber-uns")
    assert registered_roots()[wanted] == RegisteredRoot(wanted, str(here), default=True)
    assert {*registered_roots()} == {"notes", "notes-2", "claude-code", "transcripts", wanted}


@pytest.mark.parametrize("is_known", [False, True])
def test_memory_of_this_folder_becomes_the_default_if_there_is_none(
    is_known: bool, root: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """The plan says so, and a dry run changes nothing. A default that the user chose stays."""
    (root / "config.toml").write_text('[memsync]\nroot = "."\n')
    if is_known:
        assert run(["roots", "add", root.name, str(root)]) == 0
    line = f"registers the memory {root.name}: {root}, as the default"
    line = f"makes the memory {root.name} the default" if is_known else line
    monkeypatch.chdir(root)
    assert run(["agents", "connect", "claude-code", "--dry-run"]) == 0
    assert line in capsys.readouterr().out.splitlines() and default_root() is None
    assert run(["agents", "connect", "claude-code", "--yes"]) == 0
    assert line in capsys.readouterr().out.splitlines()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.toml").write_text('[memsync]\nroot = "."\n')
    monkeypatch.chdir(tmp_path / "other")
    assert run(["agents", "connect", "claude-code", "--yes"]) == 0
    assert default_root() == RegisteredRoot(root.name, str(root), default=True)
    assert "other" not in registered_roots()


def test_folder_that_the_users_own_settings_name_is_a_memory_of_the_agent(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is shown before anybody agrees. A clone's settings name none."""
    monkeypatch.setenv("MEMSYNC_SEARCH_MODE", "keyword")
    for folder, named in (home, "~/facts"), (tmp_path / "clone", "~"):
        (folder / ".claude").mkdir(parents=True, exist_ok=True)
        (folder / ".claude" / "settings.json").write_text(json.dumps({"autoMemoryDirectory": named}))
    monkeypatch.chdir(tmp_path / "clone")
    (home / "facts").mkdir()
    (home / "facts" / "birds.md").write_text("The heron nests.")
    assert run(["agents", "connect", "claude-code", "--dry-run"]) == 0
    assert f"registers the memory claude-code-memory: {home / 'facts'}\n" in capsys.readouterr().out
    assert not registered_roots()
    assert run(["agents", "connect", "claude-code", "--yes"]) == 0
    assert registered_roots()["claude-code-memory"].path == str(home / "facts")
    with Memory.open(root=home / "facts") as memory:
        assert [hit.origin for hit in memory.search("heron").hits] == ["agent:claude-code"]
    capsys.readouterr()
    assert run(["agents", "connect", "claude-code", "--dry-run"]) == 0
    assert "registers" not in capsys.readouterr().out
    assert run(["agents", "disconnect", "claude-code", "--yes"]) == 0
    assert list(registered_roots()) == ["transcripts"]


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
@pytest.mark.parametrize(
    ("name", "test", "heard"),
    [
        ("opencode", """
const on = await (await import("HOME/.config/opencode/plugins/memsync.js")).Memsync({ directory: "/" })
for (const text of ["p1", "p2", "p3"]) {
  await on["chat.message"]({ sessionID: "s" }, { parts: [{ type: "text", text }] })
  const output = { system: [] }
  await on["experimental.chat.system.transform"]({ sessionID: "s" }, output)
  console.log(output.system.join(" ").match(/session-start|p\\d/g).join(" "))
}""", ["session-start p1 p1", "session-start p1 p1", "session-start p1 p1 p3"]),
        ("openclaw", """
const plugin = (await import("HOME/.openclaw/extensions/memsync/index.js")).default, on = {}
plugin.register({ on: (name, handler) => (on[name] = handler) })
for (const prompt of ["p1", "p2", "", "p3"]) {
  const handler = on[prompt ? "before_prompt_build" : "session_end"]
  const said = (await handler({ prompt }, { sessionId: "s" }))?.prependContext ?? ""
  console.log(said.match(/session-start|p\\d/g)?.join(" ") ?? "")
}""", ["session-start p1 p1", "session-start p1 p1", "", "session-start p3 p3"]),
    ],
)  # fmt: skip
def test_plugin_repeats_with_each_prompt_what_its_session_heard_before(
    name: str, test: str, heard: list[str], home: Path, tmp_path: Path
) -> None:
    """The agent does not keep it. Prompts that heard nothing do not count. A new session begins anew."""
    answer = 'read -r data; case "$data" in *p2*) ;; *) echo "$2 $data";; esac'
    (program := tmp_path / "memsync").write_text(f"#!/bin/bash\n{answer}\n")
    program.chmod(0o755)
    apply(agent_named(name), planned(agent_named(name), [str(program)], None))
    (script := tmp_path / "test.mjs").write_text(test.replace("HOME", str(home)))
    done = subprocess.run(["node", script], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == heard


def test_root_in_place_has_only_its_notes_and_refuses_writes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No config.toml is needed there, and neither one nor a .gitignore can bring another file back."""
    monkeypatch.setenv("MEMSYNC_SEARCH_MODE", "keyword")
    folder = home / ".claude"
    names = ("CLAUDE.md", "p/memory/a.md", "p/memory/deep/b.md", "p/c.md", "d.md", "p/other/e.md", "q/q/memory/f.md")
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("The heron nests.")
    add_root("claude-code", str(folder), ("CLAUDE.md", "*/memory/**/*.md"))
    (folder / "config.toml").write_text('[memsync]\n[files]\nexclude = ["!*.md", "!*/"]\n')
    (folder / "p" / ".gitignore").write_text("!*.md\n!*/\n!other/\n")
    before = tree(folder)
    with Memory.open(root=folder) as memory:
        assert {hit.origin for hit in memory.search("heron by:claude-code").hits} == {"agent:claude-code"}
        assert {note.path for note in memory.notes().notes} == {"CLAUDE.md", "p/memory/a.md", "p/memory/deep/b.md"}
        writes: list[Callable[[], object]] = [
            lambda: memory.log("x"), lambda: memory.remember("x"), lambda: memory.new_thread("x"),
            lambda: memory.new_note("p/memory/x.md", "x"), lambda: memory.set_preference("x", "y"),
        ]  # fmt: skip
        for write in writes:
            with pytest.raises(WriteRefused, match="belong to another program"):
                write()
    assert tree(folder) == before


def test_error_in_the_list_of_memories_ends_only_commands_that_need_it(home: Path, root: Path) -> None:
    """A folder of the user's own, with a config.toml, is as it was. One that may be an agent's is not touched."""
    folder = home / ".claude"
    add_root("claude-code", str(folder), ("CLAUDE.md",))
    text = Path(roots_path()).read_text()
    Path(roots_path()).write_text(text.replace('["CLAUDE.md"]', "1"))
    (root / "config.toml").write_text("[memsync]\n")
    assert load_settings(root=root).only == ()
    with pytest.raises(ConfigError, match="only must be a list of patterns"):
        load_settings(root=folder)
    Path(roots_path()).write_text(text)
    assert load_settings(root=folder).decisive() != load_settings(root=root).decisive()
    assert load_settings(root=folder).only == ("CLAUDE.md",)


def test_nothing_is_changed_if_the_disk_is_full_for_the_conversations(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The settings come last, so that no agent is connected to a memory that is not there."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("memsync.agents.ingest.replace_file", full)
    before = tree(home / ".claude")
    assert run(["agents", "connect", "claude-code", "--yes"]) != 0
    assert "transcripts cannot be written: No space left on device" in capsys.readouterr().err
    assert tree(home / ".claude") == before


def test_recall_before_the_first_hook_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """An agent may be connected, and have had no prompt yet."""
    assert run(["recall", "--why"]) == UsageError.exit_code
    assert "memsync agents connect NAME. Or wait for its first prompt." in capsys.readouterr().err
