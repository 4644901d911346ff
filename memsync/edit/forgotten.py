"""Takes text out of notes and keeps what the notes were before, until it is put back or deleted for good.

The content of every note that a run changes is on disk before the first note changes. What a run has done shows in the
notes themselves: a note is as it was before, as it is to be afterwards, or somebody has changed it. So a process may be
killed at any moment. A copy is deleted only if its note is as before, or if somebody purges it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from memsync.edit import commits, note_file
from memsync.edit.addition import lines_with_ends
from memsync.edit.append import Replaced, make
from memsync.edit.kept import Lines, Step
from memsync.edit.note_paths import check_writable, folder_of
from memsync.edit.note_writer import NoteWriter
from memsync.errors import FilesystemError, MemsyncError, UsageError, WriteRefused
from memsync.model.status import Failure
from memsync.model.text import count
from memsync.model.vocabulary import NotePath
from memsync.system.user_folders import write_own_file


class Change(Struct, frozen=True):
    """A note to change: its content before and after it; `after` is None if the whole note goes.

    `parts` are the lines that go. `former` is the path under which appends to the note may be in the journal.
    """

    path: NotePath
    former: NotePath
    before: bytes
    after: bytes | None
    parts: tuple[Lines, ...]


@dataclass(slots=True)
class Outcome:
    """What was done: the notes changed, those that could not be, and why git made no commit (empty if it did)."""

    paths: list[NotePath] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    complaint: str = ""


class Removed(Struct, frozen=True):
    """What a run took out of one note: its lines. `is_whole`: the note itself is gone."""

    path: NotePath
    former: NotePath
    lines: tuple[str, ...]
    is_whole: bool


class Forgotten:
    """What was taken out of the notes of one memory root; `keep` is the folder for data that outlives the index."""

    def __init__(self, root: Path, keep: Path, writer: NoteWriter, *, commits: bool) -> None:
        self._root = root
        self._folder = keep / "forgotten"  # copies that an undo could not put back
        self._kept = writer.kept
        self._writer = writer
        self._commits = commits

    def removed(self, user: str = "") -> dict[str, list[Removed]]:
        """Return by user what was taken out and was not put back; with `user`, only of this user."""
        removed: dict[str, list[Removed]] = {}
        for step in self._steps(user):
            lines = lines_with_ends(step.before.decode("utf-8", "replace"))
            gone = (line for first, last in step.parts for line in lines[first - 1 : last])
            texts = tuple(text for line in gone if (text := line.strip()))
            removed.setdefault(step.user or "", []).append(Removed(step.path, step.other, texts, not step.after))
        return removed

    def carry_out(self, user: str, changes: Sequence[Change]) -> Outcome:
        """Keep a copy of each note, then change it. The caller holds the writers' lock. Raises FilesystemError."""
        outcome = Outcome()
        if not changes:
            return outcome
        run = self._kept.begin([self._step(user, change) for change in changes])
        unchanged = []
        for change in changes:
            try:
                if change.after is None:
                    self._remove(change)
                else:
                    self._replace(change.path, change.before, change.after)
                outcome.paths.append(change.path)
            except FileNotFoundError:
                outcome.failed.append(Failure(change.path, "it is gone"))
            except MemsyncError as error:
                outcome.failed.append(Failure(change.path, error.message))
                if isinstance(error, WriteRefused) or self._has(change.path, change.before):
                    unchanged.append(change.path)
        with suppress(MemsyncError):  # otherwise an undo may name these notes, and keeps their copies
            self._kept.drop(run, unchanged)
        self._commit(outcome, f"memsync forget: {count(len(outcome.paths), 'note')}")
        return outcome

    def undo(self, user: str = "") -> Outcome:
        """Put back what the runs for a user (default: all runs) took out, the last run first.

        A note that somebody has changed since is left alone and is among `failed`; its copy stays. Raises UsageError if
        there is nothing to put back.
        """
        with self._writer.lock():
            steps = self._steps(user)
            if not steps:
                raise UsageError("nothing to undo", hint="--undo puts back only what --apply took out.")
            outcome = Outcome()
            for step in steps:
                self._undo(step, outcome)
            outcome.paths = list(dict.fromkeys(outcome.paths))
            self._commit(outcome, "memsync forget --undo")
            return outcome

    def purge(self, user: str = "") -> None:
        """Delete for good what was taken out. The caller has deleted the rest of it, and holds the writers' lock."""
        for step in self._steps(user):
            with suppress(FileNotFoundError, MemsyncError), folder_of(self._root, step.path) as folder:
                note_file.clear_leftovers(folder, 0.0)
            self._drop(step)
        self._kept.wipe()

    # ---------------------------------------------------------------------------------------------- keeping

    def _steps(self, user: str) -> list[Step]:
        return [step for step in self._kept.steps(moves=False) if not user or step.user == user]

    def _step(self, user: str, change: Change) -> Step:
        try:
            mode = os.stat(self._root / change.path, follow_symlinks=False).st_mode & 0o7777
        except OSError as error:
            raise FilesystemError(f"{change.path} cannot be read: {error.strerror}", hint="Try again.") from error
        after = "" if change.after is None else _digest(change.after)
        return Step(change.path, change.former, user, change.before, after, mode, change.parts)

    def _drop(self, step: Step) -> None:
        with suppress(FileNotFoundError):
            self._copy_of(step).unlink()
        self._kept.drop(step.run, [step.path])

    def _copy_of(self, step: Step) -> Path:
        """Return where a copy is written for the user, if an undo cannot put it back."""
        return self._folder / f"{step.run}-{_digest(step.path.encode())[:16]}.md"

    # --------------------------------------------------------------------------------------------- changing

    def _remove(self, change: Change) -> None:
        """Delete a whole note if it is as expected."""
        path = change.path
        with folder_of(self._root, path) as folder:
            name = path.rpartition("/")[2]
            check_writable(path, os.stat(name, dir_fd=folder, follow_symlinks=False))
            if not note_file.remove(folder, path, name, change.before):
                raise WriteRefused(f"{path} has just changed", hint="Try again.")

    def _replace(self, path: NotePath, old: bytes, new: bytes) -> None:
        """Replace a note's content. Raises WriteRefused if it has another one."""

        def edit(text: str) -> str:
            if text.encode("utf-8", "surrogateescape") != old:
                raise WriteRefused(f"{path} has just changed", hint="Try again.")
            return new.decode("utf-8", "surrogateescape")

        self._writer.rewrite(path, edit)

    def _undo(self, step: Step, outcome: Outcome) -> None:
        """Put one note back as it was, unless it is so already; add the result to `outcome`."""
        try:
            current = self._content(step.path)
            if current != step.before:
                if ("" if current is None else _digest(current)) != step.after:
                    what = "is gone" if current is None else "has been changed since" if step.after else "exists again"
                    write_own_file(str(self._copy_of(step)), step.before)
                    raise WriteRefused(f"{step.path} {what}: what it was before is in {self._copy_of(step)}")
                if current is None:
                    self._create(step)
                else:
                    self._replace(step.path, current, step.before)
                outcome.paths.append(step.path)
            self._drop(step)  # an undo after the next edit of this note is not about it
        except FileNotFoundError:
            outcome.failed.append(Failure(step.path, "it has just changed"))
        except (MemsyncError, OSError) as error:
            reason = error.message if isinstance(error, MemsyncError) else f"no copy can be written: {error.strerror}"
            outcome.failed.append(Failure(step.path, reason))

    def _create(self, step: Step) -> None:
        with folder_of(self._root, step.path, create=True) as folder:
            try:
                make(folder, step.path, step.before)
            except Replaced:
                raise WriteRefused(f"{step.path} exists again: it has just been made") from None
            with suppress(OSError):
                os.chmod(step.path.rpartition("/")[2], step.mode, dir_fd=folder, follow_symlinks=True)

    def _content(self, path: NotePath) -> bytes | None:
        """Return a note's content; None if it does not exist. Raises WriteRefused, FilesystemError."""
        try:
            with (
                folder_of(self._root, path) as folder,
                note_file.opened(folder, path, path.rpartition("/")[2]) as descriptor,
            ):
                return note_file.read(descriptor, path)
        except FileNotFoundError:
            return None

    def _has(self, path: NotePath, content: bytes) -> bool:
        with suppress(MemsyncError):
            return self._content(path) == content
        return False

    def _commit(self, outcome: Outcome, message: str) -> None:
        if self._commits and outcome.paths:
            _, outcome.complaint = commits.commit(self._root, outcome.paths, message)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
