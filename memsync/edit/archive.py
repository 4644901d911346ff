"""Moves notes to archive/ and back. A record of every run makes it possible to undo the run.

All moves of a run are recorded before the first one. If the run is killed, the files show which of them were made.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count as count_up
from pathlib import Path

from msgspec.structs import replace

from memsync.edit import commits
from memsync.edit.kept import Step, Work
from memsync.edit.note_paths import cannot_write, check_writable, folder_of
from memsync.edit.note_writer import NoteWriter
from memsync.errors import MemsyncError, UsageError, WriteRefused
from memsync.model.status import Failure
from memsync.model.text import count
from memsync.model.upkeep import Retirement
from memsync.model.vocabulary import NotePath
from memsync.notes.files import identity_of
from memsync.notes.rules import ARCHIVE_FOLDER, former_path
from memsync.system.renames import rename_new


def move(root: Path, source: NotePath, target: NotePath, *, mtime_ns: int | None = None) -> None:
    """Move a note to another path and create missing folders. `mtime_ns`: refuse if the note has changed since.

    Raises FileNotFoundError, WriteRefused (also if the target exists), FilesystemError; nothing is changed then.
    """
    name, new = source.rpartition("/")[2], target.rpartition("/")[2]
    with folder_of(root, source) as here:
        try:
            status = os.stat(name, dir_fd=here, follow_symlinks=False)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise cannot_write(source, error) from error
        if mtime_ns is not None and identity_of(status)[1] != mtime_ns:
            raise WriteRefused(f"{source} has just changed", hint="Try again.")
        if is_half_moved(root, source, target):
            os.unlink(name, dir_fd=here)
            return
        check_writable(source, status)
        with folder_of(root, target, create=True) as there:
            try:
                rename_new(here, name, new, there)
                os.fsync(there)
                os.fsync(here)
            except FileExistsError:
                raise WriteRefused(f"{target} already exists", hint="Rename that note first.") from None
            except OSError as error:
                raise cannot_write(source, error) from error


def is_half_moved(root: Path, source: NotePath, target: NotePath) -> bool:
    """Tell whether both paths are hard links to one file that has no other links.

    A process leaves both if it is killed in `move`, on systems that cannot rename without replacing.
    """
    try:
        old, new = (os.stat(root / path, follow_symlinks=False) for path in (source, target))
    except OSError:
        return False
    return (old.st_dev, old.st_ino, old.st_nlink) == (new.st_dev, new.st_ino, 2)


Move = tuple[NotePath, NotePath]


@dataclass(slots=True)
class Moved:
    """The result of one run: the moves made, the failed ones, and why git made no commit (empty if it did)."""

    moves: list[Move] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    complaint: str = ""


class Retiring:
    """Moves the notes of one memory root to archive/ and back."""

    def __init__(self, root: Path, writer: NoteWriter, *, commits: bool) -> None:
        self._root = root
        self._kept = writer.kept
        self._writer = writer
        self._commits = commits

    def with_free_targets(self, due: Iterable[Retirement]) -> list[Retirement]:
        """Return the retirements with targets that do not exist yet."""
        taken: set[str] = set()
        retirements = []
        for retirement in due:
            # With a number in its name, a note might not match the patterns of local-only notes. All of them ignore any
            # number of folders archive/ above it.
            targets = (NotePath(f"{ARCHIVE_FOLDER * number}{retirement.target}") for number in count_up())
            target = next(
                path
                for path in targets
                if path not in taken and (not self._is_there(path) or is_half_moved(self._root, retirement.path, path))
            )
            taken.add(target)
            retirements.append(replace(retirement, target=target))
        return retirements

    def retire(self, due: Sequence[Retirement], mtimes_ns: dict[NotePath, int]) -> Moved:
        """Move the notes that still have their mtime in `mtimes_ns`. Raises FilesystemError before the first move."""
        with self._writer.lock():
            # Another process may have moved some notes while this one waited for the lock.
            moves = [(retirement.path, retirement.target) for retirement in due if self._is_there(retirement.path)]
            if not moves:
                return Moved()
            run = self._kept.begin(Step(source, target, Work.PRUNE) for source, target in moves)
            moved = self._move(moves, f"memsync prune: {count(len(moves), 'note')}", mtimes_ns)
            self._kept.drop(run, [source for source, target in moves if (source, target) not in moved.moves])
            return moved

    def undo(self) -> Moved:
        """Move back the notes of the last run that was not undone yet. Raises UsageError if there is none."""
        with self._writer.lock():
            steps = self._kept.steps(Work.PRUNE)
            if not steps:
                raise UsageError("nothing to undo", hint="--undo moves back only what prune --apply moved.")
            run = steps[0].run
            steps = [step for step in reversed(steps) if step.run == run]
            moved = self._move(
                [(step.other, step.path) for step in steps if self._is_there(step.other)], "memsync prune --undo"
            )
            left = {failure.path for failure in moved.failed}
            self._kept.drop(run, [step.path for step in steps if step.other not in left])
            gone = [step.path for step in steps if not self._is_there(step.path) and not self._is_there(step.other)]
            moved.failed += [Failure(path, "not found, neither here nor in archive/") for path in gone]
            return moved

    def retired_to(self, path: NotePath) -> list[NotePath]:
        """Return the paths that a note was moved to and that still exist, newest first."""
        targets = dict.fromkeys(step.other for step in self._kept.steps(Work.PRUNE) if step.path == path)
        return [target for target in targets if self._is_there(target)]

    def came_from(self, target: NotePath) -> NotePath:
        """Return the former path of a note in archive/: from the record, otherwise from its path there."""
        sources = (step.path for step in self._kept.steps(Work.PRUNE) if step.other == target)
        return next(sources, NotePath(former_path(target)))

    def _is_there(self, path: NotePath) -> bool:
        return os.path.lexists(self._root / path)

    def _move(self, moves: Sequence[Move], message: str, mtimes_ns: Mapping[NotePath, int] | None = None) -> Moved:
        done = Moved()
        for source, target in moves:
            try:
                self._writer.refuse_to_publish(source, target)
                move(self._root, source, target, mtime_ns=mtimes_ns[source] if mtimes_ns is not None else None)
                done.moves.append((source, target))
            except FileNotFoundError:
                done.failed.append(Failure(source, "not found"))
            except MemsyncError as error:
                done.failed.append(Failure(source, error.message))
        if self._commits and done.moves:
            _, done.complaint = commits.commit(self._root, [path for move in done.moves for path in move], message)
        return done
