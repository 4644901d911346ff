"""The dates that notes have from commits: as of which HEAD the index has them, and how they are brought up to date."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from memsync.notes.git_files import HeadState
from memsync.ports import Index, IndexReader

SEARCH_SECONDS = 1.0
"""A search gives git at least so long, so that a history is not given up because a note took the deadline."""
SYNC_SECONDS = 60.0
_KEY = "dates"


@dataclass(frozen=True, slots=True)
class KnownDates:
    """What the index has its dates from: the state of HEAD (see HeadState), and why there are none, if that is so.

    `seconds` is how long git was given; 0 where that is not what it failed of.
    """

    state: str = ""
    reason: str = ""
    seconds: float = 0.0

    def are_of(self, head: HeadState) -> bool:
        """Tell whether they are what can be had of a HEAD."""
        return self.state == head.name and (bool(head.name) or self.reason == head.reason)

    def are_worth_another_try(self, seconds: float) -> bool:
        """Tell whether git has failed of a much shorter time only."""
        return 0 < self.seconds < seconds / 2


def read_dates(reader: IndexReader) -> KnownDates:
    """Return what the index says of its dates."""
    return KnownDates(*json.loads(reader.meta(_KEY) or "[]"))


def bring_up_to_date(index: Index, root: Path, head: HeadState, seconds: float) -> None:
    """Read the history of a HEAD and date the notes by it; nothing is parsed or embedded for that."""
    from memsync.notes.history import (  # which loads what runs processes: most searches need none of it
        History,
        read_history,
    )

    with index.reading() as reader:
        dates = read_dates(reader)
        before = History(dates.state, dates.reason, reader.history())
    history = read_history(root, head, seconds, before)
    known = KnownDates(history.state, history.reason, seconds if history.is_too_slow else 0.0)
    with index.writing() as writer:
        writer.put_history(history.notes)
        writer.set_meta(_KEY, json.dumps([known.state, known.reason, known.seconds]))
