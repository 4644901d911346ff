"""Find the git repository of a memory root and the commit of its HEAD, by reading plain files.

This does not run git, so that every search can afford it. A stranger's notes may bring a repository: only regular
files of limited size are read, and a `.git` that points elsewhere counts only if the place it points to names it too.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from memsync.model.text import quoted

MAX_LINE_BYTES = 4_096
"""Largest size of a file with one line: HEAD, a reference, or a `.git` that is a file."""
MAX_REFS_BYTES = 64_000_000
MAX_SHALLOW_BYTES = 16_000_000
_MAX_HOPS = 5
_BLOCK_BYTES = 65_536
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OBJECT_NAME = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REFERENCE = re.compile(rb"refs/[^\x00-\x20\x7f~^:?*\[\\]+")
_BRANCH = re.compile(rb"refs/heads(?:/(?!\.)[^\x00-\x20\x7f~^:?*\[\\/]+(?<!\.lock))+")


class GitUnusable(Exception):
    """git cannot be used on this repository; the message gives the reason as a clause."""


def reason_of(error: GitUnusable | OSError) -> str:
    """Return why git cannot be used, as a clause that names the file."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository. `git_dir` has HEAD and the index, `common_dir` the files that its working trees share.

    Both are the `.git` folder of `work_tree`. With `is_linked`, `.git` is a file or a link instead, as in a submodule
    or a second working tree. A bare repository is its own `work_tree`.
    """

    work_tree: str
    git_dir: str
    common_dir: str
    is_linked: bool = False

    @property
    def is_bare(self) -> bool:
        """Whether it has no working tree."""
        return self.git_dir == self.work_tree


@dataclass(frozen=True, slots=True)
class HeadState:
    """Identifies the history of a folder by `name`: equal names give the same dates.

    `name` is empty without a repository or before the first commit. `reason` says why the state cannot be read.
    `folder` is that of the memory root in the working tree, with a slash at its end; empty if it is all of it.
    """

    name: str = ""
    reason: str = ""
    repository: Repository | None = None
    folder: str = ""


def head_state(root: Path) -> HeadState:
    """Return the present state of a memory root's history. Reads a few small files and runs no program."""
    try:
        repository = find_repository(root)
        return state_of(repository, root) if repository is not None else HeadState()
    except (GitUnusable, OSError) as error:
        return HeadState("", reason_of(error))


def state_of(repository: Repository, root: Path, commit: str = "") -> HeadState:
    """Return the state of a memory root's history at a commit (default: HEAD's). Raises GitUnusable, OSError."""
    place = os.path.relpath(os.path.realpath(root), repository.work_tree)
    folder = "" if place == "." else f"{place}/"
    name = history_name(repository, commit)
    return HeadState(f"{name}+{place}" if name and folder else name, "", repository, folder)


def checked_out(root: Path) -> str:
    """Return the branch of git that is checked out in a memory root, or the commit; empty if neither can be read."""
    try:
        repository = find_repository(root)
        head = read_file(os.path.join(repository.git_dir, "HEAD"), MAX_LINE_BYTES) if repository else b""
    except (GitUnusable, OSError):
        return ""
    name = head.strip().removeprefix(b"ref: ")
    is_name = _BRANCH.fullmatch(name) or _OBJECT_NAME.fullmatch(name)  # a stranger may have written anything
    return name.removeprefix(b"refs/heads/").decode("utf-8", "replace") if is_name else ""


def find_repository(root: str | os.PathLike[str]) -> Repository | None:
    """Return the repository whose working tree contains `root`, or None. Raises GitUnusable.

    A bare repository does not count: a stranger's notes may contain one.
    """
    folder = os.path.realpath(root)
    while True:
        place = os.path.join(folder, ".git")
        try:
            mode = os.lstat(place).st_mode
        except OSError:
            mode = 0
        if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            return _linked(folder, place, is_link=stat.S_ISLNK(mode))
        if stat.S_ISDIR(mode) and os.path.lexists(os.path.join(place, "HEAD")):
            if os.path.lexists(os.path.join(place, "commondir")):
                raise GitUnusable(f"{place} belongs to another repository")
            return Repository(folder, place, place)
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def repository_of(root: str | os.PathLike[str]) -> Repository | None:
    """Return the repository with the history of a memory root: the root itself may be a bare one. Raises GitUnusable.

    To read a bare repository does no harm, because git sees nothing that it configures.
    """
    folder = os.path.realpath(root)
    return Repository(folder, folder, folder) if is_bare(root) else find_repository(root)


def is_bare(root: str | os.PathLike[str]) -> bool:
    """Tell whether a memory root is a repository without a working tree, in none."""
    if not all(os.path.lexists(os.path.join(root, name)) for name in ("HEAD", "objects", "refs")):
        return False
    try:
        return find_repository(root) is None
    except GitUnusable:
        return False


def _linked(folder: str, place: str, *, is_link: bool) -> Repository:
    """Return the repository that a `.git` file (`gitdir: PATH`) or symbolic link points to."""
    if is_link:
        git_dir = os.path.realpath(place)
    else:
        line = read_file(place, MAX_LINE_BYTES).rstrip(b"\r\n")
        if not line.startswith(b"gitdir: ") or b"\0" in line:
            raise GitUnusable(f"{place} does not name a repository")
        git_dir = os.path.realpath(os.path.join(folder, os.fsdecode(line[len(b"gitdir: ") :])))
    if not os.path.isdir(git_dir):
        raise GitUnusable(f"{place} points to {quoted(git_dir)}, which is not a folder")
    if not os.path.lexists(os.path.join(git_dir, "commondir")):
        return Repository(folder, git_dir, git_dir, is_linked=True)  # a submodule: its configuration must name `folder`
    common_dir = os.path.realpath(os.path.join(git_dir, _path_in(git_dir, "commondir")))
    back = os.path.join(git_dir, _path_in(git_dir, "gitdir"))
    if os.path.dirname(os.path.dirname(git_dir)) != common_dir or os.path.realpath(back) != os.path.realpath(place):
        raise GitUnusable(f"{place} points to {quoted(git_dir)}, which belongs to another folder")
    return Repository(folder, git_dir, common_dir, is_linked=True)


