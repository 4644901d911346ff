"""The examples of docs/programs.md for the socket run as printed, and what they print is what the page says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from memsync.daemon.methods import DAEMON_METHODS, method_names
from memsync.errors import MemsyncError
from tests.conftest import PROJECT, Write
from tests.support.daemon_fixtures import Served
from tests.support.daemon_process import launcher

PAGE = (PROJECT / "docs" / "programs.md").read_text().partition("\n## Socket\n")[2]
SOCKET = PAGE.partition("\n## ")[0]
FIND_SOCKET, *COMMANDS = re.findall(r"```sh\n(.*?)```", SOCKET, re.DOTALL)
DIALOGUES = re.findall(r"```\n(→.*?)```", SOCKET, re.DOTALL)


@pytest.fixture
def noted(served: Served, write: Write) -> Served:
    """Serve the note that the examples ask for."""
    write("MEMORY.md", "# Memory\n\n## Decisions\n\nThe store is SQLite.\n")
    served.memory.sync()
    return served


def run(command: str, **environ: str) -> str:
    """Return what a command of the page prints."""
    for tool in re.findall(r"\b(socat|nc)\b(?= -)", command):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}; install socat and netcat-openbsd")
    if "nc -N" in command and not is_openbsd_nc():
        pytest.skip("needs OpenBSD's nc, which has -N; install netcat-openbsd")
    env = {**os.environ, **environ}
    done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def is_openbsd_nc() -> bool:
    """Tell whether the nc that is installed knows -N and -U."""
    said = subprocess.run(["nc", "-h"], capture_output=True, text=True, timeout=10, check=False)
    return "OpenBSD" in said.stdout + said.stderr


def printed(line: str) -> Any:
    """Return a line of the page as JSON; what it leaves out is None."""
    return json.loads(re.sub(r"\{…\}|\[…\]", "null", line[1:]))


def subclasses(kind: type[MemsyncError]) -> list[type[MemsyncError]]:
    """Return every class beneath one of memsync's errors that memsync.errors defines."""
    below = [one for one in kind.__subclasses__() if one.__module__ == "memsync.errors"]
    return [*below, *(deeper for one in below for deeper in subclasses(one))]


def alike(printed: Any, real: Any) -> bool:
    """Tell whether a message has exactly the members that the page prints, wherever it prints any."""
    if not isinstance(printed, dict):
        return True
    return (
        isinstance(real, dict)
        and printed.keys() == real.keys()
        and all(alike(item, real[name]) for name, item in printed.items())
    )


def test_socket_is_found_as_the_page_says(noted: Served, tmp_path: Path) -> None:
    """`memsync status --json` names it."""
    program = launcher(tmp_path / "bin", "--root", str(noted.settings.root))
    found = run(FIND_SOCKET + 'printf %s "$SOCKET"', PATH=f"{program.parent}:{os.environ['PATH']}")
    assert found == noted.path


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: re.sub(r"\W+", " ", command)[-40:])
def test_command_prints_one_answer_to_each_of_its_requests(command: str, noted: Served) -> None:
    """In order, each a result, each alone on its line."""
    messages = [json.loads(line) for line in run(command, SOCKET=noted.path).splitlines()]
    asked = [json.loads(line)["id"] for line in re.findall(r"echo '(.*?)'", command)]
    answers = [message for message in messages if "id" in message]
    assert [answer["id"] for answer in answers] == asked
    assert all(answer["result"]["freshness"]["watcher"] == "live" for answer in answers)
    assert ("progress" in command) == any(message.get("method") == "progress" for message in messages)


def test_examples_with_both_tools_are_there() -> None:
    """Nothing above runs when the page has no examples."""
    assert [len(re.findall(rf"\b{tool} -", "".join(COMMANDS))) > 0 for tool in ("socat", "nc")] == [True, True]
    assert len(COMMANDS) == 3


@pytest.mark.parametrize("dialogue", DIALOGUES, ids=lambda text: str(printed(text.splitlines()[0])["id"]))
def test_dialogue_is_as_printed(dialogue: str, noted: Served) -> None:
    """Each line sent as the page has it; each line that comes back has the members that it has there."""
    (asked,), answers = ([line for line in dialogue.splitlines() if line.startswith(arrow)] for arrow in ("→", "←"))
    with noted.peer() as peer:
        peer.send(asked[1:].strip() + "\n")
        for answer in answers:
            expected = printed(answer)
            real = peer.line()
            while real.get("method") == "progress" and "result" in expected:
                real = peer.line()
            assert alike(expected, real), real
            assert expected.get("id") == real.get("id")
            if "error" in expected:
                assert expected == real


def test_every_method_of_the_daemons_own_has_a_dialogue_and_every_parameter_a_row() -> None:
    """The reference is complete: no method and no parameter is left out. That of operations is generated."""
    asked = {printed(text.splitlines()[0])["method"] for text in DIALOGUES}
    assert set(DAEMON_METHODS) | {"search", "get", "sync", "log"} == asked
    assert asked <= set(method_names())
    sections = dict(re.findall(r"\n### ([a-z]+)\n(.*?)(?=\n##)", SOCKET, re.DOTALL))
    assert sections.keys() == set(DAEMON_METHODS)
    for name, text in sections.items():
        assert [parameter for parameter in DAEMON_METHODS[name].values if f"`{parameter}`" not in text] == [], name


def test_every_error_code_is_in_the_table() -> None:
    """Those of JSON-RPC, those of the protocol, and an exit code and a name for each error of memsync."""
    from memsync.client import wire

    table = PAGE.partition("## Errors")[2]
    rows = {int(code): names for code, names in re.findall(r"^\| (-?\d+) \| (.*?) \|", table, re.MULTILINE)}
    codes = [value for name, value in vars(wire).items() if name.isupper() and isinstance(value, int) and value < 0]
    kinds: list[type[MemsyncError]] = [MemsyncError, *subclasses(MemsyncError)]
    assert len(codes) == 7
    assert set(codes) <= rows.keys()
    assert [kind.__name__ for kind in kinds if f"`{kind.__name__}`" not in rows[kind.exit_code]] == []


def test_limits_are_those_of_the_code() -> None:
    """A number on the page is the number that is enforced."""
    from memsync.client import wire
    from memsync.daemon import peer, server

    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", SOCKET.partition("## Limits")[2], re.MULTILINE))
    assert rows["a request"].startswith(f"{wire.MAX_REQUEST_BYTES:,} bytes")
    assert rows["from its first byte to its line end"] == f"{peer.SLOW_SECONDS:g} s"
    assert rows["an answer that is not taken"] == f"{peer.SLOW_SECONDS:g} s"
    assert rows["connections at once"] == str(server.MAX_CONNECTIONS)
