"""Commits of one note and nothing else, made of git's plumbing, so that no program of anybody's runs on the way.

No filter, no hook, no signature: git is run as in `memsync.notes.git`. What would need one of them is not committed.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from memsync.model.vocabulary import NotePath
from memsync.notes.git import Git, check_rule_files, open_git, use_identity
from memsync.notes.git_files import GitUnusable, Repository, branch_of, find_repository, read_file, state_of

GIT_SECONDS = 30.0
MAX_INDEX_BYTES = 1_000_000_000
_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "BISECT_LOG": "a bisection",
}
_PATHS = ("-z", "--stdin")
_NO_IDENTITY = "identity unknown"


def commit(root: Path, path: NotePath, message: str) -> tuple[str, str]:
    """Commit one note as it stands; return the commit's name and, when there is none, why.

    What the person has staged stays staged and out of the commit. A note of which something is staged is not
    committed: its staged version would seem to take back what was written.
    """
    return _guarded(lambda: _commit(root, [path], path, message))


def commit_moves(root: Path, moves: Sequence[tuple[NotePath, NotePath]], message: str) -> tuple[str, str]:
    """Commit notes that have moved, each as (from, to), as `commit` does."""
    paths = list(dict.fromkeys(path for move in moves for path in move))
    return _guarded(lambda: _commit(root, paths, "what was moved", message)) if moves else ("", "")


def _guarded(act: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    try:
        return act()
    except GitUnusable as error:
        return "", f"not committed: {error}"
    except OSError as error:
        return "", f"not committed: {error.strerror or error}"


def _commit(root: Path, paths: Sequence[str], what: str, message: str) -> tuple[str, str]:
    """Commit notes that are there, and that are not there any more, and nothing else."""
    repository = find_repository(root)
    if repository is None:
        raise GitUnusable(f"{root} is in no git repository")
    prefix = os.path.relpath(os.path.realpath(root), repository.work_tree)
    named = [os.path.normpath(os.path.join(prefix, path)) for path in paths]
    _check_at_rest(repository)
    state_of(repository)  # refuses a HEAD that git would wait for, or that only a later git understands
    _check_places(repository)
    with open_git(repository, GIT_SECONDS) as git:
        use_identity(git)
        check_rule_files(git, named)
        with _locked_index(git) as index:
            return _commit_locked(git, index, named, what, message)


def _commit_locked(git: Git, index: _Index, paths: Sequence[str], what: str, message: str) -> tuple[str, str]:
    """Commit while the person's index is locked; `index` takes its place once HEAD has moved."""
    head = git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}").stdout.strip()
    base = head or _done(git, "hash-object", "-t", "tree", "--stdin")  # the empty tree
    if _differing(git, index.copy, base, paths):
        raise GitUnusable(f"you have staged changes of {what}")
    tracked = set(_listed(git, index.copy))
    there = [path for path in paths if _is_file(git, path)]
    _check_rules(git, [path for path in there if path not in tracked], there)
    gone = [path for path in paths if path in tracked and path not in there]
    tree_index = f"{git.folder}/tree"
    _done(git, "read-tree", base, index=tree_index)
    for one in (tree_index, index.copy):
        _done(git, "update-index", "--add", *_PATHS, given="\0".join(there), index=one, at_notes=True)
        _done(git, "update-index", "--force-remove", *_PATHS, given="\0".join(gone), index=one, at_notes=True)
    tree = _done(git, "write-tree", "--missing-ok", index=tree_index)
    if head and tree == _done(git, "rev-parse", f"{head}^{{tree}}"):
        return "", ""  # there is nothing to commit: what was moved away came back
    if _differing(git, index.copy, tree, paths):
        raise GitUnusable(f"git's index keeps its own version of {what}")  # `git update-index --skip-worktree`
    made = _done(git, "commit-tree", tree, *(("-p", head) if head else ()), given=f"{message}\n")
    _done(git, "update-ref", "-m", f"commit: {message}", "HEAD", made, head or "0" * len(made))
    index.replace()
    return made, ""


def _done(git: Git, *arguments: str, given: str = "", index: str = "", at_notes: bool = False) -> str:
    """Run a command that must not fail, and return what it printed. Raises GitUnusable with git's own reason."""
    done = git.run(*arguments, given=given, index=index, at_notes=at_notes)
    if done.returncode != 0:
        reasons = (done.stderr or done.stdout).strip().splitlines()
        reason = reasons[0] if reasons else f"git {arguments[0]} failed"
        if reason.endswith(_NO_IDENTITY):
            reason += ". Set user.name and user.email with git config --global; the repository's own do not count."
        raise GitUnusable(reason)
    return done.stdout.strip()


def _differing(git: Git, index: str, tree: str, paths: Sequence[str]) -> bool:
    """Tell whether an index has another version of one of these paths than a tree."""
    options = ("--cached", "--ita-invisible-in-index", "--no-ext-diff", "--no-renames", "--name-only", "-z")
    listed = _done(git, "diff-index", *options, tree, index=index)
    return not set(listed.split("\0")).isdisjoint(paths)


