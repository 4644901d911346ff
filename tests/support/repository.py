"""Git repositories of tests, with commits at given moments, of each sort that people have."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

SPRING, SUMMER, AUTUMN = 1_699_956_000, 1_720_000_800, 1_739_959_200
"""Moments in seconds since 1970, all long before any test runs, at 10:00 UTC: one day in nearly all zones."""

_PATH = os.environ["PATH"]
"""Where git is: a test may hide it from memsync."""


class Repository:
    """A repository in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *arguments: str, at: int = SPRING, check: bool = True) -> str:
        """Run git at a moment, as somebody who has configured nothing."""
        environ = {
            "PATH": _PATH,
            "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_COMMITTER_DATE": f"{at} +0000",
            "GIT_AUTHOR_DATE": f"{SPRING} +0000",
        }
        options = ["-c", "user.name=A", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
        options += ["-c", "protocol.file.allow=always", "-c", "gc.auto=0"]
        command = ["git", *options, *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=environ, capture_output=True, text=True, check=check
        ).stdout.strip()

    def commit(self, at: int) -> None:
        """Commit everything as it is."""
        self.git("add", "-A")
        self.git("commit", "-qm", "x", "--allow-empty", at=at)


SORTS = ("subfolder", "worktree", "submodule", "sha256", "packed")


def repository_of(sort: str, folder: Path, texts: Mapping[int, str]) -> Path:
    """Commit `a.md` with each of these texts, by moment; return the root, whose last note says so and where it is.

    The sorts: the root is a folder of the repository, a second working tree or a submodule; its objects have longer
    names; its objects and references are packed. `{}` in a text becomes the name of the folder: "outer" or "in ner".
    """
    outer = Repository(folder / "outer")
    inner = outer.folder / "in ner"
    inner.mkdir(parents=True)
    outer.git("init", "-q", *(["--object-format=sha256"] if sort == "sha256" else []))
    for at, text in texts.items():
        for place in (outer.folder, inner):
            (place / "a.md").write_text(text.format(place.name))
        outer.commit(at)
    if sort == "worktree":
        outer.git("worktree", "add", "-q", str(folder / "second"))
        return folder / "second"
    if sort == "submodule":
        (above := Repository(folder / "super")).folder.mkdir()
        above.git("init", "-q")
        above.git("submodule", "--quiet", "add", str(outer.folder), "sub")
        return above.folder / "sub"
    if sort == "packed":
        outer.git("gc", "-q")
    return inner if sort == "subfolder" else outer.folder
