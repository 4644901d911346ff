"""Moves notes to archive/ and back, in runs that can be undone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import count as count_up

from msgspec.structs import replace

from memsync.edit.note_paths import is_half_moved
from memsync.edit.run_records import Work
from memsync.edit.runs import NoteChange, Outcome, Runs
from memsync.model.status import Failure
from memsync.model.text import count
from memsync.model.upkeep import Retirement
from memsync.model.vocabulary import NotePath
from memsync.notes.files import identity_of
from memsync.notes.rules import ARCHIVE_FOLDER, former_path


class Retiring(Runs):
    """Moves the notes of one memory root to archive/ and back."""

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

    def retire(self, due: Sequence[Retirement], mtimes_ns: Mapping[NotePath, int]) -> Outcome:
        """Move the notes that still have their mtime in `mtimes_ns`. Raises FilesystemError before the first move."""
        with self._writer.lock():
            # Another process may have moved some notes while this one waited for the lock.
            changes = [NoteChange(one.path, one.target) for one in due if self._is_there(one.path)]
            stale = [one for one in changes if self._mtime_ns(one.path) != mtimes_ns[one.path]]
            moved = [one for one in changes if one not in stale]
            outcome = self.carry_out(moved, f"memsync prune: {count(len(moved), 'note')}")
            outcome.failed = [*(Failure(one.path, "it has just changed") for one in stale), *outcome.failed]
            return outcome

    def _mtime_ns(self, path: NotePath) -> int:
        return identity_of(os.lstat(self._root / path))[1]

    def retired_to(self, path: NotePath) -> list[NotePath]:
        """Return the paths that a note was moved to and that still exist, newest first."""
        targets = dict.fromkeys(step.other for step in self._records.steps(Work.PRUNE) if step.path == path)
        return [target for target in targets if self._is_there(target)]

    def came_from(self, target: NotePath) -> NotePath:
        """Return the former path of a note in archive/: from the record, otherwise from its path there."""
        sources = (step.path for step in self._records.steps(Work.PRUNE) if step.other == target)
        return next(sources, NotePath(former_path(target)))
