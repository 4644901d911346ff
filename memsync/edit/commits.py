"""Commits notes, and nothing else, with git's plumbing commands, so that git starts no other program.

No filter, hook or signature runs: git is called as in `memsync.notes.git`. A note that needs one is not committed.
"""

from __future__ import annotations

import os
import platform
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from memsync.model.text import quoted
from memsync.model.vocabulary import NotePath
from memsync.notes.git import Git, check_rule_files, open_git, use_identity
from memsync.notes.git_files import (
    GitUnusable,
    Repository,
    branch_of,
    find_repository,
    history_name,
    read_file,
    reason_of,
)

GIT_SECONDS = 30.0
MAX_INDEX_BYTES = 1_000_000_000
MAX_HOLDER_BYTES = 1_000
_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "BISECT_LOG": "a bisection",
}
_COMMITTING = "refs/memsync/committing"
"""The commit that HEAD has, and the index perhaps not yet: a process that was killed there staged nothing."""
_PATHS = ("-z", "--stdin")
_NO_IDENTITY = "identity unknown"


def commit(root: Path, paths: Sequence[NotePath], message: str) -> tuple[str, str]:
    """Commit notes as they are on disk or deleted. Returns (commit name, reason why there is none); one is empty.

    Staged changes of other files stay staged and out of the commit. A note with staged changes is not committed,
    because its staged version would then seem to revert the commit.
    """
    try:
        return _commit(root, list(dict.fromkeys(paths)), paths[0] if len(paths) == 1 else "these notes", message)
    except (GitUnusable, OSError) as error:
        return "", f"not committed: {reason_of(error)}"


def _commit(root: Path, paths: Sequence[str], what: str, message: str) -> tuple[str, str]:
    """Commit the current state of some notes, existing or deleted; `what` names them in messages."""
    repository = find_repository(root)
    if repository is None:
        raise GitUnusable(f"{root} is not in a git repository")
    prefix = os.path.relpath(os.path.realpath(root), repository.work_tree)
    named = [os.path.normpath(os.path.join(prefix, path)) for path in paths]
    check_idle(repository)
    history_name(repository)  # raises GitUnusable for a HEAD on which git would hang, or that needs a newer git
    _check_places(repository)
    with open_git(repository, GIT_SECONDS) as git:
        use_identity(git)
        check_rule_files(git, named)
        with locked_index(git) as index:
            head = commit_named(git, "HEAD")
            was_killed = bool(head) and head == commit_named(git, _COMMITTING)
            if was_killed:  # bring the index from the commit before to it, and keep what is staged
                before = commit_named(git, f"{head}~1") or empty_tree(git)
                output(git, "read-tree", "-i", "-m", before, head, index=index.copy)
            made = _commit_locked(git, index.copy, named, what, message)
            if made or was_killed:
                index.keep()
                git.run("update-ref", "-d", _COMMITTING)
        return made, ""


