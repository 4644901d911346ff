"""The commits of a memory root's repository: find the one that a person means, list its notes, read their bytes."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from memsync.errors import FilesystemError, UsageError
from memsync.model.commits import Commit
from memsync.model.text import quoted
from memsync.notes.commit_dates import MAX_LOG_BYTES, parts, tree_files
from memsync.notes.dates import end_of, parse_when
from memsync.notes.files import LATEST_NS, MAX_NOTE_BYTES
from memsync.notes.git import Git, open_git
from memsync.notes.git_files import (
    MAX_SHALLOW_BYTES,
    GitUnusable,
    HeadState,
    Repository,
    read_file,
    reason_of,
    repository_of,
    state_of,
)
from memsync.notes.ignore import is_hidden, is_note_name
from memsync.system import clock

SECONDS = 60.0
"""How long git may take for one question about the history."""
GIT_SECONDS = 600.0
"""How long git may take in all while many notes are read or compared."""
MAX_TREE_BYTES = 2_000_000_000
"""How many bytes of notes one commit may have."""
MAX_REFERENCES = 10_000
MAX_NAME = 100
"""How many characters of an unknown name are compared with the known ones."""
NAMED = 3
"""How many names the error about an unknown revision lists."""
IGNORE_FILE = ".gitignore"
DISMISSED = ".memsync/dismissed"
"""The ids of dismissed contradictions, one a line: git takes them to other machines."""
_AT = re.compile(r"(?P<path>(?!\[\[).+)@(?P<revision>[^@:#{][^:#]*)(?P<place>(?:[:#].*)?)", re.DOTALL)
_OBJECT_NAME = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
COMMIT = "%H%x00%ct%x00%an%x00%s"
"""The format in which git prints a commit for `read_commit`, with NULs between its fields."""


class Blob(NamedTuple):
    """The content of a file: git's hexadecimal name for it, and its size in bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Revisions:
    """The commits of one memory root. `folder` is the root's place in the repository, see HeadState."""

    root: Path
    repository: Repository
    folder: str

    @staticmethod
    def of(root: Path) -> Revisions:
        """Return the commits of a memory root. Raises UsageError if it has no repository that memsync can read."""
        with _telling():
            repository = repository_of(root)
            if repository is None:
                raise UsageError(f"{root} is in no git repository", hint="Begin one: git init")
            return Revisions(root, repository, state_of(repository, root, "-").folder)

    @contextmanager
    def git(self, seconds: float = SECONDS) -> Iterator[Git]:
        """Yield git on the repository, for so many seconds in all. Raises UsageError if it cannot be used."""
        with _telling(), open_git(self.repository, seconds) as git:
            yield git

    def head_state(self, commit: str) -> HeadState:
        """Return the state of a commit's history, for the dates of its notes."""
        with _telling():
            return state_of(self.repository, self.root, commit)

    def is_shallow(self) -> bool:
        """Tell whether the repository lacks the commits before some."""
        with suppress(OSError, GitUnusable):
            return bool(read_file(f"{self.repository.common_dir}/shallow", MAX_SHALLOW_BYTES))
        return False

    # ------------------------------------------------------------------------------------------ commits

    def resolve(self, revision: str, *, before: bool = False) -> Commit:
        """Return the commit that a name or a date means: of a date, the last one until its end, or `before` it.

        Before the first commit there is none: with `before` it is the first one. Raises UsageError, which names what is
        nearest.
        """
        name = "".join(character for character in revision.strip() if character >= " ")
        with self.git() as git:
            commit = self._named(git, name) or self._dated(git, revision, before=before)
            if commit is None:
                raise self._unknown(git, revision)
        return commit

    def _named(self, git: Git, name: str) -> Commit | None:
        # Four digits are a year, unless a tag or a branch is called so: the names of commits may begin with them, too.
        for prefix in ("refs/tags/", "refs/heads/") if re.fullmatch(r"\d{4}", name) else ("",):
            revision = f"{prefix}{name}^{{commit}}"
            found = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", revision).stdout.strip()
            if _OBJECT_NAME.fullmatch(found):
                return self.commit(git, found)
        return None

    def _dated(self, git: Git, text: str, *, before: bool) -> Commit | None:
        try:
            moment = min(max(parse_when(text, clock.now()), "1970-01-02"), "9998")  # what a timestamp can say
        except UsageError:
            return None
        limit = int(end_of(moment, before=before).timestamp())
        # Only the first parents: a branch counts from the day on which it was merged.
        last = git.run("rev-list", "--first-parent", "-1", f"--until=@{limit} +0000", "HEAD", "--").stdout.strip()
        if last:
            return self.commit(git, last)
        first = git.run("rev-list", "--first-parent", "--max-parents=0", "HEAD", "--").stdout.split()
        if not first:
            raise UsageError("the repository has no commit", hint="Commit your notes first.")
        begin = self.commit(git, first[-1])
        if before:
            return begin
        is_said = "begins here, because it is a shallow clone, with" if self.is_shallow() else "begins with"
        raise UsageError(
            f"there is no commit until {quoted(text)}: the history {is_said} {begin.short} of {begin.time[:16]}",
            hint="Name a later date, or fetch the rest: git fetch --unshallow" * self.is_shallow()
            or f"Name a later date, or {begin.short}.",
        )

    def _unknown(self, git: Git, revision: str) -> UsageError:
        listed = git.run("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes").stdout
        names = listed.split()[:MAX_REFERENCES]
        close = difflib.get_close_matches(revision[:MAX_NAME], names, n=NAMED, cutoff=0.4) or names[:NAMED]
        hint = (
            f"The nearest names: {', '.join(map(quoted, close))}."
            if close
            else "The repository has no commit: commit your notes first."
        )
        if self.is_shallow():
            hint += " The repository is a shallow clone, which lacks older commits: git fetch --unshallow"
        return UsageError(f"{quoted(revision)} is neither a commit nor a date", hint=hint)

    def commit(self, git: Git, name: str) -> Commit:
        """Return a commit by its full name. Raises GitUnusable if it cannot be read."""
        return self.commits(git, [name])[name]

    def commits(self, git: Git, names: Collection[str]) -> dict[str, Commit]:
        """Return commits by their full names. Raises GitUnusable if one cannot be read."""
        given = "".join(f"{name}\n" for name in names).encode()
        options = ("--no-walk=unsorted", "--stdin", "-z", f"--format={COMMIT}")
        printed = parts(git.stream("log", *options, max_bytes=MAX_LOG_BYTES, given=given)) if names else iter(())
        return {commit.name: commit for commit in (read_commit([name, *islice(printed, 3)]) for name in printed)}

    # -------------------------------------------------------------------------------------------- files

    def files(self, git: Git, commit: str) -> dict[str, Blob]:
        """Return the notes of a commit, and its ignore files, by their paths under the memory root.

        Leaves out what a scan of a checkout would not look at. Raises UsageError if they are too large together.
        """
        found = {}
        for raw, blob, size in tree_files(git, commit, os.fsencode(self.folder), "-l"):
            with suppress(UnicodeDecodeError):
                path = raw.decode().removeprefix(self.folder)
                if size <= MAX_NOTE_BYTES and _may_be_written(path):
                    found[path] = Blob(blob.decode(), size)
        if sum(blob.size for blob in found.values()) > MAX_TREE_BYTES:
            reason = f"the notes of {commit} have over {MAX_TREE_BYTES // 10**9} GB"
            raise UsageError(reason, hint="Search the notes as they are now, without a commit.")
        return found

    def paths(self, git: Git, commit: str, *, only_regular: bool) -> Iterator[str]:
        """Yield the path of each file of a commit under the memory root; without those that are not UTF-8.

        Without `only_regular` also those of links and submodules.
        """
        for raw, _, _ in tree_files(git, commit, os.fsencode(self.folder), only_regular=only_regular):
            with suppress(UnicodeDecodeError):
                yield raw.decode().removeprefix(self.folder)

    def sizes(self, git: Git, blobs: Iterable[str]) -> dict[str, int]:
        """Return the sizes of blobs by their names. Raises GitUnusable if one is missing."""
        sizes, given = dict[str, int](), "".join(f"{name}\n" for name in blobs)
        for line in git.run("cat-file", "--batch-check", given=given).stdout.splitlines():
            name, kind, *size = line.split(" ")
            if kind != "blob":
                raise GitUnusable(f"it lacks the file {name}")
            sizes[name] = int(size[0])
        return sizes

    def contents(self, git: Git, blobs: Iterable[Blob]) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of each of these blobs, in order. Raises GitUnusable if one is missing or larger."""
        wanted = list(blobs)
        given = "".join(f"{blob.name}\n" for blob in wanted).encode()
        with git.output("cat-file", "--batch", "--buffer", given=given) as printed:
            for blob in wanted:
                head = printed.readline().split()
                if not head:  # git was ended
                    break
                if head[1] != b"blob" or int(head[2]) > blob.size:
                    raise GitUnusable(f"it lacks the file {blob.name}")
                content = printed.read(int(head[2]) + 1)
                if len(content) <= int(head[2]):
                    break
                yield blob.name, content[:-1]


def split_location(location: str) -> tuple[str, str, str]:
    """Split `PATH@REVISION`, with `:LINES` or `#heading` at its end, into these three; no revision is an empty text.

    A link, and a note with an @ in its name, have none.
    """
    match = _AT.fullmatch(location)
    if match is None or is_note_name(match["revision"]):
        return location, "", ""
    return match["path"], match["revision"], match["place"]


@contextmanager
def _telling() -> Iterator[None]:
    """Raise UsageError if git cannot be used, and FilesystemError if a file of ours cannot."""
    try:
        yield
    except GitUnusable as error:
        raise UsageError(f"the history cannot be read: {reason_of(error)}", hint="See: memsync doctor") from error
    except OSError as error:
        raise FilesystemError(f"the history cannot be read: {reason_of(error)}", hint="Check the disk.") from error


def read_commit(fields: Iterable[bytes]) -> Commit:
    """Return the commit that git has printed in the format COMMIT."""
    name, seconds, author, subject = (field.decode("utf-8", "replace") for field in fields)
    is_moment = seconds.isdecimal() and int(seconds) <= LATEST_NS // 10**9
    time = datetime.fromtimestamp(int(seconds) if is_moment else 0).astimezone().isoformat(timespec="seconds")
    return Commit(name, time, author, subject)


def _may_be_written(path: str) -> bool:
    """Tell whether a checkout may have a file that memsync would read at a path of a tree, which may be hostile."""
    folder, _, name = path.rpartition("/")
    is_wanted = is_note_name(name) if name else False
    is_inside = all(part not in ("", ".", "..") for part in folder.split("/")) if folder else True
    return path == DISMISSED or (is_inside and not is_hidden(folder) and (is_wanted or name == IGNORE_FILE))
