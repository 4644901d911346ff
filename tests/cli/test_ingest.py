"""`memsync ingest` and `memsync thread export --raw`, and the daemon that takes in conversations by itself."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.agents.conversations import ASKED, DONE, as_bytes, claude_code, converse
from tests.support.daemon_fixtures import wait_until
from tests.support.daemon_process import Cli


@pytest.mark.slow
def test_conversations_are_found_and_given_back(cli: Cli) -> None:
    """The daemon of the memory `transcripts` takes them in as they grow, at a hook's word, and searches find them."""
    path = converse("claude-code")
    assert "1 new session, 0 grown, 0 unchanged" in cli("ingest").stdout
    report = json.loads(cli("ingest", "claude-code", "--json").stdout)
    assert (report["new"], report["unchanged"], report["wrong"]) == (0, 1, [])
    assert cli("thread", "export", "--raw", "s1").stdout.encode() == path.read_bytes()
    assert ASKED in cli("--root", "transcripts", "search", "heron").stdout
    assert "s1" in cli("--root", "transcripts", "thread", "costs").stdout
    cli("--root", "transcripts", "daemon", "start")
    converse("codex")
    hook = [sys.executable, "-P", "-m", "memsync", "hook", "session-end", "--agent", "codex"]
    subprocess.run(hook, input=b"{}", check=True, timeout=120)
    wait_until(lambda: "codex-rollout-s1" in cli("--root", "transcripts", "search", "heron").stdout, "the hook's word")
    with path.open("ab") as file:
        file.write(as_bytes(claude_code("/home/me/pond")).replace(DONE.encode(), b"A crane came."))
    wait_until(lambda: "A crane came" in cli("--root", "transcripts", "search", "crane").stdout, "the session to grow")


def test_wrong_names_say_what_to_do(cli: Cli) -> None:
    """Each is an error of usage."""
    for arguments, said in (
        (("ingest", "nobody"), "Agents: claude-code"),
        (("thread", "export", "--raw"), "memsync thread export SESSION --raw"),
        (("thread", "export", "--raw", "s1"), "no raw transcript"),
    ):
        done = cli(*arguments)
        assert done.returncode == 2
        assert said in done.stderr
