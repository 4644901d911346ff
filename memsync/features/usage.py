"""Report old notes that are not used, the number and latency of searches, and the growth of the index."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from memsync.model.text import not_shared
from memsync.model.upkeep import DayOfSearches, NoteUse, Stale, Stats
from memsync.notes.dates import last_active
from memsync.notes.prune_ages import unused
from memsync.operation import Cli, Command, operation
from memsync.system import clock

if TYPE_CHECKING:
    from memsync.workspace import Workspace

SECTION = "Upkeep"

MAX_DAYS = 36_500
MAX_NOTES = 2**53


@operation(
    Command(
        "stale",
        help="Print notes that were neither edited nor retrieved recently, oldest first.",
        notes="Personal and pinned notes are left out.",
    )
)
def stale(
    memory: Workspace,
    *,
    days: Annotated[int, Meta(ge=0, le=MAX_DAYS, description="Days without an edit or a retrieval.")] = 90,
    limit: Annotated[int, Meta(ge=0, le=MAX_NOTES, description="How many to show."), Cli(("-n",))] = 50,
) -> Stale:
    """Return notes that were neither edited nor retrieved for `days`, oldest first."""
    with memory.as_of_now() as (reader, pending):
        notes, warnings = reader.notes(), not_shared(reader.not_shared())
    used = memory.usage.used("")
    stale_notes = unused(notes, used.notes, clock.today(), days)
    warnings = (*_counting_faults(memory), *warnings)
    return Stale(tuple(stale_notes[:limit]), used.counted_since, warnings, pending)


@operation(
    Command(
        "stats",
        help="Print how the memory was used (status: what it holds): searches, notes most and never retrieved, growth.",
        notes="The counts stay on this machine. Queries are stored only with `queries = true` under [usage].",
        fixed={"limit": MAX_NOTES},
        first=10,
    )
)
def stats(
    memory: Workspace,
    *,
    days: Annotated[int, Meta(ge=0, le=MAX_DAYS, description="Searches of the last N days."), Cli(metavar="N")] = 30,
    limit: Annotated[int, Meta(ge=0, le=MAX_NOTES, description="How many notes to return.")] = 10,
) -> Stats:
    """Return how the memory was used: searches, their latency, notes most and never retrieved, growth."""
    # Imported here, because a process that only declares this operation opens no database.
    from memsync.search.retrievals import percentile

    with memory.as_of_now() as (reader, pending):
        notes, warnings = reader.notes(), not_shared(reader.not_shared())
    since = (clock.utc() - timedelta(days=days)).isoformat(timespec="seconds")
    used = memory.usage.used(since)
    current = {note.path: note for note in notes if not note.archived}
    retrieved = [use for path, use in used.notes.items() if path in current]
    never = [NoteUse(path, 0, "", last_active(note)) for path, note in current.items() if path not in used.notes]
    return Stats(
        since=since,
        counted_since=used.counted_since,
        searches=len(used.searches),
        empty=used.empty,
        p50_ms=round(percentile(used.milliseconds, 0.5), 1),
        p95_ms=round(percentile(used.milliseconds, 0.95), 1),
        most_retrieved=tuple(
            NoteUse(use.path, use.retrieved, use.last_retrieved, last_active(current[use.path]))
            for use in sorted(retrieved, key=lambda use: (-use.retrieved, use.path))[:limit]
        ),
        never_retrieved=tuple(sorted(never, key=lambda use: (use.last_active, use.path))[:limit]),
        never_count=len(never),
        growth=tuple(used.growth),
        by_day=tuple(_asked(day, list(searches)) for day, searches in groupby(used.searches, itemgetter(0))),
        queries=tuple(used.queries),
        warnings=(*_counting_faults(memory), *warnings),
        pending_text=pending,
    )


def _asked(day: str, searches: Sequence[tuple[str, float, int]]) -> DayOfSearches:
    from memsync.search.retrievals import percentile

    median = percentile((ms for _, ms, _ in searches), 0.5)
    return DayOfSearches(day, len(searches), sum(not hits for _, _, hits in searches), round(median, 1))


def _counting_faults(memory: Workspace) -> tuple[str, ...]:
    off = "" if memory.settings["usage.count"] else "nothing is counted: [usage] count is off in the settings"
    return tuple(filter(None, [off, memory.usage.fault]))
