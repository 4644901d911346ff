"""Real git in the memory root, by the commands people use."""

from __future__ import annotations

import os
import subprocess

from tests.convergence.tree import Tree

ENVIRONMENT = {
    "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_DATE": "2026-11-21T10:00:00Z", "GIT_COMMITTER_DATE": "2026-11-21T10:00:00Z", "GIT_OPTIONAL_LOCKS": "0",
}  # fmt: skip
SETTINGS = ("user.name=a", "user.email=a@b", "gc.auto=0", "core.fsync=none", "init.defaultBranch=main")


class Repository:
    """The repository of one memory root, begun at the first command."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._began = False

    def commit(self) -> None:
        self._git("add", "-A")
        self._git("commit", "-qm", "a")

    def checkout(self, branch: str) -> None:
        """Go to a branch, whatever local changes there are; one that is not there yet begins here."""
        if not self._git("checkout", "-qf", branch):
            self._git("checkout", "-qb", branch)

    def merge(self, branch: str) -> None:
        """Merge a branch; a conflict leaves its markers, and the merge open."""
        self._git("merge", "-q", "--no-edit", branch)

    def stash(self) -> None:
        self._git("stash", "-qu")

    def unstash(self) -> None:
        self._git("stash", "pop", "-q")

    def reset(self) -> None:
        self._git("reset", "-q", "--hard")

    def _git(self, *arguments: str) -> bool:
        """Run a command as one change of the files; return whether it succeeded."""
        options = [part for setting in SETTINGS for part in ("-c", setting)]
        results = []
        with self._tree.change():
            if not self._began:
                self._began = True
                self._run("git", *options, "init", "-q")
            results.append(self._run("git", *options, *arguments))
        return any(results)

    def _run(self, *command: str) -> bool:
        done = subprocess.run(
            command, cwd=self._tree.root, env=ENVIRONMENT, capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
        return done.returncode == 0
