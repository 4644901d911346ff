"""What is built of a commit: a pure wheel and an sdist, the same bytes each time, that name the commit."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.conftest import PROJECT

MAX_BYTES = 40_000_000


def built(source: Path, folder: Path) -> list[Path]:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=120)
    return sorted(folder.iterdir())


@pytest.mark.skipif(not (PROJECT / ".git").exists(), reason="needs a checkout of git")
@pytest.mark.slow
def test_wheel_and_sdist_are_the_same_bytes_and_name_their_commit(tmp_path: Path) -> None:
    """From a checkout and from the sdist, which has no git; the installed command prints it."""
    source = tmp_path / "source"
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null"]
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=False)
    for name in filter(None, listed.stdout.split("\0")):
        if (PROJECT / name).is_file():
            (place := source / name).parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes((PROJECT / name).read_bytes())
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *arguments], cwd=source, check=True, capture_output=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], cwd=source, check=True, capture_output=True, text=True).stdout
    (wheel, sdist), again = built(source, tmp_path / "one"), built(source, tmp_path / "two")
    assert [each.read_bytes() for each in again] == [wheel.read_bytes(), sdist.read_bytes()]
    assert wheel.name.endswith("-py3-none-any.whl") and wheel.stat().st_size < MAX_BYTES
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (of_sdist,) = built(tmp_path / sdist.name.removesuffix(".tar.gz"), tmp_path / "three")[:1]
    for number, each in enumerate((wheel, of_sdist)):
        zipfile.ZipFile(each).extractall(place := tmp_path / f"installed{number}")
        command = [sys.executable, "-P", "-m", "memsync", "--version"]
        environ = {**os.environ, "PYTHONPATH": str(place)}
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
        assert done.stdout.strip().endswith(f"commit {commit[:12]}")
