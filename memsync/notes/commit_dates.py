"""Find when commits in HEAD's history last changed each note of a repository."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from memsync.model.vocabulary import NotePath
from memsync.notes.files import LATEST_NS
from memsync.notes.git import Git, TooSlow, open_git
from memsync.notes.git_files import GitUnusable, HeadState, commit_in, reason_of
from memsync.notes.ignore import is_note_name

MAX_LOG_BYTES = 1_000_000_000
MAX_TREE_BYTES = 500_000_000
MAX_CHANGED = 100
"""Search the history for the paths of at most this many changed notes; for more, read all of it again."""
_LATEST = LATEST_NS // 1_000_000_000
REGULAR = (b"100644", b"100755")
"""The modes of regular files in a tree."""
_COMMIT = 0x01
_LOG = ("--format=%x01%ct", "-z", "--raw", "-c", "--root", "--no-abbrev", "--no-renames", "--full-history")


@dataclass(frozen=True, slots=True)
class CommitDates:
    """The notes in HEAD's tree: by path, the blob's name and when a commit last gave the note that content.

    Times are committer times in whole seconds since 1970. `state` is the HeadState's name. `reason` says why there are
    no dates; it is empty if there are. With `is_too_slow`, more time might have helped.
    """

    state: str = ""
    reason: str = ""
    notes: Mapping[NotePath, tuple[bytes, int]] = field(default_factory=dict)
    is_too_slow: bool = False


def read_history(head: HeadState, seconds: float, known: CommitDates) -> CommitDates:
    """Read when commits last changed the notes of HEAD's tree, in one pass over the history.

    The latest commit that gave a note its present content counts. In a shallow clone, the oldest commit seems to have
    made everything older. If `known` is the history of an earlier HEAD, only later commits are read; the result is the
    same. An error is not raised but becomes the History's `reason`.
    """
    if head.repository is None or not head.name:
        return CommitDates(head.name, head.reason)
    folder = os.fsencode(head.folder)
    try:
        with open_git(head.repository, seconds) as git:
            tree = _tree(git, commit_in(head.name), folder)
            times = _times_since(git, head.name, folder, tree, known)
            if times is None:
                times = _times(git, [commit_in(head.name)], _only(folder), tree)
    except (GitUnusable, OSError) as error:
        return CommitDates(head.name, reason_of(error), is_too_slow=isinstance(error, TooSlow))
    notes = {
        NotePath(path[len(folder) :].decode()): (bytes.fromhex(tree[path].decode()), time)
        for path, time in times.items()
    }
    return CommitDates(head.name, "", notes)


def _tree(git: Git, commit: str, folder: bytes) -> dict[bytes, bytes]:
    """Return the hexadecimal blob name of each note under a folder of a commit's tree, by path."""
    blobs: dict[bytes, bytes] = {}
    for path, blob, _ in tree_files(git, commit, folder):
        with suppress(UnicodeDecodeError):
            if is_note_name(path.decode().rpartition("/")[2]):
                blobs[path] = blob
    return blobs


def tree_files(
    git: Git, commit: str, folder: bytes, *options: str, only_regular: bool = True
) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield path, hexadecimal blob name and size of each regular file under a folder of a commit's tree.

    Without `only_regular` also of links and submodules.

    The size of a file that the repository lacks is 0, and without the option `-l`, which takes long, that of every one.
    """
    asked = ("ls-tree", "-r", "-z", "--full-tree", *options, commit, *_only(folder))
    for entry in parts(git.stream(*asked, max_bytes=MAX_TREE_BYTES)):
        description, _, path = entry.partition(b"\t")
        mode, _, blob, *size = description.split()
        if mode in REGULAR or not only_regular:
            yield path, blob, int(size[0]) if size and size[0].isdigit() else 0


def _times_since(
    git: Git, state: str, folder: bytes, tree: Mapping[bytes, bytes], known: CommitDates
) -> dict[bytes, int] | None:
    """Return what `_times` returns for the whole history, but read only the commits since an earlier HEAD.

    Returns None if that HEAD is not an ancestor, or if reading the whole history is faster.
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
    new_times = _times(git, [new, f"^{old}"], _only(folder), tree)
    if changed:  # a merge may have brought back content that is older than the earlier HEAD
        new_times |= _times(git, [new], ("--", *map(os.fsdecode, changed)), tree)
    for path, time in new_times.items():
        times[path] = max(times.get(path, 0), time)
    return times


def _times(git: Git, commits: Sequence[str], only: Sequence[str], tree: Mapping[bytes, bytes]) -> dict[bytes, int]:
    """Return for each note of a tree the time of the latest commit that gave it the content it has there."""
    times: dict[bytes, int] = {}
    time, blob = 0, b""
    for part in parts(git.stream("log", *_LOG, *commits, *only, max_bytes=MAX_LOG_BYTES)):
        text = part.lstrip(b"\n")
        if blob:
            if tree.get(part) == blob and 0 < time <= _LATEST:
                times[part] = max(times.get(part, 0), time)
            blob = b""
        elif text[:1] == b":":  # one colon a parent, then modes, blobs of the parents, blob, status
            blob = text.split(b" ")[-2]
        elif text and text[0] == _COMMIT:
            time = int(text[1:]) if text[1:].isdigit() else 0
    return times


def _only(folder: bytes) -> tuple[str, ...]:
    return ("--", os.fsdecode(folder)) if folder else ("--",)


def parts(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the NUL-terminated parts of a stream."""
    rest = b""
    for block in blocks:
        *parts, rest = (rest + block).split(b"\0")
        yield from parts