def _listed(git: Git, index: str) -> list[str]:
    """Return the paths that an index has."""
    return _done(git, "ls-files", "-z", index=index).split("\0")


def _is_file(git: Git, path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(os.path.join(git.repository.work_tree, path)).st_mode)
    except OSError:
        return False


# ---------------------------------------------------------------------------------------- what is refused


def _check_at_rest(repository: Repository) -> None:
    for name, what in _UNDER_WAY.items():
        if os.path.lexists(f"{repository.git_dir}/{name}"):
            raise GitUnusable(f"{what} is under way")


def _check_places(repository: Repository) -> None:
    """Refuse to write unless only the repository's own folders and regular files are where git writes.

    git follows links, and waits for a FIFO. Raises GitUnusable, also while another git has locked HEAD or its branch.
    """
    own, shared = repository.git_dir, repository.common_dir
    branch = branch_of(repository)
    files = [(own, "HEAD"), (own, "index"), (own, "logs/HEAD"), (shared, "packed-refs")]
    files += [(shared, branch), (shared, f"logs/{branch}")] if branch else []
    for base, name in files:
        _check_way(base, os.path.dirname(name))
        _check_place(f"{base}/{name}", stat.S_ISREG, "regular file")
    for name in ("refs", "logs", "objects"):
        _check_way(shared, name)
    with os.scandir(f"{shared}/objects") as entries:
        for entry in entries:
            if not entry.is_file(follow_symlinks=False):
                _check_place(entry.path, stat.S_ISDIR, "folder")
    for lock in (f"{own}/HEAD.lock", *([f"{shared}/{branch}.lock"] if branch else [])):
        if os.path.lexists(lock):
            raise GitUnusable(f"another git is at work: {lock} is there")


def _check_way(base: str, name: str) -> None:
    """Refuse a path unless each part of it, as far as it exists, is a folder and no link to one."""
    parts = name.split("/")
    for depth in range(1, len(parts) + 1):
        _check_place("/".join((base, *parts[:depth])), stat.S_ISDIR, "folder")


def _check_place(path: str, is_expected: Callable[[int], bool], expected: str) -> None:
    with suppress(FileNotFoundError):
        if not is_expected(os.lstat(path).st_mode):
            raise GitUnusable(f"{path} is not a {expected}")


def _check_rules(git: Git, new: Sequence[str], paths: Sequence[str]) -> None:
    """Refuse new notes that are ignored, and notes that a program would have to transform first."""
    if new:
        given = "\0".join(f"./{path}" for path in new)  # what begins with a colon would be more than a path
        ignored = git.run("check-ignore", *_PATHS, given=given, at_notes=True)
        if ignored.returncode != 1:
            path = ignored.stdout.split("\0")[0].removeprefix("./")
            raise GitUnusable(f"{path} is ignored by git" if path else "git cannot tell what it ignores")
    attributes = ("filter", "working-tree-encoding")
    listed = _done(git, "check-attr", *_PATHS, *attributes, given="\0".join(paths), at_notes=True).split("\0")
    for path, name, value in zip(listed[0::3], listed[1::3], listed[2::3], strict=False):
        if value not in ("unspecified", "unset"):
            raise GitUnusable(f"{name}={value} applies to {path}, and memsync runs no filter: commit it yourself")


# --------------------------------------------------------------------------------------------- the index


class _Index:
    """A copy of the person's index, which may take its place as long as its lock is held."""

    def __init__(self, git: Git) -> None:
        self._index = f"{git.repository.git_dir}/index"
        self.lock = f"{self._index}.lock"
        self.copy = f"{git.folder}/index"
        self.is_replaced = False
        with suppress(FileNotFoundError):  # nothing was ever added
            Path(self.copy).write_bytes(read_file(self._index, MAX_INDEX_BYTES))
            shutil.copymode(self._index, self.lock)

    def replace(self) -> None:
        """Let the copy take the index's place, in one step.

        Its time is kept: by it git tells which notes may have been written again in the tick in which it looked.
        """
        with open(self.copy, "rb") as source, open(self.lock, "wb") as target:
            shutil.copyfileobj(source, target)
            target.flush()
            found = os.fstat(source.fileno())
            os.utime(target.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))
            os.fsync(target.fileno())
        os.rename(self.lock, self._index)
        self.is_replaced = True


@contextmanager
def _locked_index(git: Git) -> Iterator[_Index]:
    """Keep every other git from changing the index, as git does it. Raises GitUnusable while another one does."""
    lock = f"{git.repository.git_dir}/index.lock"
    try:
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except FileExistsError as error:
        raise GitUnusable(f"another git is at work: {lock} is there") from error
    os.close(descriptor)
    index = None
    try:
        index = _Index(git)
        yield index
    finally:
        if index is None or not index.is_replaced:
            with suppress(FileNotFoundError):
                os.unlink(lock)
