"""The git repository that a memory root may lie in, found and read as plain files: where it is and what HEAD names.

git itself is not run, so that every search can afford to ask. A repository may come with a stranger's notes: only
regular files of a bounded size are read, and a `.git` that leads elsewhere counts only if it is named there, too.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

MAX_LINE_BYTES = 4_096
"""Of the files that hold one line: HEAD, a reference, `.git` itself where it is a file."""
MAX_REFS_BYTES = 64_000_000
MAX_SHALLOW_BYTES = 16_000_000
_MAX_HOPS = 5
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OBJECT_NAME = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REFERENCE = re.compile(rb"refs/[^\x00-\x20\x7f~^:?*\[\\]+")
_BRANCH = re.compile(rb"refs/heads(?:/(?!\.)[^\x00-\x20\x7f~^:?*\[\\/]+(?<!\.lock))+")


class GitUnusable(Exception):
    """What git may not be asked about, with the reason as a clause."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository. `git_dir` has HEAD and the index, `common_dir` all that its working trees share.

    Both are the `.git` folder of `work_tree`, except where `is_linked`: `.git` is a file or a link there, as in a
    submodule or a second working tree.
    """

    work_tree: str
    git_dir: str
    common_dir: str
    is_linked: bool = False


@dataclass(frozen=True, slots=True)
class HeadState:
    """What names the history of a folder: two that are equal give the same dates. `reason` says why there is none.

    `name` is empty where there is no repository, or no commit in it yet.
    """

    name: str = ""
    reason: str = ""
    repository: Repository | None = None


def head_state(root: Path) -> HeadState:
    """Return what names the history of a memory root now. It reads a few small files and runs nothing."""
    try:
        repository = find_repository(root)
        if repository is None:
            return HeadState()
        folder = os.path.relpath(os.path.realpath(root), repository.work_tree)
        state = state_of(repository)
        return HeadState(f"{state}+{folder}" if state and folder != "." else state, "", repository)
    except GitUnusable as error:
        return HeadState("", str(error))
    except OSError as error:
        return HeadState("", error.strerror or str(error))


def find_repository(root: str | os.PathLike[str]) -> Repository | None:
    """Return the repository whose working tree `root` lies in; None when there is none.

    A folder that is itself a bare repository is none: anybody can put one among the notes. Raises GitUnusable.
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


def _linked(folder: str, place: str, *, is_link: bool) -> Repository:
    """Return the repository that a `.git` names which is a file (`gitdir: PATH`) or a symbolic link."""
    if is_link:
        git_dir = os.path.realpath(place)
    else:
        line = read_file(place, MAX_LINE_BYTES).rstrip(b"\r\n")
        if not line.startswith(b"gitdir: ") or b"\0" in line:
            raise GitUnusable(f"{place} names no repository")
        git_dir = os.path.realpath(os.path.join(folder, os.fsdecode(line[len(b"gitdir: ") :])))
    if not os.path.isdir(git_dir):
        raise GitUnusable(f"{place} leads to {git_dir}, which is no folder")
    if not os.path.lexists(os.path.join(git_dir, "commondir")):
        return Repository(folder, git_dir, git_dir, is_linked=True)  # a submodule: its configuration must name `folder`
    common_dir = os.path.realpath(os.path.join(git_dir, _path_in(git_dir, "commondir")))
    back = os.path.join(git_dir, _path_in(git_dir, "gitdir"))
    if os.path.dirname(os.path.dirname(git_dir)) != common_dir or os.path.realpath(back) != os.path.realpath(place):
        raise GitUnusable(f"{place} leads to {git_dir}, which belongs to another folder")
    return Repository(folder, git_dir, common_dir, is_linked=True)


def _path_in(folder: str, name: str) -> str:
    """Return the path that a file of one line holds, nothing when there is no such file."""
    try:
        return os.fsdecode(read_file(os.path.join(folder, name), MAX_LINE_BYTES).rstrip(b"\r\n").replace(b"\0", b""))
    except OSError:
        return ""


def state_of(repository: Repository) -> str:
    """Return what HEAD's history is named by: its commit, and for a shallow clone a digest of where that ends.

    Empty before the first commit. Raises GitUnusable for what these files do not tell.
    """
    commit = _resolved(repository)
    try:
        shallow = read_file(os.path.join(repository.common_dir, "shallow"), MAX_SHALLOW_BYTES)
    except FileNotFoundError:
        return commit
    return f"{commit}+{hashlib.sha256(shallow).hexdigest()[:16]}" if commit and shallow else commit


def commit_in(state: str) -> str:
    """Return the commit's name out of a `state_of`."""
    return state.partition("+")[0]


def _resolved(repository: Repository) -> str:
    """Return the commit that HEAD names, empty for a branch without one."""
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
    """Return the branch that HEAD names (`refs/heads/...`), or nothing when HEAD names a commit itself.

    Raises GitUnusable for a HEAD that leads anywhere else, and for a branch that leads on to another reference: git
    writes a log of every reference on that way.
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
        raise GitUnusable(f"{branch} names no commit")
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


def read_file(path: str, most: int) -> bytes:
    """Return a regular file of at most `most` bytes; links and devices are not followed, nothing is waited for.

    Raises FileNotFoundError and its like when it is not there, GitUnusable for anything else.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise GitUnusable(f"{path} cannot be read: {reason}") from error
    try:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(path)
        if not stat.S_ISREG(found.st_mode):
            raise GitUnusable(f"{path} is not a regular file")
        blocks: list[bytes] = []
        while (left := most + 1 - sum(map(len, blocks))) > 0 and (block := os.read(descriptor, min(left, 1_000_000))):
            blocks.append(block)
    except (IsADirectoryError, GitUnusable):
        raise
    except OSError as error:
        raise GitUnusable(f"{path} cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if left <= 0:
        raise GitUnusable(f"{path} is too large")
    return b"".join(blocks)


def changed_since(root: Path, moment: float) -> bool:
    """Tell whether git has checked out, merged, stashed or committed anything since a Unix time."""
    try:
        repository = find_repository(root)
    except (GitUnusable, OSError):
        return False
    if repository is None:
        return False
    own, shared = repository.git_dir, repository.common_dir
    places = (f"{own}/HEAD", f"{own}/index", f"{shared}/logs/refs/stash")
    return any(_changed_at(place) >= moment for place in places)


def _changed_at(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0
