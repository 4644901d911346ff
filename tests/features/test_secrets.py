"""Secrets in notes are named by place, kind and digest, and never printed; a write that contains one warns."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from memsync.memory import Memory
from tests.conftest import Write
from tests.support.daemon_process import Cli

TOKEN = "ghp_" + "q7R2m9Kx4Lw8Zt1Vb6Nc3Yp5Hd0Jf2Sg7Ta8"


def test_check_names_places_and_prints_no_secret(cli: Cli, write: Write, root: Path) -> None:
    """It exits with 1 where it found one, and where a note cannot be read."""
    write("a.md", "# Keys\n\nNothing here.\n")
    assert cli("check", "secrets").returncode == 0
    write("sub/b.md", f"---\ntitle: b\n---\n\nThe token is {TOKEN}, again {TOKEN}.\n")
    found = cli("check", "secrets")
    assert found.returncode == 1
    assert found.stdout.count("sub/b.md:5") == 2
    assert TOKEN not in found.stdout + found.stderr
    document = json.loads(cli("check", "secrets", "--json").stdout)
    assert (len(document["findings"]), document["notes"]) == (2, 2)
    assert all("github-pat" in finding["message"] for finding in document["findings"])
    write("c.md", b"\0\1\2" * 100)
    (root / "sub" / "b.md").unlink()
    assert cli("check", "secrets").returncode == 1


@pytest.mark.parametrize("write_text", [Memory.log, Memory.remember])
def test_write_with_a_secret_warns_and_is_done(write_text: object, memory: Memory, root: Path) -> None:
    """The text is written as it was asked for, and the warning says where it is."""
    assert callable(write_text)
    assert write_text(memory, "The heron nests.").warnings == ()
    written = write_text(memory, f"We use {TOKEN} there.")
    (warning,) = written.warnings
    assert f"line {written.line} seems to contain a secret (github-pat, " in warning
    assert f"memsync open {written.path}:{written.line}" in warning
    assert TOKEN not in warning
    assert TOKEN in (root / written.path).read_text()


def test_warning_is_about_the_new_text_alone(memory: Memory, write: Write) -> None:
    """Not about another secret of the note, nor about the same one above."""
    other = "AKIA" + "Q3EGTB7HZ5XN2WPL"
    write("MEMORY.md", f"# Memory\n\n- {other}\n- We use {TOKEN} there.\n")
    written = memory.remember(f"They use {TOKEN} here.")
    (warning,) = written.warnings
    assert f"line {written.line} seems" in warning


def test_library_that_is_broken_only_warns(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The note is written by then."""
    monkeypatch.setattr("memsync.notes.secrets._loaded", [])
    monkeypatch.setitem(sys.modules, "kingfisher_sdk", None)
    (warning,) = memory.log(f"The token is {TOKEN}.").warnings
    assert "was not checked for secrets" in warning
