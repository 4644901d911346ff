"""`memsync hook`, as agents run it: it always exits with 0, and prints what the daemon recalls or nothing."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from memsync.agents.recall_records import failures, sessions
from memsync.cli.hook import run
from memsync.settings.roots import RegisteredRoot, add, remove_root
from memsync.system.user_folders import state_folder, write_own_file
from tests.support.daemon_fixtures import wait_until
from tests.support.daemon_process import Cli

HERON = "The heron nests in the tall alder … by the quiet pond."
PROMPT = {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": "Where does the heron nest?"}


def hook(payload: bytes | dict[str, str], *arguments: str, removed: Path | None = None) -> str:
    """Run a hook and return what it prints; in a folder that is removed before, if `removed` names one."""
    given = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    command = [sys.executable, "-P", "-m", "memsync", "hook", *(arguments or ("prompt", "--agent", "claude-code"))]
    if removed is not None:
        removed.mkdir()
        command = ["/bin/sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *command]
    done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=120, cwd=removed)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def test_hook_recalls_through_the_daemon_which_it_starts_itself(
    cli: Cli, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first time it says nothing; then the real model decides. `recall` shows what it did.

    Its output is UTF-8 in any locale. A memory that was registered since is asked. The folders in which the daemon was
    started and in which the hook runs may be removed.
    """
    (root / "birds.md").write_text(f"# Birds\n\n{HERON}\n")
    add(RegisteredRoot("mine", str(root), default=True))
    assert hook(PROMPT, removed=tmp_path / "removed") == ""
    wait_until(lambda: "serves" in cli.log, "the daemon")
    wait_until(lambda: HERON in hook(PROMPT), "vectors")
    with monkeypatch.context() as latin:
        latin.setenv("PYTHONIOENCODING", "ascii")
        wait_until(lambda: "…" in hook({**PROMPT, "session_id": uuid4().hex}), "an answer in any locale")
    assert HERON in hook({**PROMPT, "session_id": "s2"}, removed=tmp_path / "removed")
    assert hook({**PROMPT, "prompt": "How is a compiler bootstrapped?"}) == ""
    text = cli("recall", "--why").stdout
    assert "mine:birds.md:" in text
    assert "bootstrapped?  (0 tokens" in text
    assert len(json.loads(cli("recall", "--json").stdout)) >= 2
    assert "s1" in cli("recall", "list").stdout
    assert "it answers a question" in cli("doctor").stdout
    assert "is starting" in cli("recall", "--why", "s1").stdout
    assert "is starting" not in failures()
    remove_root("mine")
    assert hook({**PROMPT, "session_id": "s3"}, "prompt", "--agent=claude-code") == ""
    add(RegisteredRoot("mine", str(root), default=True))
    again = ("prompt", "--agent=claude-code")
    wait_until(lambda: HERON in hook({**PROMPT, "session_id": uuid4().hex}, *again), "the memory that was registered")


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"[]", b"\xff", b"null", b'{"prompt": 1}', b"[" * 100_000, b'"' + b"x" * 700_000 + b'"'],
    ids=range(8),
)
def test_payload_may_be_anything(payload: bytes) -> None:
    """An agent takes any other exit code for a refusal of the prompt."""
    assert hook(payload) == ""


@pytest.mark.parametrize("arguments", [("prompt",), ("nope", "--agent", "codex"), ("prompt", "--agent"), ("--agent",)])
def test_wrong_arguments_print_nothing(arguments: tuple[str, ...]) -> None:
    """A hook of another version of memsync must not disturb the agent."""
    assert hook(PROMPT, *arguments) == ""


def test_recall_before_any_hook_says_what_to_do(cli: Cli) -> None:
    """And a session that there is none of is an error."""
    assert "docs/agents.md" in cli("recall").stderr
    assert cli("recall", "s9").returncode == 2


@pytest.mark.parametrize("fault", ["silence", "end", "started"])
def test_hook_records_that_a_fault_kept_it_silent(fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A daemon that answers too late, or is killed. A program that memsync has started hears nothing by choice."""
    monkeypatch.setattr("memsync.cli.hook.ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(PROMPT).encode())))
    if fault == "started":
        monkeypatch.setenv("MEMSYNC_STARTED", "1")
    known = Path(state_folder(), "recall", "socket")
    write_own_file(str(known), str(tmp_path / "s").encode())
    os.utime(known, (2e9, 2e9))
    add(RegisteredRoot("mine", str(tmp_path), default=True))
    monkeypatch.setenv("MEMSYNC_DAEMON_AUTOSTART", "never")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        if fault == "end":
            listening.shutdown(socket.SHUT_RDWR)
        run(["prompt", "--agent", "claude-code"])
    found = [(recall.session, recall.failed, recall.lines) for recalls in sessions() for recall in recalls]
    assert found == [("s1", True, ())] * (fault != "started")
    assert ("does not answer" in failures()) == (fault == "silence")