def _path_in(folder: str, name: str) -> str:
    """Return the path that is the only line of a file, or an empty string if the file is missing."""
    try:
        return os.fsdecode(read_file(os.path.join(folder, name), MAX_LINE_BYTES).rstrip(b"\r\n").replace(b"\0", b""))
    except OSError:
        return ""


def history_name(repository: Repository, commit: str = "") -> str:
    """Return a name of the history that git has; it changes whenever git may give another date. Raises GitUnusable.

    The name is the commit (default: HEAD's), or empty before the first commit. A shallow clone lacks the history before
    certain commits, and may get more of it later: then a digest of the list of these commits follows.
    """
    commit = commit or _resolved(repository)
    try:
        shallow = read_file(os.path.join(repository.common_dir, "shallow"), MAX_SHALLOW_BYTES)
    except FileNotFoundError:
        return commit
    return f"{commit}+{hashlib.sha256(shallow).hexdigest()[:16]}" if commit and shallow else commit


def commit_in(name: str) -> str:
    """Return the commit in the `name` of a HeadState."""
    return name.partition("+")[0]


def _resolved(repository: Repository) -> str:
    """Return the commit that HEAD names; empty if its branch has no commit yet."""
    folder, name = repository.git_dir, b"HEAD"
    for _ in range(_MAX_HOPS):
        try:
            line = read_file(os.path.join(folder, os.fsdecode(name)), MAX_LINE_BYTES).strip()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return _packed(repository, name) if name != b"HEAD" else ""
        if _OBJECT_NAME.fullmatch(line):
            return line.decode()
        folder, name = repository.common_dir, line.removeprefix(b"ref: ").strip()
        if name == b"refs/heads/.invalid":
            raise GitUnusable("it keeps its references in a reftable, which memsync does not read")
        if not _REFERENCE.fullmatch(name) or b".." in name:
            break
    raise GitUnusable("HEAD cannot be read")


def branch_of(repository: Repository) -> str:
    """Return the branch that HEAD names (`refs/heads/...`), or an empty string if HEAD names a commit itself.

    Raises GitUnusable if HEAD names anything else, or if the branch points to another reference: git would write a log
    for each reference in such a chain.
    """
    line = read_file(os.path.join(repository.git_dir, "HEAD"), MAX_LINE_BYTES).rstrip()
    if _OBJECT_NAME.fullmatch(line):
        return ""
    name = line.removeprefix(b"ref: ")
    if name == line or not _BRANCH.fullmatch(name) or b".." in name:
        raise GitUnusable("HEAD names neither a branch nor a commit")
    branch = os.fsdecode(name)
    try:
        line = read_file(os.path.join(repository.common_dir, branch), MAX_LINE_BYTES).rstrip()
    except FileNotFoundError:
        return branch
    except (IsADirectoryError, NotADirectoryError) as error:
        raise GitUnusable(f"{branch} is not a regular file") from error
    if not _OBJECT_NAME.fullmatch(line):
        raise GitUnusable(f"{branch} does not name a commit")
    return branch


def _packed(repository: Repository, name: bytes) -> str:
    try:
        text = b"\n" + read_file(os.path.join(repository.common_dir, "packed-refs"), MAX_REFS_BYTES)
    except FileNotFoundError:
        return ""
    end = (text if text.endswith(b"\n") else text + b"\n").find(b" " + name + b"\n")
    begin = text.rfind(b"\n", 0, max(end, 0)) + 1
    commit = text[begin:end] if end > 0 else b""
    return commit.decode() if _OBJECT_NAME.fullmatch(commit) else ""


def read_file(path: str, max_bytes: int) -> bytes:
    """Return the content of a regular file of at most `max_bytes` bytes, without following links or waiting.

    Raises FileNotFoundError, NotADirectoryError or IsADirectoryError if there is none, GitUnusable for other problems.
    """
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, _FLAGS)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise GitUnusable(f"{path} is not a regular file")
            # Count what is read: st_size is wrong for a file that grows, and 0 for a file of /proc.
            blocks = iter(lambda: file.read(_BLOCK_BYTES), b"")
            content = b"".join(islice(blocks, max_bytes // _BLOCK_BYTES + 1))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise
    except (OSError, ValueError) as error:
        raise GitUnusable(f"{path} cannot be read: {getattr(error, 'strerror', error)}") from error
    if len(content) > max_bytes:
        raise GitUnusable(f"{path} is too large")
    return content


def changed_since(root: Path, moment: float) -> bool:
    """Tell whether git has checked out, merged, stashed or committed anything since a Unix time."""
    try:
        repository = find_repository(root)
    except (GitUnusable, OSError):
        return False
    if repository is not None:
        own, shared = repository.git_dir, repository.common_dir
        for path in (f"{own}/HEAD", f"{own}/index", f"{shared}/logs/refs/stash"):
            with suppress(OSError):
                if os.lstat(path).st_mtime >= moment:
                    return True
    return False
