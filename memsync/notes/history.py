"""When each note of a repository was last changed, by the commits of HEAD's history."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memsync.model.vocabulary import NotePath
from memsync.notes.files import LATEST_NS
from memsync.notes.git import Git, TooSlow, open_git
from memsync.notes.git_files import GitUnusable, HeadState, commit_in
from memsync.notes.ignore import is_note_name

MAX_LOG_BYTES = 1_000_000_000
MAX_TREE_BYTES = 500_000_000
MAX_CHANGED = 100
"""Notes for which the whole history is searched path by path; for more it is read as a whole."""
_LATEST = LATEST_NS // 1_000_000_000
_REGULAR = (b"100644", b"100755")
_COMMIT = 0x01
_LOG = ("--format=%x01%ct", "-z", "--raw", "-c", "--root", "--no-abbrev", "--no-renames", "--full-history")


@dataclass(frozen=True, slots=True)
class History:
    """The notes in HEAD's tree, by path: each with its blob's name and when a commit last gave it that content.

    Times are whole seconds since 1970, of the committer. `state` is the HeadState's name; `reason` says why there are
    no dates, and is empty where there are; `is_too_slow` if more time might have helped.
    """

    state: str = ""
    reason: str = ""
    notes: Mapping[NotePath, tuple[bytes, int]] = field(default_factory=dict)
    is_too_slow: bool = False


def read_history(root: Path, head: HeadState, seconds: float, known: History) -> History:
    """Read when the notes of HEAD's tree were last changed, in one pass over its history.

    Of the commits after which a note read as it does in HEAD, the latest counts. A shallow clone's last commit seems to
    have made all that is older. Where `known` is of an earlier HEAD, only what came after it is read; the result is
    the same. Whatever goes wrong becomes the reason why there are no dates.
    """
    if head.repository is None or not head.name:
        return History(head.name, head.reason)
    prefix = os.path.relpath(os.path.realpath(root), head.repository.work_tree)
    folder = b"" if prefix == "." else os.fsencode(prefix) + b"/"
    try:
        with open_git(head.repository, seconds) as git:
            tree = _tree(git, commit_in(head.name), folder)
            times = _times_since(git, head.name, folder, tree, known)
            if times is None:
                times = _times(git, [commit_in(head.name)], _only(folder), tree)
    except GitUnusable as error:
        return History(head.name, str(error), is_too_slow=isinstance(error, TooSlow))
    except OSError as error:
        return History(head.name, error.strerror or str(error))
    notes = {
        NotePath(path[len(folder) :].decode()): (bytes.fromhex(tree[path].decode()), time)
        for path, time in times.items()
    }
    return History(head.name, "", notes)


def _tree(git: Git, commit: str, folder: bytes) -> dict[bytes, bytes]:
    """Return the notes beneath a folder of a commit's tree, each with its blob's name in hexadecimal figures."""
    found: dict[bytes, bytes] = {}
    for entry in _parts(
        git.stream("ls-tree", "-r", "-z", "--full-tree", commit, *_only(folder), most_bytes=MAX_TREE_BYTES)
    ):
        about, _, path = entry.partition(b"\t")
        mode, _, blob = about.split(b" ")
        if mode in _REGULAR and _is_note(path):
            found[path] = blob
    return found


def _times_since(
    git: Git, state: str, folder: bytes, tree: Mapping[bytes, bytes], known: History
) -> dict[bytes, int] | None:
    """Return what `_times` would for the whole history, out of what is known of an earlier HEAD.

    None where that is no ancestor, or so much has changed that the whole history is read sooner.
    """
    old, _, old_end = known.state.partition("+")
    new, _, new_end = state.partition("+")
    if not old or known.reason or old_end != new_end:
        return None
    times: dict[bytes, int] = {}
    for note, (blob, time) in known.notes.items():
        path = folder + note.encode()
        if tree.get(path) == blob.hex().encode():
            times[path] = time
    changed = [path for path in tree if path not in times]
    if len(changed) > MAX_CHANGED or git.run("merge-base", "--is-ancestor", old, new).returncode != 0:
        return None
    found = _times(git, [new, f"^{old}"], _only(folder), tree)
    if changed:  # a merge may have brought back what is older than the earlier HEAD
        found |= _times(git, [new], ("--", *map(os.fsdecode, changed)), tree)
    for path, time in found.items():
        times[path] = max(times.get(path, 0), time)
    return times


def _times(git: Git, commits: Sequence[str], only: Sequence[str], tree: Mapping[bytes, bytes]) -> dict[bytes, int]:
    """Return for each note of a tree the latest time of a commit after which it read as it does there."""
    times: dict[bytes, int] = {}
    time, blob = 0, b""
    for part in _parts(git.stream("log", *_LOG, *commits, *only, most_bytes=MAX_LOG_BYTES)):
        text = part.lstrip(b"\n")
        if blob:
            if tree.get(part) == blob and 0 < time <= _LATEST:
                times[part] = max(times.get(part, 0), time)
            blob = b""
        elif text[:1] == b":":  # as many colons as there are parents; modes, blobs of the parents, blob, what happened
            blob = text.split(b" ")[-2]
        elif text and text[0] == _COMMIT:
            time = int(text[1:]) if text[1:].isdigit() else 0
    return times


def _only(folder: bytes) -> tuple[str, ...]:
    return ("--", os.fsdecode(folder)) if folder else ("--",)


def _parts(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what stands between NULs."""
    rest = b""
    for block in blocks:
        *parts, rest = (rest + block).split(b"\0")
        yield from parts


def _is_note(path: bytes) -> bool:
    try:
        return is_note_name(path.decode().rpartition("/")[2])
    except UnicodeDecodeError:
        return False
