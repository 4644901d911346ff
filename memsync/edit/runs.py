"""Changes several notes in one run and keeps what they were before, until that is put back or deleted for good.

The content of every note that a run changes is on disk before the first note changes. What a run has done shows in the
notes themselves: a note is as it was before, as it is to be afterwards, or somebody has changed it. So a process may be
killed at any moment. A copy is deleted only if its note is as before, or if somebody purges it.

A run may also move files: each is first changed, then moved, and an undo does both in reverse.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from memsync.edit import commits, note_file
from memsync.edit.append import Replaced, make
from memsync.edit.note_paths import check_writable, folder_of, move
from memsync.edit.note_writer import NoteWriter
from memsync.edit.run_records import Lines, Step, Work
from memsync.errors import FilesystemError, MemsyncError, UsageError, WriteRefused
from memsync.model.status import Failure
from memsync.model.vocabulary import NotePath
from memsync.system.user_folders import write_own_file

NEW = -1
"""The mode of a step whose note did not exist before."""


class NoteChange(Struct, frozen=True):
    """A note to change: its content before and after it.

    `before` is None if the note is new, `after` if the whole note goes.
    `other` is where it is moved; for a run of the kind FORGET, the path under which appends to the note may be in the
    journal. `parts` are the lines that go. Any file may be moved, with its content left alone: both are empty.
    """

    path: NotePath
    other: NotePath
    before: bytes | None = b""
    after: bytes | None = b""
    parts: tuple[Lines, ...] = ()


@dataclass(slots=True)
class Outcome:
    """What was done: the notes changed, those that could not be, and why git made no commit (empty if it did)."""

    paths: list[NotePath] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    complaint: str = ""


class Runs:
    """The runs of one kind in one memory root; `keep` is the folder for data that outlives the index.

    With `commits`, each run is a commit.
    """

    def __init__(self, root: Path, keep: Path, writer: NoteWriter, kind: Work, commits: bool) -> None:
        self._root = root
        self._folder = keep / "forgotten"  # copies that an undo could not put back
        self._records = writer.runs
        self._writer = writer
        self._kind = kind
        self._commits = commits

    def carry_out(self, changes: Sequence[NoteChange], message: str, user: str = "") -> Outcome:
        """Keep a copy of each note, then change it. The caller holds the writers' lock. Raises FilesystemError.

        A move is done as a whole or undone: then only `failed` is set.

        `message` is that of the commit. `user` is whose text it is, or what else tells what the run did.
        """
        outcome = Outcome()
        if not changes:
            return outcome
        run = self._records.begin([self._step(user, change) for change in changes])
        self._clear_leftovers(self._steps(""))
        unchanged = []
        for change in changes:
            try:
                self._change(change)
                if self._moves(change.path, change.other):
                    self._move(change.path, change.other, outcome)
                outcome.paths.append(change.path)
            except FileNotFoundError:
                outcome.failed.append(Failure(change.path, "it is gone"))
            except MemsyncError as error:
                outcome.failed.append(Failure(change.path, error.message))
                is_refused = isinstance(error, WriteRefused) and not self._moves(change.path, change.other)
                if is_refused or change.after == change.before or self._has(change.path, change.before):
                    unchanged.append(change.path)
        with suppress(MemsyncError):  # otherwise an undo may name these notes, and keeps their copies
            self._records.drop(run, unchanged)
        if outcome.failed and self._kind is Work.MOVE:  # otherwise links lead to where a file is not
            undone = self._undo_all(step for step in self._steps(user) if step.run == run)
            outcome.paths, outcome.failed = [], [*outcome.failed, *undone.failed]
        outcome.complaint = self.commit(outcome.paths, message)
        return outcome

    def undo(self, user: str = "", *, commits: bool = True) -> Outcome:
        """Put back what the runs for a user (default: all of them) took out, newest first.

        Of other kinds than FORGET, it puts back only the last run.

        A note that somebody has changed since is left alone and is among `failed`; its copy stays. Raises UsageError if
        there is nothing to put back.
        """
        with self._writer.lock():
            steps = self._steps(user)
            if not steps:
                raise UsageError("nothing to undo", hint=f"--undo puts back only what memsync {self._kind} changed.")
            if self._kind is not Work.FORGET:
                steps = [step for step in steps if step.run == steps[0].run]
            self._clear_leftovers(steps)
            outcome = self._undo_all(steps)
            outcome.paths = list(dict.fromkeys(outcome.paths))
            if commits:
                outcome.complaint = self.commit(outcome.paths, f"memsync {self._kind} --undo")
            return outcome

    def commit(self, paths: Sequence[NotePath], message: str) -> str:
        """Commit notes if the settings say so and there is a message; return why it failed, empty if it did not."""
        return commits.commit(self._root, paths, message)[1] if self._commits and paths and message else ""

    # ---------------------------------------------------------------------------------------------- keeping

    def _steps(self, user: str) -> list[Step]:
        return [step for step in self._records.steps(self._kind) if not user or step.user == user]

    def _clear_leftovers(self, steps: Iterable[Step]) -> None:
        """Delete what killed runs left beside the notes of these steps, if it is a content that the runs keep."""
        kept = {digest for step in steps for digest in (_digest(step.before), step.after)}
        for above in {os.path.dirname(path) for step in steps for path in (step.path, step.other)}:
            with suppress(OSError, MemsyncError), folder_of(self._root, NotePath(f"{above}/x".lstrip("/"))) as folder:
                note_file.clear_leftovers(folder, note_file.LEFTOVER_SECONDS, kept)

    def _moves(self, path: NotePath, other: NotePath) -> bool:
        return self._kind is not Work.FORGET and path != other

    def _step(self, user: str, change: NoteChange) -> Step:
        mode = NEW
        try:
            if change.before is not None:
                mode = os.stat(self._root / change.path, follow_symlinks=False).st_mode & 0o7777
        except OSError as error:
            raise FilesystemError(f"{change.path} cannot be read: {error.strerror}", hint="Try again.") from error
        after = "" if change.after is None or change.after == change.before else _digest(change.after)
        before = b"" if change.before is None or change.after == change.before else change.before
        return Step(change.path, change.other, self._kind, user, before, after, mode, change.parts)

    def _drop(self, step: Step) -> None:
        with suppress(FileNotFoundError):
            self._copy_of(step).unlink()
        self._records.drop(step.run, [step.path])

    def _copy_of(self, step: Step) -> Path:
        """Return where a copy is written for the user, if an undo cannot put it back."""
        return self._folder / f"{step.run}-{_digest(step.path.encode())[:16]}.md"

    # --------------------------------------------------------------------------------------------- changing

    def _change(self, change: NoteChange) -> None:
        if change.before is None:
            make_new(self._root, change.path, change.after or b"", 0o644)
        elif change.after is None:
            self._remove(change.path, change.before)
        elif change.after != change.before:
            self._replace(change.path, change.before, change.after)

    def _move(self, path: NotePath, target: NotePath, outcome: Outcome) -> None:
        self._writer.refuse_to_publish(path, target)
        move(self._root, path, target)
        if self._kind is Work.MOVE:  # a note in archive/ keeps its former path in the journal
            self._writer.journal.moved(path, target)
        outcome.paths.append(target)

    def _remove(self, path: NotePath, content: bytes) -> None:
        """Delete a whole note if it is as expected."""
        with folder_of(self._root, path) as folder:
            name = path.rpartition("/")[2]
            check_writable(path, os.stat(name, dir_fd=folder, follow_symlinks=False))
            if not note_file.remove(folder, path, name, content):
                raise WriteRefused(f"{path} has just changed", hint="Try again.")

    def _replace(self, path: NotePath, old: bytes, new: bytes) -> None:
        """Replace a note's content. Raises WriteRefused if it has another one."""

        def edit(text: str) -> str:
            if text.encode("utf-8", "surrogateescape") != old:
                raise WriteRefused(f"{path} has just changed", hint="Try again.")
            return new.decode("utf-8", "surrogateescape")

        self._writer.rewrite(path, edit)

    def _undo_all(self, steps: Iterable[Step]) -> Outcome:
        outcome = Outcome()
        for step in steps:
            self._undo(step, outcome)
        return outcome

    def _undo(self, step: Step, outcome: Outcome) -> None:
        """Put one note back as it was, unless it is so already; add the result to `outcome`."""
        try:
            if self._moves(step.path, step.other):
                if self._is_there(step.other):
                    self._move(step.other, step.path, outcome)
                    outcome.paths.append(step.other)
                elif not self._is_there(step.path):
                    raise WriteRefused(f"{step.path} is not found, neither there nor at {step.other}")
            former = None if step.mode == NEW else step.before
            current = self._content(step.path) if step.after or self._kind is Work.FORGET else former
            if current != former:
                if ("" if current is None else _digest(current)) != step.after:
                    what = "is gone" if current is None else "has been changed since" if step.after else "exists again"
                    write_own_file(str(self._copy_of(step)), step.before)
                    raise WriteRefused(f"{step.path} {what}: what it was before is in {self._copy_of(step)}")
                if current is None:
                    make_new(self._root, step.path, step.before, step.mode)
                elif former is None:
                    self._remove(step.path, current)
                else:
                    self._replace(step.path, current, former)
                outcome.paths.append(step.path)
            self._drop(step)  # an undo after the next edit of this note is not about it
        except FileNotFoundError:
            outcome.failed.append(Failure(step.path, "it has just changed"))
        except (MemsyncError, OSError) as error:
            reason = error.message if isinstance(error, MemsyncError) else f"no copy can be written: {error.strerror}"
            outcome.failed.append(Failure(step.path, reason))

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

    def _is_there(self, path: NotePath) -> bool:
        return os.path.lexists(self._root / path)

    def _has(self, path: NotePath, content: bytes | None) -> bool:
        with suppress(MemsyncError):
            return self._content(path) == content
        return False


def make_new(root: Path, path: NotePath, content: bytes, mode: int) -> None:
    """Create a note. Raises WriteRefused if it exists, FilesystemError."""
    with folder_of(root, path, create=True) as folder:
        try:
            make(folder, path, content)
        except Replaced:
            raise WriteRefused(f"{path} exists again: it has just been made") from None
        with suppress(OSError):
            os.chmod(path.rpartition("/")[2], mode, dir_fd=folder, follow_symlinks=True)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
