"""Takes the text of users out of notes, until it is put back or deleted for good."""

from __future__ import annotations

from contextlib import suppress

from msgspec import Struct

from memsync.edit import note_file
from memsync.edit.addition import lines_with_ends
from memsync.edit.note_paths import folder_of
from memsync.edit.run_records import Work
from memsync.edit.runs import Runs
from memsync.errors import MemsyncError
from memsync.model.vocabulary import NotePath


class Removed(Struct, frozen=True):
    """What a run took out of one note: its lines. `is_whole`: the note itself is gone."""

    path: NotePath
    former: NotePath
    lines: tuple[str, ...]
    is_whole: bool


class Forgotten(Runs):
    """What was taken out of the notes of one memory root."""

    def removed(self, user: str = "") -> dict[str, list[Removed]]:
        """Return by user what was taken out and was not put back; with `user`, only of this user."""
        removed: dict[str, list[Removed]] = {}
        for step in self._steps(user):
            lines = lines_with_ends(step.before.decode("utf-8", "replace"))
            gone = (line for first, last in step.parts for line in lines[first - 1 : last])
            texts = tuple(text for line in gone if (text := line.strip()))
            removed.setdefault(step.user or "", []).append(Removed(step.path, step.other, texts, not step.after))
        return removed

    def purge(self, user: str = "") -> None:
        """Delete for good what was taken out. The caller has deleted the rest of it, and holds the writers' lock.

        Copies that `mv` and `proposals accept` kept may have the same text, so these can no longer be undone.
        """
        for kind in (Work.MOVE, Work.ACCEPT):
            for step in self._records.steps(kind):
                self._drop(step)
        for step in self._steps(user):
            with suppress(FileNotFoundError, MemsyncError), folder_of(self._root, step.path) as folder:
                note_file.clear_leftovers(folder, 0.0)
            self._drop(step)
        self._writer.ends.forget()
        self._writer.state.wipe()
