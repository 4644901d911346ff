"""Saves in progress: many editors empty a file and write it again, or rename it away and create it anew.

For that moment the file is empty, short or absent, and whoever believed it would lose the note. So what takes text away
is believed only once the file has stood still a little; what adds text is believed at once.
"""

from __future__ import annotations

import time

from memsync.model import FileStamp, NotePath
from memsync.notes.files import Identity, NoteFiles

SHRUNK_NS = 40_000_000
GONE_NS = 100_000_000
EMPTIED_NS = 500_000_000
LOOK_AGAIN_SECONDS = 0.01


def unsettled_ns(identity: Identity, indexed_size: int, now_ns: int) -> int:
    """Return for how many nanoseconds a file that lost text is not to be believed yet; 0 when it is."""
    size, _, ctime_ns, _ = identity
    if size >= indexed_size:
        return 0
    return _left(SHRUNK_NS if size else EMPTIED_NS, ctime_ns, now_ns)


def unsettled_absence_ns(folder_touched_ns: int, now_ns: int) -> int:
    """Return for how many nanoseconds a file's absence is not to be believed yet, by its folder's ctime."""
    return _left(GONE_NS, folder_touched_ns, now_ns)


def read_settled(files: NoteFiles, path: NotePath, indexed_size: int) -> tuple[bytes, FileStamp]:
    """Read a note that was `indexed_size` bytes long, once it is not being saved. Raises as NoteFiles.read does."""
    limit_ns = time.time_ns() + EMPTIED_NS
    while True:
        now_ns = time.time_ns()
        try:
            content, stamp = files.read(path)
            unsettled = unsettled_ns(stamp.identity, indexed_size, now_ns) > 0
            if not unsettled or now_ns >= limit_ns:
                return content, stamp
        except FileNotFoundError:
            if unsettled_absence_ns(files.last_touched_ns(path), now_ns) <= 0 or now_ns >= limit_ns:
                raise
        time.sleep(LOOK_AGAIN_SECONDS)


def _left(limit_ns: int, touched_ns: int, now_ns: int) -> int:
    """Return what is left of a limit; nothing if the file system's clock is ahead of ours."""
    age = now_ns - touched_ns
    return limit_ns - age if 0 <= age < limit_ns else 0
