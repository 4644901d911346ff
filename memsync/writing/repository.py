"""The git repository that a memory root may lie in: what it did lately, and a commit of one note and nothing else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from memsync.model import NotePath

GIT_SECONDS = 30.0
_IDENTITY = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
_STATE = ("HEAD", "index", "logs/refs/stash")
_NO_PROGRAMS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
"""A repository may have come with a stranger's notes: what its settings name is not run, as far as git allows that."""


def changed_since(root: Path, moment: float) -> bool:
    """Tell whether git has checked out, merged, stashed or committed anything since a Unix time."""
    found = _git_folder(root)
    return found is not None and any(_changed_at(found / name) >= moment for name in _STATE)


def _git_folder(root: Path) -> Path | None:
    for folder in (root, *root.parents):
        found = folder / ".git"
        if found.is_dir():
            return found
        if found.is_file():  # a worktree or a submodule: `gitdir: PATH`
            named = found.read_text(errors="replace").removeprefix("gitdir:").strip()
            return (folder / named) if named else None
    return None


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def commit(root: Path, path: NotePath, message: str) -> tuple[str, str]:
    """Commit one note as it stands; return the commit's name and, when there is none, why.

    What the person has staged stays staged and out of the commit. A note of which something is staged is not
    committed: its staged version would seem to take back what was written.
    """
    return _guarded(lambda: _commit(root, [path], path, message))


def commit_moves(root: Path, moves: Sequence[tuple[NotePath, NotePath]], message: str) -> tuple[str, str]:
    """Commit notes that have moved, each as (from, to), as `commit` does."""

    def act() -> tuple[str, str]:
        known = set(_git(root, "ls-files", "-z").stdout.split("\0"))
        gone = [source for source, _ in moves if source in known]
        return _commit(root, [*(target for _, target in moves), *gone], "what was moved", message)

    return _guarded(act) if moves else ("", "")


def _commit(root: Path, paths: Sequence[str], what: str, message: str) -> tuple[str, str]:
    """Commit notes that are there, and that are not there any more, and nothing else."""
    staged = _git(root, "diff", "--cached", "--name-only", "--relative", "-z")
    if not set(staged.stdout.split("\0")).isdisjoint(paths):
        return "", f"not committed: you have staged changes of {what}"
    listed = ("--pathspec-from-file=-", "--pathspec-file-nul")  # of any length
    tracked = set(_git(root, "ls-files", "-z").stdout.split("\0"))
    new = "\0".join(path for path in paths if path not in tracked)
    added = _git(root, "add", "--intent-to-add", *listed, given=new) if new else staged
    if added.returncode == 0:
        done = _git(root, "commit", "--quiet", "--only", "--no-verify", "-m", message, *listed, given="\0".join(paths))
        if done.returncode == 0:
            return _git(root, "rev-parse", "HEAD").stdout.strip(), ""
        if new:  # the person's index is left as it was
            _git(root, "rm", "--cached", "--quiet", "--ignore-unmatch", *listed, given=new)
        if done.returncode == 1 and not done.stderr.strip():
            return "", ""  # there is nothing to commit: what was moved away came back
        added = done
    reason = (added.stderr or added.stdout).strip().splitlines()
    return "", f"not committed: {reason[0] if reason else 'git failed'}"


def _guarded(act: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    try:
        return act()
    except FileNotFoundError:
        return "", "not committed: there is no git"
    except OSError as error:
        return "", f"not committed: {error.strerror}"
    except subprocess.TimeoutExpired:
        return "", f"not committed: git took over {GIT_SECONDS:.0f} s"


def _git(root: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name in _IDENTITY or not name.startswith("GIT_")}
    command = ["git", *_NO_PROGRAMS, "--literal-pathspecs", *arguments]  # where git is, is the person's choice
    return subprocess.run(  # noqa: S603 (because no shell reads them, and `--` stands before what a person names)
        command,
        cwd=root,
        env={**environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
        input=given,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=GIT_SECONDS,
        check=False,
    )
