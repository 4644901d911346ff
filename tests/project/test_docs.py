"""The documentation says what is so: links lead somewhere, examples run, options exist, exit codes are the code's."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from memsync import errors
from memsync.cli.build import commands_in
from memsync.cli.table import COMMANDS
from memsync.model.filters import FILTERS
from memsync.operation import OPERATIONS
from memsync.settings.config_trust import HARMLESS
from memsync.settings.settings_list import DSN, SETTINGS
from tests.conftest import PROJECT
from tests.support.daemon_process import Cli, launcher

SUBCOMMANDS = (
    "daemon start", "daemon logs", "daemon service install", "daemon service uninstall", "daemon service status",
    "mcp install", "index vectors export", "index vectors import", "roots add", "index migrate", "index claim",
    "agents connect", "agents snippet",
)  # fmt: skip
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names a file of the project; in code there are none."""
    targets = re.findall(r"\]\((?!https?:)([^)#\s]+)", re.sub(r"`[^`\n]+`", "", page.read_text()))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_tests_named_in_guarantees_exist() -> None:
    """A promise names the test that would fail; the test must be there."""
    named = set(re.findall(r"`((?:\w+/)?test_\w+\.py)`", (PROJECT / "docs" / "guarantees.md").read_text()))
    assert named
    assert {name for name in named if not (PROJECT / "tests" / name).exists()} == set()


@pytest.mark.slow
def test_readme_python_example_runs() -> None:
    """As printed, from the project's folder, with the real model."""
    (code,) = re.findall(r"```python\n(.*?)```", (PROJECT / "README.md").read_text(), re.DOTALL)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "decisions/one-text-at-a-time.md" in done.stdout


@pytest.mark.slow
def test_python_reference_runs_from_the_first_example_to_the_last(tmp_path: Path) -> None:
    """With the real model, on the project's own notes."""
    shutil.copytree(PROJECT / "memory-files", tmp_path / "notes")
    code = "\n".join(re.findall(r"```python\n(.*?)```", (PROJECT / "docs" / "code.md").read_text(), re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_python_reference_names_every_method() -> None:
    """A method that is not there is not found; `get`, `sync`, `status`, `rebuild` and `verify` have no parentheses."""
    page = (PROJECT / "docs" / "code.md").read_text()
    assert [name for name in OPERATIONS if not re.search(rf"`{name}[(`]|memory\.{name}\(", page)] == []


def test_generated_reference_is_that_of_the_declarations() -> None:
    """`make reference` writes it."""
    from tools import reference

    assert [path.name for path, content in reference.files().items() if path.read_text() != content] == []


def _commands() -> set[str]:
    """Return the path of every command that is not in a group written by hand."""
    modules = {module for words in COMMANDS.values() for modules in words.values() for module in modules}
    return {path for module in modules for path in commands_in(importlib.import_module(f"memsync.{module}"))}


def test_documented_commands_and_options_exist(cli: Cli) -> None:
    """Each option named in README and search.md is one that `--help` knows."""
    text = "\n".join(page.read_text() for page in PAGES)
    helped = [cli(*name.split(), "--help") for name in {*_commands(), *SUBCOMMANDS}]
    assert {done.returncode for done in helped} == {0}
    help_text = "".join(done.stdout for done in helped)
    named = set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", text))
    top = {"root", "config", "help", "version", "color"}
    elsewhere = {"data", "chunks", "state"}  # of the benchmarks
    assert {name for name in named - top - elsewhere if f"--{name}" not in help_text} == set()


def test_every_filter_is_documented_and_every_exit_code_is_in_troubleshooting() -> None:
    """The reference is complete."""
    search = (PROJECT / "docs" / "search.md").read_text()
    assert [name for name in FILTERS if f"`{name}:" not in search] == []
    troubleshooting = (PROJECT / "docs" / "troubleshooting.md").read_text()
    codes = {
        error.exit_code for error in vars(errors).values() if isinstance(error, type) and hasattr(error, "exit_code")
    }
    rows = re.findall(r"^\| ([\d, ]+) \|", troubleshooting, re.MULTILINE)
    assert codes - {10} <= {int(code) for row in rows for code in row.split(",")}


def test_every_setting_is_documented_and_those_that_need_trust_have_a_star() -> None:
    """The connection string has a rule of its own."""
    page = (PROJECT / "docs" / "configuration.md").read_text().partition("## Settings")[2].partition("\n## ")[0]
    stars = dict(re.findall(r"`([a-z]+\.\w+)`(\*?)", page))
    assert stars.keys() == {setting.name for setting in SETTINGS}
    needing = {setting.name for setting in SETTINGS} - HARMLESS - {DSN}
    assert {name for name, star in stars.items() if star} == needing


@pytest.mark.slow
def test_demo_runs_and_finds(tmp_path: Path) -> None:
    """`make demo`'s three searches each find what they were chosen for."""
    program = launcher(tmp_path / "bin")
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    command = ["sh", str(PROJECT / "tools" / "demo.sh")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    for expected in ("daily/2026-11-19.md:11", "lessons/vec0-stores-nan.md", "daily/2026-11-19.md:13"):
        assert expected in done.stdout
    assert float(re.findall(r" · (\d\.\d\d)$", done.stdout, re.MULTILINE)[0]) >= 0.8


def test_rooms_are_those_of_the_package_at_the_levels_of_the_import_contract() -> None:
    """docs/design.md names each module and folder of memsync/ once, with the level that pyproject.toml gives it."""
    (rooms,) = re.findall(r"## Rooms\n.*?```\n(.*?)```", (PROJECT / "docs" / "design.md").read_text(), re.DOTALL)
    listed = re.findall(r"^ *(\d+) (\w+) ", rooms, re.MULTILINE)
    contract, _ = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = enumerate(reversed(contract["layers"]), start=1)
    assert sorted(listed) == sorted(
        (str(level), room) for level, layer in layers for room in re.findall(r"\.(\w+)", layer)
    )
    folders = {path.parent.name for path in (PROJECT / "memsync").glob("*/__init__.py")}
    modules = {path.stem for path in (PROJECT / "memsync").glob("*.py")} - {"__init__"}
    assert {room for _, room in listed} == folders | modules
