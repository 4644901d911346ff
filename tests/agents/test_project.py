"""The project of a folder is its main working tree, and git's origin only joins folders that the user vouched for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from memsync.agents.project import folders_of, project_of
from memsync.model.vocabulary import JsonValue
from memsync.settings.roots import RegisteredRoot, add


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/ada/boat.git",
        "https://ada:secret@GitHub.com/ada/boat",
        "git@github.com:ada/boat.git",
        "ssh://git@github.com:22/ada/boat.git/",
    ],
)
def test_trees_of_a_clone_are_one_project(url: str, tmp_path: Path) -> None:
    """Also a folder within, a linked working tree, and one within that is gone."""
    clone = tmp_path / "clone"
    run(tmp_path, "init", "-q", "clone")
    run(clone, "remote", "add", "upstream", "https://example.org/other")
    run(clone, "remote", "add", "origin", url)
    run(clone, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "begun")
    run(clone, "worktree", "add", "-q", "../beside")
    (clone / "src").mkdir()
    (tmp_path / "beside" / "src").mkdir()
    for folder in (clone, clone / "src", clone / "gone", tmp_path / "beside" / "src"):
        assert project_of(str(folder)) == ("github.com/ada/boat", str(clone))
    assert folders_of(str(tmp_path / "beside" / "src")) == {
        str(place) for place in (tmp_path / "beside" / "src", tmp_path / "beside", clone)
    }


def test_origin_joins_folders_in_which_the_user_registered_a_memory(tmp_path: Path) -> None:
    """Anybody can write one into a folder that he sends, or a `.git` that leads to another repository."""
    for name in ("mine", "sent"):
        run(tmp_path, "init", "-q", name)
        run(tmp_path / name, "remote", "add", "origin", "https://github.com/ada/boat")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / ".git").symlink_to(tmp_path / "mine" / ".git")
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / ".git").write_text(f"gitdir: {tmp_path / 'mine' / '.git'}\n")
    (tmp_path / "mine" / "notes").mkdir()
    add(RegisteredRoot("notes", str(tmp_path / "mine" / "notes")))
    add(RegisteredRoot("all", str(tmp_path)))
    for name in ("mine", "sent", "link", "file"):
        assert filter_of(tmp_path / name) == ("folder", str(tmp_path / name))
    mine, origin = str(tmp_path / "mine"), "github.com/ada/boat"
    facts: dict[str, JsonValue] = {"project": origin, "folder": str(tmp_path / "sent"), "cwd": mine}
    before: dict[str, JsonValue] = {"project": mine, "folder": mine}  # the origin came later
    assert not belongs(tmp_path / "mine", facts)
    assert belongs(tmp_path / "sent", facts)
    assert belongs(tmp_path / "mine", {**facts, "folder": ""})  # as earlier versions wrote it
    assert belongs(tmp_path / "mine", before)
    add(RegisteredRoot("sent", str(tmp_path / "sent")))
    assert filter_of(tmp_path / "mine") == ("project", "github.com/ada/boat")
    assert belongs(tmp_path / "mine", facts) and belongs(tmp_path / "mine", before)
    assert not belongs(tmp_path / "sent", before)


def test_without_an_origin_the_folder_names_the_project(tmp_path: Path) -> None:
    """The top of the repository, if there is one; a folder that does not exist is its own project."""
    run(tmp_path, "init", "-q", "local")
    (tmp_path / "local" / "src").mkdir()
    assert filter_of(tmp_path / "local" / "src") == ("project", str(tmp_path / "local"))
    assert filter_of(tmp_path / "gone") == ("project", str(tmp_path / "gone"))


def filter_of(folder: Path) -> tuple[str, str]:
    return project_of(str(folder)).conversations()[0]


def belongs(folder: Path, facts: dict[str, JsonValue]) -> bool:
    return project_of(str(folder)).conversations()[1](facts)


def run(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)
