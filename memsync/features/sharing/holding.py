"""Which changed files go to other machines; local-only notes, secrets and what git cannot take stay here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from memsync.edit.commits import filtered
from memsync.model.text import quoted
from memsync.model.vocabulary import NotePath
from memsync.notes import conflict_marks
from memsync.notes.decode import BinaryFileError, decode
from memsync.notes.files import MAX_NOTE_BYTES
from memsync.notes.git import Git
from memsync.notes.git_files import GitUnusable
from memsync.notes.ignore import is_note_name
from memsync.notes.secrets import secrets_in
from memsync.system.user_folders import replace_file

if TYPE_CHECKING:
    from memsync.workspace import Workspace

_LOCAL = "it is local-only"
IGNORED = "git ignores it"
MARKED = "it has git's marks of a conflict"
_BEGIN, _END = "# local-only notes, by memsync", "# end of local-only notes"
_OURS = re.compile(rb"^(?:<{7,} memsync/here|>{7,} memsync/there)", re.MULTILINE)
"""git makes longer marks than usual where both sides renamed a file."""
FILTERED = "git filters it: commit it yourself"


def is_unsolved(content: bytes) -> bool:
    """Tell whether the content of a file has marks that a merge of ours left in it; not those of an example."""
    return _OURS.search(content) is not None


def _has_marks(content: bytes) -> bool:
    return conflict_marks.are_in(content) or is_unsolved(content)


class Holding:
    """Sorts the changed files of a memory root. `allowed` are the digests of secrets that the user lets be sent."""

    def __init__(self, memory: Workspace, allowed: Sequence[str]) -> None:
        self._root, self._reader, self._allowed = memory.settings.root, memory.reader, frozenset(allowed)

    def sorted(self, git: Git) -> tuple[list[str], dict[str, str]]:
        """Return the files to commit, and why each of the others is held back. Raises GitUnusable.

        Local-only notes are in neither; they are hidden from the user's own `git add`.
        """
        options = ("--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=all")
        done = git.run("status", *options, at_notes=True)
        if done.returncode:
            raise GitUnusable(f"git cannot tell what has changed: {quoted(done.stderr, 200)}")
        listed = done.stdout.split("\0")
        paths = [entry[3:] for entry in listed if entry and not entry.endswith("/") and self._is_file(entry[3:])]
        held = {path: reason for path in paths if (reason := self._reason_now(git, path))}
        held |= dict.fromkeys(filtered(git, [p for p in paths if p not in held]), FILTERED)
        private = [path for path, reason in held.items() if reason == _LOCAL]
        self._hide(git, private)
        return [path for path in paths if path not in held], {path: held[path] for path in held if path not in private}

    def _is_file(self, path: str) -> bool:
        """Tell whether a path is that of a regular file, or of one that is gone: a folder may be in its place."""
        place = self._root / path
        return not place.is_symlink() and (place.is_file() or place.is_dir() or not place.exists())

    def _reason_now(self, git: Git, path: str) -> str:
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            place = self._root / path
            if place.stat().st_size > MAX_NOTE_BYTES:
                return f"it is over {MAX_NOTE_BYTES // 1_000_000} MB"
            return self.reason(git, path, place.read_bytes())
        return ""

    def reason(self, git: Git, path: str, content: bytes) -> str:
        """Return why a file with this content is not sent; no text if it is. Without a look at git's filters."""
        if "\n" in path or "\r" in path:
            return "its name has a line break"
        if _has_marks(content) and not _has_marks(
            git.run("show", f"HEAD:{path}").stdout.encode("utf-8", "surrogateescape")
        ):
            return MARKED
        return self.reason_of(path, content)

    def reason_of(self, path: str, content: bytes) -> str:
        """Return why the content of a file may not leave this machine; no text if it may."""
        if self._reader.rules.is_local_only(NotePath(path)):
            return _LOCAL
        with suppress(BinaryFileError):
            if is_note_name(path.rpartition("/")[2]) and self._reader.read(NotePath(path), content)[0].local_only:
                return _LOCAL
            text = "\n".join(decode(content).lines)
            found = [secret for secret in secrets_in(text) if secret.digest not in self._allowed]
            if found:
                line = text.count("\n", 0, found[0].start) + 1
                named = "; ".join(dict.fromkeys(f"{secret.kind}, {secret.digest}" for secret in found))
                allow = f"memsync share --allow {found[0].digest}"
                return f"it seems to have a secret in line {line} ({named}): remove it, or run {allow}"
        return ""

    def _hide(self, git: Git, paths: Sequence[str]) -> None:
        """Let `.git/info/exclude` name these local-only notes, and no others of before.

        One that is committed already stays so.
        """
        place = Path(git.repository.common_dir, "info/exclude")
        text, others = _excluded(place)
        block = "".join(f"/{_escaped(path)}\n" for path in paths)
        new = f"{others}{_BEGIN}\n{block}{_END}\n" if paths else others
        if new != text:
            place.parent.mkdir(exist_ok=True)
            replace_file(str(place), new.encode("utf-8", "surrogateescape"))


def show_hidden(exclude: Path) -> None:
    """Take local-only notes out of git's own copy of the file that hides them: they may not be local-only any more."""
    _, others = _excluded(exclude)
    exclude.unlink(missing_ok=True)  # it is a link to the repository's file, which `_hide` changes meanwhile
    exclude.write_text(others, errors="surrogateescape")


def _excluded(place: Path) -> tuple[str, str]:
    """Return the content of `info/exclude`, and it without what `_hide` wrote."""
    text = place.read_text(errors="surrogateescape") if place.exists() else ""
    before, begins, rest = text.partition(f"{_BEGIN}\n")
    if begins:
        block, ends, after = rest.partition(f"{_END}\n")
        kept = "" if ends else "".join(line for line in block.splitlines(keepends=True) if not line.startswith("/"))
        return text, before + kept + after
    return text, before if before.endswith("\n") or not before else f"{before}\n"


def _escaped(path: str) -> str:
    """Return a path as a pattern that matches it alone."""
    return "".join(f"\\{letter}" if letter in "\\*?[ " else letter for letter in path)
