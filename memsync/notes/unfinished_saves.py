"""Wait for saves to finish: many editors empty a file and write it again, or rename it and create a new one.

For a moment the file is empty, short or missing; reading it then would lose the note. So a change that removes text
counts only after the file has not changed for a short time. A change that adds text counts at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from memsync.model.note import FileStamp
from memsync.model.vocabulary import NotePath
from memsync.notes.files import Identity, NoteFiles
from memsync.system import clock

SHRUNK_SECONDS = 0.04
GONE_SECONDS = 0.1
EMPTIED_SECONDS = 0.5
LOOK_AGAIN_SECONDS = 0.01

State = Identity | int
"""A file's identity, or for a missing file the ctime of the nearest existing folder above it."""


def stillness_needed(state: State, indexed_size: int) -> float:
    """Return for how many seconds a file must stay in this state before it counts; 0 if it did not shrink."""
    if isinstance(state, int):
        return GONE_SECONDS
    size = state[0]
    if size >= indexed_size:
        return 0.0
    return SHRUNK_SECONDS if size else EMPTIED_SECONDS


@dataclass(slots=True)
class Stillness:
    """Since when a file has been in one state (monotonic clock).

    File times cannot tell: they disagree with this machine's clock after either clock was set.
    """

    state: State
    since: float

    def seconds(self, state: State, now: float) -> float:
        """Record the file's state now and return for how many seconds it has been the same."""
        if state != self.state:
            self.state, self.since = state, now
        return now - self.since


def read_settled(files: NoteFiles, path: NotePath, indexed_size: int, until: float) -> tuple[bytes, FileStamp]:
    """Read a note once no save is in progress; `indexed_size` is its size in bytes in the index.

    After `until` (monotonic clock), read it as it is. Raises as NoteFiles.read does.

    A file is still for as long as its ctime says or, if that is in the future, as it was observed. The ctime suffices:
    a strict search has already seen the file stay unchanged before it reads a hit, and a search of a stale index must
    not wait for each file that was deleted long ago.
    """
    observed: Stillness | None = None
    while True:
        now = clock.monotonic()
        result: tuple[bytes, FileStamp] | FileNotFoundError
        try:
            result = files.read(path)
            state: State = result[1].identity
        except FileNotFoundError as error:
            result, state = error, files.last_touched_ns(path)
        observed = observed or Stillness(state, now)
        still = observed.seconds(state, now)
        if (age_ns := clock.time_ns() - (state if isinstance(state, int) else state[2])) >= 0:
            still = age_ns / 1e9
        if now >= until or still >= stillness_needed(state, indexed_size):
            if isinstance(result, FileNotFoundError):
                raise result
            return result
        clock.sleep(LOOK_AGAIN_SECONDS)
