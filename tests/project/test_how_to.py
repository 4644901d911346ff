"""The examples that CONTRIBUTING.md names: each still applies, and does what the page says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import PROJECT

PAGE = (PROJECT / "CONTRIBUTING.md").read_text()
FOLDER = PROJECT / "tests" / "project" / "how_to"
DIFFS = {path.name: path.read_text() for path in FOLDER.glob("*.diff")}
MOST_FILES = {"operation.diff": 3, "filter.diff": 3, "backend.diff": 2}

Memsync = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def patched(request: pytest.FixtureRequest, tmp_path: Path) -> Memsync:
    """Apply a diff to a copy of memsync, and give its command in a memory root with two notes."""
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "memsync", tmp_path / "copy" / "memsync", ignore=skipped)
    diff = DIFFS[request.param]
    command = ["git", "apply", "--unidiff-zero", "-"]
    subprocess.run(command, cwd=tmp_path / "copy", input=diff, text=True, check=True)
    root = tmp_path / "notes"
    root.mkdir()
    (root / "a.md").write_text("# The pond\n\nA heron stands there.\n")
    (root / "b.md").write_text("# The town\n\nA heron was seen.\n")
    os.utime(root / "a.md", (1_000_000_000, 1_000_000_000))

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONPATH": str(tmp_path / "copy"), **environ}
        command = [sys.executable, "-P", "-m", "memsync", "--root", str(root), *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)

    return run


def test_each_diff_touches_few_files() -> None:
    """An addition stays small."""
    files = {name: len(re.findall(r"^\+\+\+ b/", diff, re.MULTILINE)) for name, diff in DIFFS.items()}
    assert {name: count <= MOST_FILES[name] for name, count in files.items()} == dict.fromkeys(MOST_FILES, True)


def test_page_names_each_example() -> None:
    """So that an engineer who adds something finds it."""
    assert {path.name for path in FOLDER.iterdir() if path.is_file()} <= set(re.findall(r"`(\w+\.\w+)`", PAGE))


@pytest.mark.parametrize("patched", ["operation.diff"], indirect=True)
def test_added_operation_is_a_command(patched: Memsync) -> None:
    """With its bounds, its help and its result."""
    done = patched("note", "latest", "-n", "1")
    assert (done.stderr, done.stdout.split()[0]) == ("", "b.md")
    assert patched("note", "latest", "-n", "0").returncode == 2
    assert "Print the notes that were written to last" in patched("note", "latest", "--help").stdout


@pytest.mark.parametrize("patched", ["filter.diff"], indirect=True)
def test_added_filter_works_in_a_query_and_as_an_option(patched: Memsync) -> None:
    """Only the notes that it leaves are found."""
    for arguments in (("heron", "title:pond"), ("heron", "--title", "Pond")):
        done = patched("search", "--mode", "keyword", *arguments)
        assert (done.stderr, re.findall(r"^\w\.md", done.stdout, re.MULTILINE)) == ("", ["a.md"])


@pytest.mark.parametrize("patched", ["backend.diff"], indirect=True)
def test_added_backend_keeps_the_index(patched: Memsync) -> None:
    """Named by a setting; any other name is refused."""
    assert patched("search", "heron", "--mode", "keyword", MEMSYNC_INDEX_BACKEND="checked").returncode == 0
    assert patched("search", "heron", MEMSYNC_INDEX_BACKEND="other").returncode == 3


@pytest.fixture
def with_plugins(root: Path, tmp_path: Path) -> Memsync:
    """Give memsync's command in an environment with the package of the examples, laid out as pip installs it."""
    entry_points = (FOLDER / "entry_points.toml").read_text().replace("project.entry-points.", "").replace('"', "")
    packages = tmp_path / "site-packages"
    for path, text in {
        "plugins-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: plugins\nVersion: 1.0\n",
        "plugins-1.0.dist-info/entry_points.txt": entry_points,
        **{path.name: path.read_text() for path in FOLDER.glob("*.py")},
    }.items():
        (packages / path).parent.mkdir(parents=True, exist_ok=True)
        (packages / path).write_text(text)

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONPATH": f"{packages}:{PROJECT}", "MEMSYNC_DAEMON_USE": "false", **environ}
        command = [sys.executable, "-P", "-m", "memsync", "--root", str(root), *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)

    return run


def test_model_of_another_package_embeds(root: Path, with_plugins: Memsync) -> None:
    """Also local-only notes; a package that is broken is named with what to do."""
    (root / "a.md").write_text("A heron stands there.\n")
    model = {"MEMSYNC_EMBEDDER_MODEL": "hashed:256", "MEMSYNC_PRIVACY_LOCAL_ONLY": '["a.md"]'}
    assert with_plugins("sync", **model).returncode == 0
    done = with_plugins("search", "--mode", "vector", "--json", "heron", **model)
    found = json.loads(done.stdout)
    assert [hit["path"] for hit in found["hits"]] == ["a.md"]
    broken = with_plugins("search", "heron", MEMSYNC_EMBEDDER_MODEL="hashed:x")
    assert "the package plugins" in broken.stderr and "pip uninstall plugins" in broken.stderr


def test_agent_of_another_package_is_taken_in(tmp_path: Path, with_plugins: Memsync) -> None:
    """It is listed, and its sessions become threads."""
    home = tmp_path / "notary"
    (home / "sessions").mkdir(parents=True)
    (home / "sessions" / "s1.jsonl").write_text('{"from": "person", "text": "Where does the heron stand?"}\n')
    assert "notary" in with_plugins("agents", NOTARY_HOME=str(home)).stdout
    done = with_plugins("ingest", "notary", NOTARY_HOME=str(home))
    assert "1 new session" in done.stdout
