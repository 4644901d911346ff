"""Dates of notes from git commits: from which HEAD the index has them, and how to update them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from memsync.notes.git_files import HeadState
from memsync.ports import Index, IndexReader

SEARCH_SECONDS = 1.0
"""Minimum time that a search gives git, even if indexing notes has used up the search's deadline."""
SYNC_SECONDS = 60.0
_KEY = "dates"


@dataclass(frozen=True, slots=True)
class KnownDates:
    """The source of the dates in the index: the state of HEAD (see HeadState) or the reason why there are none.

    `seconds` is git's time limit if git failed because it was too slow, otherwise 0.
    """

    state: str = ""
    reason: str = ""
    seconds: float = 0.0

    def are_of(self, head: HeadState) -> bool:
        """Tell whether these are the best dates available for a HEAD."""
        return self.state == head.name and (bool(head.name) or self.reason == head.reason)

    def are_worth_another_try(self, seconds: float) -> bool:
        """Tell whether git was too slow, and its time limit was less than half of `seconds`."""
        return 0 < self.seconds < seconds / 2


def read_dates(reader: IndexReader) -> KnownDates:
    """Return the source of the dates in the index."""
    return KnownDates(*json.loads(reader.meta(_KEY) or "[]"))


def bring_up_to_date(index: Index, head: HeadState, seconds: float) -> None:
    """Read the history of a HEAD and store the notes' dates. Parses and embeds nothing."""
    # Imported here, because it imports subprocess, which most searches do not need.
    from memsync.notes.commit_dates import CommitDates, read_history

    with index.reading() as reader:
        dates = read_dates(reader)
        before = CommitDates(dates.state, dates.reason, reader.history())
    history = read_history(head, seconds, before)
    known = KnownDates(history.state, history.reason, seconds if history.is_too_slow else 0.0)
    with index.writing() as writer:
        writer.put_history(history.notes)
        writer.set_meta(_KEY, json.dumps([known.state, known.reason, known.seconds]))
