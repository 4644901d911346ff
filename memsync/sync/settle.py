"""Which changes are to be believed now, and which may be a save in progress (notes/settling.py)."""

from __future__ import annotations

from collections.abc import Mapping

from memsync.model import Change, ChangeType, IndexedFile, NotePath
from memsync.notes.files import FileScan, NoteFiles
from memsync.notes.settling import unsettled_absence_ns, unsettled_ns

LONGEST_NS = 2_000_000_000
"""For how long a change may be put off in all: a file that is emptied again and again is believed after this."""
FORGOTTEN_NS = 1_000_000_000
"""A change that was not looked at for so long, because who waited gave up before it settled, is put off anew."""


class Settling:
    """Tells which changes are to wait, and for how long. `now_ns` is the wall clock, in nanoseconds."""

    def __init__(self, files: NoteFiles) -> None:
        self._files = files
        self._unsettled: dict[NotePath, tuple[int, int]] = {}  # seen so when first, when last

    def divide(
        self, changes: list[Change], scan: FileScan, known: Mapping[NotePath, IndexedFile], now_ns: int
    ) -> tuple[list[Change], float]:
        """Return the changes to believe now, and in how many seconds the next of the others will be; 0 if none waits.

        Of an unsettled deletion the file itself is gone, so its folder's ctime tells when.
        """
        settled, waits = [], []
        folders: dict[str, int] = {}
        unsettled: dict[NotePath, tuple[int, int]] = {}
        for change in changes:
            wait = self._wait_ns(change, scan, known, folders, now_ns)
            first, last = self._unsettled.get(change.path, (now_ns, now_ns))
            if now_ns - last > FORGOTTEN_NS:
                first = now_ns
            if wait > 0:  # remembered if believed, too: it is asked for again before it is committed
                unsettled[change.path] = (first, now_ns)
            if wait > 0 and 0 <= now_ns - first < LONGEST_NS:
                waits.append(wait)
            else:
                settled.append(change)
        not_looked_at = {path: times for path, times in self._unsettled.items() if scan.is_unknown(path)}
        self._unsettled = not_looked_at | unsettled
        return settled, min(waits, default=0) / 1e9

    def _wait_ns(
        self,
        change: Change,
        scan: FileScan,
        known: Mapping[NotePath, IndexedFile],
        folders: dict[str, int],
        now_ns: int,
    ) -> int:
        if change.type is ChangeType.ADDED:
            return 0
        if change.type is ChangeType.MODIFIED:
            return unsettled_ns(scan.files[change.path], known[change.path].size, now_ns)
        folder = change.path.rpartition("/")[0]
        if folder not in folders:
            folders[folder] = self._files.last_touched_ns(NotePath(folder))
        return unsettled_absence_ns(folders[folder], now_ns)