class LockedIndex:
    """A copy of git's index, for which the lock file is held; `keep` lets it replace the index."""

    def __init__(self, index: str, copy: str) -> None:
        self.copy = copy
        self._index, self._lock = index, f"{index}.lock"
        self._is_kept = False
        if _is_left(self._lock):
            Path(self._lock).unlink(missing_ok=True)
        try:
            descriptor = os.open(self._lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except FileExistsError as error:
            raise GitUnusable(f"another git is at work: {self._lock} is there. If none is, delete that file") from error
        try:
            with open(descriptor, "wb") as file:
                file.write(_holder(os.getpid()))
        except OSError:  # the disk is full: an empty lock file would stop every git
            os.unlink(self._lock)
            raise

    def read(self) -> None:
        """Copy the index, with its time, by which git knows what may have changed in the same tick."""
        with suppress(FileNotFoundError):  # a new repository has none
            status = os.stat(self._index, follow_symlinks=False)
            Path(self.copy).write_bytes(read_file(self._index, MAX_INDEX_BYTES))
            os.utime(self.copy, ns=(status.st_atime_ns, status.st_mtime_ns))
            shutil.copymode(self._index, self._lock)

    def keep(self) -> None:
        """Replace the index by the copy."""
        _write_lock(self.copy, self._lock)
        os.rename(self._lock, self._index)
        self._is_kept = True  # the lock file is the index now; a new one would be another git's

    def unlock(self) -> None:
        """Delete the lock file, unless it has become the index."""
        if not self._is_kept:
            Path(self._lock).unlink(missing_ok=True)


def _holder(process: int) -> bytes:
    """Return what a lock file of ours has in it."""
    return f"memsync {process} on {platform.node()}\n".encode()


def _is_left(lock: str) -> bool:
    """Tell whether a process of ours made a lock file and was killed: nothing else would ever delete it."""
    with suppress(OSError, GitUnusable, ValueError, LookupError):
        process = int((content := read_file(lock, MAX_HOLDER_BYTES)).split()[1])
        if content == _holder(process):
            try:
                os.kill(process, 0)
            except ProcessLookupError:
                return True
    return False


@contextmanager
def locked_index(git: Git) -> Iterator[LockedIndex]:
    """Yield a copy of the index while no other git may change it. Raises GitUnusable."""
    index = LockedIndex(f"{git.repository.git_dir}/index", f"{git.folder}/index")
    try:
        index.read()
        yield index
    finally:
        index.unlock()


def check_idle(repository: Repository) -> None:
    """Raise GitUnusable if a merge or the like is under way."""
    for name, operation in _UNDER_WAY.items():
        if os.path.lexists(f"{repository.git_dir}/{name}"):
            raise GitUnusable(f"{operation} is under way")


def _commit_locked(git: Git, index: str, paths: Sequence[str], what: str, message: str) -> str:
    """Commit while the user's index is locked; `index` is a copy, which must replace it after HEAD has moved.

    Returns the commit's name; empty if there is nothing to commit, as when notes were moved and moved back.
    """
    head = commit_named(git, "HEAD")
    base = head or empty_tree(git)
    if _differing(git, index, base, paths):
        raise GitUnusable(f"you have staged changes of {what}")
    tracked = set(output(git, "ls-files", "-z", index=index).split("\0"))
    places = {path: os.path.join(git.repository.work_tree, path) for path in paths}
    existing = [path for path, place in places.items() if os.path.isfile(place) and not os.path.islink(place)]
    _check_rules(git, [path for path in existing if path not in tracked], existing)
    deleted = [path for path in paths if path in tracked and path not in existing]
    tree_index = f"{git.folder}/tree"
    output(git, "read-tree", base, index=tree_index)
    for file in (tree_index, index):  # deletions first: a folder may have taken the place of a file
        output(git, "update-index", "--force-remove", *_PATHS, given="\0".join(deleted), index=file, at_notes=True)
        output(git, "update-index", "--add", *_PATHS, given="\0".join(existing), index=file, at_notes=True)
    tree = output(git, "write-tree", "--missing-ok", index=tree_index)
    if head and tree == output(git, "rev-parse", f"{head}^{{tree}}"):
        return ""
    if _differing(git, index, tree, paths):
        raise GitUnusable(f"git's index keeps its own version of {what}")  # `git update-index --skip-worktree`
    made = committed(git, tree, message, head)
    output(git, "update-ref", _COMMITTING, made)
    output(git, "update-ref", "-m", f"commit: {message}", "HEAD", made, head or "0" * len(made))
    return made


def output(git: Git, *arguments: str, given: str = "", index: str = "", at_notes: bool = False) -> str:
    """Run git and return its output. Raises GitUnusable with git's reason if the command fails."""
    done = git.run(*arguments, given=given, index=index, at_notes=at_notes)
    if done.returncode != 0:
        reasons = (done.stderr or done.stdout).strip().splitlines()
        reason = quoted(reasons[0], 200) if reasons else f"git {arguments[0]} failed"
        if reason.strip('"').endswith(_NO_IDENTITY):
            reason += ". Set user.name and user.email with git config --global; memsync ignores the repository's own."
        raise GitUnusable(reason)
    return done.stdout.strip()


def commit_named(git: Git, name: str) -> str:
    """Return the commit of a reference or a revision; empty if there is none."""
    return git.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").stdout.strip()


def empty_tree(git: Git) -> str:
    """Return git's name of a tree without files."""
    return output(git, "hash-object", "-t", "tree", "--stdin")


def committed(git: Git, tree: str, message: str, *parents: str) -> str:
    """Make a commit that no branch has yet, and return its name; an empty parent is none. Raises GitUnusable."""
    options = [option for parent in parents if parent for option in ("-p", parent)]
    return output(git, "commit-tree", tree, *options, given=f"{message}\n")


def _differing(git: Git, index: str, tree: str, paths: Sequence[str]) -> bool:
    """Tell whether an index and a tree have different versions of one of these paths."""
    options = ("--cached", "--ita-invisible-in-index", "--no-ext-diff", "--no-renames", "--name-only", "-z")
    listed = output(git, "diff-index", *options, tree, index=index)
    return not set(listed.split("\0")).isdisjoint(paths)


# ------------------------------------------------------------------------------------------------ checks


def _check_places(repository: Repository) -> None:
    """Raise GitUnusable if git would follow a link or hang on a FIFO, or if another git has locked HEAD or branch."""
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
            raise GitUnusable(f"another git is at work: {lock} is there. If none is, delete that file")


def _check_way(base: str, name: str) -> None:
    """Raise GitUnusable if an existing part of a path is not a folder; a link to a folder is not one."""
    parts = name.split("/")
    for depth in range(1, len(parts) + 1):
        _check_place("/".join((base, *parts[:depth])), stat.S_ISDIR, "folder")


def _check_place(path: str, is_expected: Callable[[int], bool], expected: str) -> None:
    with suppress(FileNotFoundError):
        if not is_expected(os.lstat(path).st_mode):
            raise GitUnusable(f"{path} is not a {expected}")


def _check_rules(git: Git, new: Sequence[str], paths: Sequence[str]) -> None:
    """Raise GitUnusable for new notes that git ignores and for notes that need a filter or another encoding."""
    if held := ignored(git, new):
        raise GitUnusable(f"{min(held)} is ignored by git")
    for path, rule in filtered(git, paths).items():
        raise GitUnusable(f"{rule} applies to {path}, but memsync runs no filters: commit it yourself")


def ignored(git: Git, paths: Sequence[str]) -> set[str]:
    """Return those of these paths that git ignores, unless it has them already. Raises GitUnusable."""
    given = "\0".join(f"./{path}" for path in paths)  # without ./ git would read a leading colon as a pattern
    done = git.run("check-ignore", *_PATHS, given=given, at_notes=True)
    if done.returncode > 1:
        raise GitUnusable("git cannot tell what it ignores")
    return {path.removeprefix("./") for path in done.stdout.split("\0") if path}


def filtered(git: Git, paths: Sequence[str]) -> dict[str, str]:
    """Return the attribute of each path for which git would run a filter or change the encoding. Raises GitUnusable."""
    attributes = ("filter", "working-tree-encoding")
    listed = output(git, "check-attr", *_PATHS, *attributes, given="\0".join(paths), at_notes=True).split("\0")
    return {
        path: f"{name}={quoted(value)}"
        for path, name, value in zip(listed[0::3], listed[1::3], listed[2::3], strict=False)
        if value not in ("unspecified", "unset")
    }


def _write_lock(copy: str, lock: str) -> None:
    """Write a copy of the index into its lock file, with the copy's mtime.

    git compares the index's mtime with those of files, to find what may have changed in the same clock tick.
    """
    with open(copy, "rb") as source, open(lock, "wb") as target:
        shutil.copyfileobj(source, target)
        target.flush()
        status = os.fstat(source.fileno())
        os.utime(target.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(target.fileno())
