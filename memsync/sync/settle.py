"""Saves in progress: many editors empty a file and write it again, or rename it away and create it anew.

For that moment the file is empty, short or absent, and an index that believed it would lose the note. So a change
that takes text away is believed only once the file has stood still a little; one that adds text is believed at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from memsync.model import Change, ChangeType, IndexedFile, NotePath
from memsync.notes.files import FileScan, Identity, NoteFiles

SHRUNK_NS = 40_000_000
GONE_NS = 100_000_000
EMPTIED_NS = 500_000_000
LONGEST_NS = 2_000_000_000
"""For how long a change may be put off in all: a file that is emptied again and again is believed after this."""


class Settling:
    """Tells which changes are to wait, and for how long. `now_ns` is the wall clock, in nanoseconds."""

    def __init__(self, files: NoteFiles) -> None:
        self._files = files
        self._first_put_off: dict[NotePath, int] = {}

    def divide(
        self, changes: list[Change], scan: FileScan, known: Mapping[NotePath, IndexedFile], now_ns: int
    ) -> tuple[list[Change], float]:
        """Return the changes to believe now, and in how many seconds the next of the others will be; 0 if none waits.

        Of an unsettled deletion the file itself is gone, so its folder's ctime tells when.
        """
        settled, waits = [], []
        folders: dict[str, int] = {}
        put_off: dict[NotePath, int] = {}
        for change in changes:
            wait = self._wait_ns(change, scan, known, folders, now_ns)
            first = self._first_put_off.get(change.path, now_ns)
            if wait <= 0 or not 0 <= now_ns - first < LONGEST_NS:
                settled.append(change)
            else:
                put_off[change.path] = first
                waits.append(wait)
        not_looked_at = {path: first for path, first in self._first_put_off.items() if scan.is_unknown(path)}
        self._first_put_off = not_looked_at | put_off
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
        return _left(GONE_NS, folders[folder], now_ns)


def unsettled_ns(identity: Identity, indexed_size: int, now_ns: int) -> int:
    """Return for how many nanoseconds a file that lost text is not to be believed yet; 0 or less when it is."""
    size, _, ctime_ns, _ = identity
    if size >= indexed_size:
        return 0
    return _left(SHRUNK_NS if size else EMPTIED_NS, ctime_ns, now_ns)


def _left(limit_ns: int, touched_ns: int, now_ns: int) -> int:
    """Return what is left of a limit; nothing if the file system's clock is ahead of ours."""
    age = now_ns - touched_ns
    return limit_ns - age if 0 <= age < limit_ns else 0
