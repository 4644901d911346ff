"""The project of a folder is git's origin, without the ways in which it can be written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from memsync.agents.project import project_of


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/ada/boat.git",
        "https://ada:secret@GitHub.com/ada/boat",
        "git@github.com:ada/boat.git",
        "ssh://git@github.com:22/ada/boat.git/",
    ],
)
def test_clones_of_one_origin_are_one_project(url: str, tmp_path: Path) -> None:
    """Also from a folder within, and from a worktree."""
    run(tmp_path, "init", "-q", "clone")
    clone = tmp_path / "clone"
    run(clone, "remote", "add", "upstream", "https://example.org/other")
    run(clone, "remote", "add", "origin", url)
    run(clone, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "begun")
    run(clone, "worktree", "add", "-q", "../beside")
    (clone / "src").mkdir()
    for folder in (clone, clone / "src", tmp_path / "beside"):
        assert project_of(str(folder)) == "github.com/ada/boat"


def test_without_an_origin_the_folder_names_the_project(tmp_path: Path) -> None:
    """The top of the repository, if there is one; a folder that does not exist is its own project."""
    run(tmp_path, "init", "-q", "local")
    (tmp_path / "local" / "src").mkdir()
    assert project_of(str(tmp_path / "local" / "src")) == str(tmp_path / "local")
    assert project_of(str(tmp_path / "gone")) == str(tmp_path / "gone")


def run(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)
