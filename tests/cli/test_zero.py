"""What a person types at the edge of what is allowed: nought, nothing, and another memory root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memsync.cli.main import run, run_command
from memsync.memory import Memory
from tests.conftest import Printed, Write


def test_nought_is_a_value(memory: Memory, write: Write, capsys: Printed) -> None:
    """`--min-score 0` shows what the default leaves out."""
    write("a.md", "heron\n")
    root = ["--root", str(memory.settings.root), "search", "--mode", "keyword", "heron"]
    assert run([*root, "--min-score", "1"]) == 1
    assert run([*root, "--min-score", "0"]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["daemon", "stop"],
        ["daemon", "restart"],
        ["init", "x"],
        ["--root", "/", "status"],
        ["status", "--root", "/"],
    ],
)
def test_a_daemon_runs_only_short_commands_on_its_own_memory(memory: Memory, arguments: list[str]) -> None:
    """It declines any other command line, and the client runs that itself."""
    assert run_command(memory, arguments) == {}


def test_no_library_reports_to_its_makers(tmp_path: Path) -> None:
    """A process that embeds leaves nothing of ONNX Runtime's telemetry in the user's folders."""
    code = "from memsync.wiring import make_embedder; make_embedder('minilm').embed_query('heron')"
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("ORT_", "HF_", "XDG_"))}
    environ |= {"HOME": str(tmp_path)}
    command: list[Any] = [sys.executable, "-c", code]
    subprocess.run(command, env=environ, check=True, timeout=120)
    assert [path for path in tmp_path.rglob("*") if "icrosoft" in path.name or "onnxruntime" in path.name] == []


def test_text_in_another_encoding_is_refused_and_not_written_with_gaps(memory: Memory) -> None:
    """As an argument and on standard input; the error says which byte, and how to convert it."""
    root = str(memory.settings.root)
    for words, given in ((["caf\udce9"], b""), (["-"], b"caf\xe9")):
        command = [sys.executable, "-m", "memsync", "--root", root, "log", *words]
        done = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"TEXT is not UTF-8 text: the byte 0xe9 after 3 characters" in done.stderr
    assert not list(Path(root).rglob("*.md"))


def test_lists_without_a_row_say_so(memory: Memory, capsys: Printed) -> None:
    """On stderr, so that a pipe gets nothing, and not beside JSON."""
    root = ["--root", str(memory.settings.root)]
    assert run([*root, "thread", "list", "--status", "nosuch"]) == 0
    assert capsys.readouterr() == ("", "memsync: no thread matches\n")
    assert run([*root, "thread", "list", "--json"]) == 0
    assert capsys.readouterr().err == ""


def test_standard_input_without_an_end_is_not_read_without_an_end(memory: Memory) -> None:
    """As much as a text may have, and one character more."""
    command = [sys.executable, "-m", "memsync", "--root", str(memory.settings.root), "log"]
    with open("/dev/zero", "rb") as endless:
        done = subprocess.run(command, stdin=endless, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "longer than 64,000,000 characters" in done.stderr
