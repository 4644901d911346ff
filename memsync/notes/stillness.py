"""Saves in progress: many editors empty a file and write it again, or rename it away and create it anew.

For that moment the file is empty, short or absent, and whoever believed it would lose the note. So what takes text away
is believed only once the file has stood still a little; what adds text is believed at once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from memsync.model.note import FileStamp
from memsync.model.vocabulary import NotePath
from memsync.notes.files import Identity, NoteFiles

SHRUNK_SECONDS = 0.04
GONE_SECONDS = 0.1
EMPTIED_SECONDS = 0.5
LOOK_AGAIN_SECONDS = 0.01

State = Identity | int
"""What a file looks like: its identity; when it is gone, the ctime of the nearest folder above it that is there."""


def stillness_needed(state: State, indexed_size: int) -> float:
    """Return for how many seconds a file must look like this before that is believed; 0 if it lost no text."""
    if isinstance(state, int):
        return GONE_SECONDS
    size = state[0]
    if size >= indexed_size:
        return 0.0
    return SHRUNK_SECONDS if size else EMPTIED_SECONDS


@dataclass(slots=True)
class Stillness:
    """Since when a file was seen in one state (monotonic clock).

    File stamps cannot tell that: they and this machine's wall clock disagree after either clock was set.
    """

    state: State
    since: float

    def seconds(self, state: State, now: float) -> float:
        """Be told what the file looks like now, and return for how long it was seen so."""
        if state != self.state:
            self.state, self.since = state, now
        return now - self.since


def read_settled(files: NoteFiles, path: NotePath, indexed_size: int, until: float) -> tuple[bytes, FileStamp]:
    """Read a note that was `indexed_size` bytes long, once it is not being saved.

    After `until` (monotonic clock) it is read as it is. Raises as NoteFiles.read does.
    """
    still: Stillness | None = None
    while True:
        now = time.monotonic()
        found: tuple[bytes, FileStamp] | None = None
        try:
            found = files.read(path)
            state: State = found[1].identity
        except FileNotFoundError:
            state = files.last_touched_ns(path)
            if _has_settled(still, state, indexed_size, now, until):
                raise
        if found is not None and _has_settled(still, state, indexed_size, now, until):
            return found
        still = still or Stillness(state, now)
        still.seconds(state, now)
        time.sleep(LOOK_AGAIN_SECONDS)


def _has_settled(still: Stillness | None, state: State, indexed_size: int, now: float, until: float) -> bool:
    """Tell whether a file is to be believed: by its stamp if that lies in the past, else by what was seen of it.

    Here a stamp may count. Before a strict search reads a hit, its comparison has seen the file stand still; and a
    search of a stale index must not wait for each file that went long ago.
    """
    needed = stillness_needed(state, indexed_size)
    if needed == 0 or now >= until:
        return True
    age_ns = time.time_ns() - (state if isinstance(state, int) else state[2])
    if age_ns >= 0:
        return age_ns >= needed * 1e9
    return still is not None and still.seconds(state, now) >= needed
