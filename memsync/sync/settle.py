"""Which changes are to be believed now, and which may be a save in progress (notes/settling.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memsync.model.sync_report import Change, ChangeType, IndexedFile
from memsync.model.vocabulary import NotePath
from memsync.notes.files import FileScan, NoteFiles
from memsync.notes.stillness import State, Stillness, stillness_needed

LONGEST_SECONDS = 2.0
"""For how long a change may be put off in all: a file that is emptied again and again is believed after this."""
FORGOTTEN_SECONDS = 1.0
"""A change that was not looked at for so long, because who waited gave up before it settled, is put off anew."""


@dataclass(slots=True)
class _Unsettled:
    """A file that lost text: since when it looks as it does, when that was first and last looked at."""

    still: Stillness
    first: float
    last: float


class Settling:
    """Tells which changes are to wait, and for how long. Times are seconds of a monotonic clock.

    What counts is how long this process has seen a file stand still. An age by file stamps would be wrong whenever a
    clock was set in between, here or on a file server, and a note that is just being saved would be taken for empty.
    """

    def __init__(self, files: NoteFiles) -> None:
        self._files = files
        self._unsettled: dict[NotePath, _Unsettled] = {}

    def divide(
        self, changes: list[Change], scan: FileScan, known: Mapping[NotePath, IndexedFile], now: float
    ) -> tuple[list[Change], float]:
        """Return the changes to believe now, and in how many seconds the next of the others will be; 0 if none waits.

        Of an unsettled deletion the file itself is gone, so its folder tells whether it came and went meanwhile.
        """
        settled, waits = [], []
        folders: dict[str, int] = {}
        # Remembered if believed, too: it is asked for again before it is committed.
        unsettled = {path: seen for path, seen in self._unsettled.items() if scan.is_unknown(path)}
        for change in changes:
            wait = 0.0
            if change.type is not ChangeType.ADDED:
                state = self._state(change, scan, folders)
                needed = stillness_needed(state, known[change.path].size)
                if needed:
                    seen = unsettled[change.path] = self._seen(change.path, state, now)
                    if now - seen.first < LONGEST_SECONDS:
                        wait = needed - seen.still.seconds(state, now)
            if wait > 0:
                waits.append(wait)
            else:
                settled.append(change)
        self._unsettled = unsettled
        return settled, min(waits, default=0.0)

    def _seen(self, path: NotePath, state: State, now: float) -> _Unsettled:
        """Return what is known of a file that lost text, this look at it included."""
        seen = self._unsettled.get(path)
        if seen is None:
            return _Unsettled(Stillness(state, now), now, now)
        if now - seen.last > FORGOTTEN_SECONDS:
            seen.first = now
        seen.last = now
        seen.still.seconds(state, now)
        return seen

    def _state(self, change: Change, scan: FileScan, folders: dict[str, int]) -> State:
        if change.type is ChangeType.MODIFIED:
            return scan.files[change.path]
        folder = change.path.rpartition("/")[0]
        if folder not in folders:
            folders[folder] = self._files.last_touched_ns(NotePath(folder))
        return folders[folder]
