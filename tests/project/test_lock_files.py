"""The project installs only what its lock files name, and the lock files follow pyproject.toml."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.conftest import PROJECT
from tools.lock import FRAMEWORKS

LOCKS = ("requirements.txt", "requirements-dev.txt", "tools/docs.txt", "tools/uv.txt")
PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[0-9a-z.]+)( ; [a-z0-9_.<>='() !A-Z]+)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def pins(lock: str) -> dict[str, list[str]]:
    """Return the versions that a lock file names for each package."""
    found: dict[str, list[str]] = {}
    for line in (PROJECT / lock).read_text().splitlines():
        if match := PIN.fullmatch(line):
            found.setdefault(match["name"], []).append(match["version"])
    return found


def check(project: Path) -> subprocess.CompletedProcess[str]:
    """Run the comparison of pyproject.toml with the lock files in a copy of the project's files."""
    command = [sys.executable, str(project / "tools" / "lock.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Copy what the comparison reads."""
    (tmp_path / "tools").mkdir()
    for name in ("pyproject.toml", "tools/lock.py", *LOCKS):
        shutil.copy(PROJECT / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_file_holds_pins_with_hashes_and_nothing_else(lock: str) -> None:
    """Neither an address to install from nor a path nor any other option; source packages are refused."""
    lines = [line for line in (PROJECT / lock).read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "--only-binary :all:"
    kinds = "".join("p" if PIN.fullmatch(line) else "h" if HASH.fullmatch(line) else "?" for line in lines[1:])
    assert re.fullmatch(r"(ph+)+", kinds), [line for line, kind in zip(lines[1:], kinds, strict=True) if kind == "?"]


def test_lock_files_are_made_from_pyproject() -> None:
    """A dependency that is added without renewing them would be missing on a fresh machine."""
    done = check(PROJECT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_pins_are_within_the_ranges_that_users_install() -> None:
    """What is tested must be something that `pip install .` may choose."""
    pyproject = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    optional = pyproject["project"]["optional-dependencies"]
    extras = [one for name, extra in optional.items() if name not in ("all", *FRAMEWORKS) for one in extra]
    wanted = [*pyproject["project"]["dependencies"], *pyproject["build-system"]["requires"], *extras]
    locked = pins("requirements-dev.txt")
    for requirement in map(Requirement, wanted):
        versions = locked[requirement.name.lower()]
        assert [version for version in versions if version not in requirement.specifier] == [], requirement


def test_one_version_runs_in_use_and_in_tests() -> None:
    """`make demo` and `make test` install the same versions of what both need."""
    tested = pins("requirements-dev.txt")
    assert {name: tested.get(name) for name in pins("requirements.txt")} == pins("requirements.txt")


@pytest.mark.parametrize(
    ("old", "new", "complaints"),
    [
        ('    "click>=8.2",\n', '    "click>=8.2",\n    "ijson>=3",\n', {"requirements.txt was made without ijson>=3"}),
        ('    "click>=8.2",\n', "", {"requirements.txt was made with click>=8.2, which is gone"}),
        (
            '"click>=8.2"',
            '"click>=8.3"',
            {
                "requirements.txt was made without click>=8.3",
                "requirements.txt was made with click>=8.2, which is gone",
            },
        ),
        ('["hatchling>=1.25"]', '["hatchling>=1.26"]', {"requirements.txt was made without hatchling>=1.26"}),
        ('    "pytest>=8.3",\n', '    "pytest>=8.4",\n', {"requirements-dev.txt was made without pytest>=8.4"}),
        ('"uv==0.13.9"', '"uv==0.13.10"', {"tools/uv.txt was made without uv==0.13.10"}),
    ],
    ids=["added", "removed", "range", "build-backend", "dev", "tools"],
)
def test_a_change_of_dependencies_without_new_lock_files_is_named(
    project: Path, old: str, new: str, complaints: set[str]
) -> None:
    """Without network, with the command that renews them."""
    pyproject = project / "pyproject.toml"
    text = pyproject.read_text()
    assert text.count(old) == 1
    pyproject.write_text(text.replace(old, new))
    done = check(project)
    *problems, advice = done.stderr.splitlines()
    assert (done.returncode, done.stdout, advice) == (1, "", "Run: make lock")
    assert complaints <= {problem.removeprefix("pyproject.toml has changed: ") for problem in problems}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_file_that_is_missing_is_named(project: Path, lock: str) -> None:
    """As one that was made from nothing."""
    (project / lock).unlink()
    done = check(project)
    assert done.returncode == 1
    assert f"{lock} was made without " in done.stderr


def test_make_installs_nothing_but_what_is_locked() -> None:
    """Every installation compares hashes, or has no network to fetch from; the lock files are compared first."""
    of_make = ("MAKE", "VENV", "PYTHON")  # and what the make that runs these tests was given
    environment = {name: value for name, value in os.environ.items() if not name.startswith(of_make)}
    command = ["make", "--dry-run", "--always-make", ".venv/.installed-dev"]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    installations = [line for line in lines if "pip install" in line]
    assert len(installations) == 3
    assert lines[0].endswith("tools/lock.py --check")
    for line in installations:
        assert "--no-deps" in line
        assert len({"--require-hashes", "--no-index"} & set(line.split())) == 1
