"""Which changed files go to other machines; local-only notes, secrets and what git cannot take stay here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from memsync.edit.commits import filtered
from memsync.model.text import quoted
from memsync.model.vocabulary import NotePath
from memsync.notes.conflict_marks import are_in
from memsync.notes.decode import BinaryFileError, decode
from memsync.notes.files import MAX_NOTE_BYTES
from memsync.notes.git import Git
from memsync.notes.git_files import GitUnusable
from memsync.notes.ignore import is_note_name
from memsync.notes.secrets import secrets_in

if TYPE_CHECKING:
    from memsync.workspace import Workspace

_LOCAL = "it is local-only"
MARKED = "it has git's marks of a conflict"
FILTERED = "git filters it: commit it yourself"


class Holding:
    """Sorts the changed files of a memory root. `allowed` are the digests of secrets that the user lets be sent."""

    def __init__(self, memory: Workspace, allowed: Sequence[str]) -> None:
        self._root, self._reader, self._allowed = memory.settings.root, memory.reader, frozenset(allowed)

    def sorted(self, git: Git) -> tuple[list[str], dict[str, str]]:
        """Return the files to commit, and why each of the others is held back. Raises GitUnusable.

        Local-only notes are also hidden from the user's own `git add`.
        """
        options = ("--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=all")
        done = git.run("status", *options, at_notes=True)
        if done.returncode:
            raise GitUnusable(f"git cannot tell what has changed: {quoted(done.stderr, 200)}")
        listed = done.stdout.split("\0")
        paths = [entry[3:] for entry in listed if entry and not entry.endswith("/") and self._is_file(entry[3:])]
        held = {path: reason for path in paths if (reason := self.reason(git, path))}
        held |= dict.fromkeys(filtered(git, [p for p in paths if p not in held]), FILTERED)
        self._hide(git, [path for path, reason in held.items() if reason == _LOCAL])
        return [path for path in paths if path not in held], held

    def _is_file(self, path: str) -> bool:
        place = self._root / path
        return not place.is_symlink() and (place.is_file() or not place.exists())

    def reason(self, git: Git, path: str) -> str:
        """Return why a file is not sent; no text if it is. Without a look at git's filters."""
        with suppress(FileNotFoundError):
            place = self._root / path
            if place.stat().st_size > MAX_NOTE_BYTES:
                return f"it is over {MAX_NOTE_BYTES // 1_000_000} MB"
            content = place.read_bytes()
            if are_in(content) and not are_in(
                git.run("show", f"HEAD:{path}").stdout.encode("utf-8", "surrogateescape")
            ):
                return MARKED
            return self.reason_of(path, content)
        return ""

    def reason_of(self, path: str, content: bytes) -> str:
        """Return why the content of a file may not leave this machine; no text if it may."""
        with suppress(BinaryFileError):
            if is_note_name(path.rpartition("/")[2]) and self._reader.read(NotePath(path), content)[0].local_only:
                return _LOCAL
            text = "\n".join(decode(content).lines)
            found = [secret for secret in secrets_in(text) if secret.digest not in self._allowed]
            if found:
                line = text.count("\n", 0, found[0].start) + 1
                named = "; ".join(dict.fromkeys(f"{secret.kind}, {secret.digest}" for secret in found))
                return f"it seems to have a secret in line {line} ({named})"
        return ""

    def _hide(self, git: Git, paths: Sequence[str]) -> None:
        """Add local-only notes to `.git/info/exclude`. One that is committed already stays so."""
        place = Path(git.repository.common_dir, "info/exclude")
        patterns = [f"/{_escaped(path)}" for path in paths]
        before = place.read_text(errors="surrogateescape") if place.exists() else ""
        new = [pattern for pattern in patterns if pattern not in before.splitlines()]
        if new:
            place.parent.mkdir(exist_ok=True)
            text = before if before.endswith("\n") or not before else f"{before}\n"
            place.write_text("".join([text, *(f"{line}\n" for line in new)]), errors="surrogateescape")


def _escaped(path: str) -> str:
    """Return a path as a pattern that matches it alone."""
    return "".join(f"\\{letter}" if letter in "\\*?[ " else letter for letter in path)
