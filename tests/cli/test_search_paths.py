"""What a clone brings as a module or a program never runs because the current folder is on a search path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memsync.cli import terminal
from tests.support.sampling import sampled

MODULES = ("tomllib", "json", "click", "msgspec", "gc", "shutil", "sqlite3", "apsw")
BEFORE_US = ("contextlib", "typing")
"""Modules that `python -m` imports before it reads a file of memsync; the installed script does not."""
PROJECT = Path(__file__).parent.parent.parent


def clone_with(folder: Path, ran: Path, modules: tuple[str, ...] = MODULES) -> Path:
    """Make a memory root that has modules and programs, each of which says in `ran` that it ran."""
    folder.mkdir()
    (folder / "config.toml").write_text('[memsync]\nroot = "."\n')
    (folder / "a.md").write_text("The heron nests in the alder.\n" * 60)
    for name in modules:
        (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write('{name} ')\n")
    for name in ("less", "git", "sh"):
        (folder / name).write_text(f"#!/bin/sh\necho {name} >> '{ran}'\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("entries", sampled(["", ":", f":{PROJECT}", f"{PROJECT}:.", "sub/..:"], 1))
def test_an_empty_entry_in_a_search_path_runs_nothing_of_a_clone(tmp_path: Path, entries: str) -> None:
    """Neither the entry script nor `python -m memsync` nor their child processes import from the current folder."""
    ran = tmp_path / "ran"
    clones = [clone_with(tmp_path / "a", ran, (*MODULES, *BEFORE_US)), clone_with(tmp_path / "b", ran)]
    environ = {**os.environ, "PYTHONPATH": entries, "PATH": f":{os.environ['PATH']}:."}
    script = Path(sys.executable).with_name("memsync")
    programs = [[str(script)], [sys.executable, "-m", "memsync"]]
    for clone, program in zip(clones, programs, strict=True):
        for command in (["search", "--mode", "keyword", "heron"], ["status"]):
            done = subprocess.run(
                [*program, *command], cwd=clone, env=environ, capture_output=True, text=True, check=False
            )
            assert (done.returncode, ran.exists() and ran.read_text()) == (0, False), done.stderr


def test_the_pager_is_looked_up_in_absolute_folders_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty entry in PATH is the current folder, which may have a `less` of its own."""
    ran = tmp_path / "ran"
    monkeypatch.chdir(clone_with(tmp_path / "clone", ran))
    usual = tmp_path / "bin"
    usual.mkdir()
    (usual / "less").write_text(f"#!/bin/sh\ncat > '{tmp_path}/shown'\n")
    (usual / "less").chmod(0o755)
    monkeypatch.setenv("PATH", f":{usual}:{os.environ['PATH']}")
    monkeypatch.delenv("PAGER", raising=False)
    monkeypatch.setattr("os.get_terminal_size", lambda *_: os.terminal_size((80, 3)))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    terminal.show("one\ntwo\nthree\nfour\n")
    assert (tmp_path / "shown").read_text().startswith("one")
    assert not ran.exists()
