"""Keep the memory tidy: find duplicate and unused notes, report use, move notes that are due to archive/ and back."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from msgspec.structs import replace

from memsync.errors import NoteError, WriteRefused
from memsync.model.query import IndexedNote
from memsync.model.upkeep import Duplicates, NoteUse, Place, Pruning, Repetition, Retirement, Stale, Stats
from memsync.model.vocabulary import NotePath, Tier
from memsync.notes.dates import begun, counted_from, days_since, expires_at, here_since, is_kept_for_good, last_active
from memsync.notes.rules import ARCHIVE_FOLDER, describes_folder
from memsync.operation import Cli, Command, operation
from memsync.ports import Progress, no_progress

if TYPE_CHECKING:
    from memsync.edit.archive import Moved
    from memsync.workspace import Workspace

MAX_DAYS = 36_500
MAX_NOTES = 2**53
MIN_TOKENS = 8
"""Shorter passages ("Yes.", "Open questions") recur in many notes without being duplicates."""
MAX_PAIRS = 10_000
MAX_COMPARED = 40_000
"""Number of passages compared with each other, unless `compare_all`. Takes ten seconds; twice as many take forty."""
MIN_SIMILARITY = 0.7
"""Passages with a lower cosine only share a topic."""
MAX_SHARE = 0.1
"""Share of the notes that may be archived at once without `force`."""


# --------------------------------------------------------------------------------------------- duplicates


@operation(
    Command(
        "duplicates",
        help="Print passages that several notes contain, word for word or nearly so, most similar first.",
        notes="It compares each passage with every other; you can interrupt it at any time.",
        runs_here=True,
    ),
    is_slow=True,
)
def duplicates(
    memory: Workspace,
    *,
    similarity: Annotated[
        float, Meta(ge=MIN_SIMILARITY, le=1, description="Minimum similarity (1: identical apart from links).")
    ] = 0.95,
    limit: Annotated[int, Meta(ge=1, le=2**53, description="How many to show."), Cli(("-n",))] = 50,
    compare_all: Annotated[
        bool, Meta(description="Compare all passages, not only the 40,000 longest."), Cli(("--all",))
    ] = False,
    progress: Progress = no_progress,
) -> Duplicates:
    """Return passages that several notes contain, equal or with a cosine of at least `similarity`.

    Compares only the 40,000 longest passages unless `compare_all`, but finds every passage that is equal to another.
    """
    max_compared = sys.maxsize if compare_all else MAX_COMPARED
    with memory.as_of_now() as (reader, pending):
        groups, left_out = reader.repetitions(similarity, MIN_TOKENS, MAX_PAIRS, max_compared, progress)
        space = reader.active_space()
        waiting = reader.pending(space) if space else reader.counts().passages
    repetitions = []
    for score, places in groups[:limit]:
        texts = {_quote(memory, place) for place in places} if score == 1 else set()
        text = _quote(memory, places[0])
        repetitions.append(Repetition(score, tuple(places), text, is_equal=len(texts) == 1))
    return Duplicates(tuple(repetitions), pending, waiting, left_out)


def _quote(memory: Workspace, place: Place) -> str:
    """Return the current lines of a place; empty if its note is gone or unreadable."""
    try:
        note = memory.editor.read(place.path)
    except (OSError, NoteError):
        return ""
    return "\n".join(note.lines[place.start_line - 1 : place.end_line]) if note else ""


# ---------------------------------------------------------------------------------------------------- use


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
        notes = reader.notes()
    used = memory.usage.used("")
    stale_notes = unused(notes, used.notes, date.today(), days)
    return Stale(tuple(stale_notes[:limit]), used.counted_since, _counting_faults(memory), pending)


@operation(
    Command(
        "stats",
        help="Print how the memory is used: searches and their latency, notes most and never retrieved, growth.",
        notes="The counts stay on this machine. Queries are stored only with `queries = true` under [usage].",
    )
)
def stats(
    memory: Workspace,
    *,
    days: Annotated[int, Meta(ge=0, le=MAX_DAYS, description="Searches of the last N days."), Cli(metavar="N")] = 30,
    limit: Annotated[int, Meta(ge=0, le=MAX_NOTES, description="How many notes to show."), Cli(("-n",))] = 10,
) -> Stats:
    """Return how the memory was used: searches, their latency, notes most and never retrieved, growth."""
    with memory.as_of_now() as (reader, pending):
        notes = reader.notes()
    since = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds")
    used = memory.usage.used(since)
    current = {note.path: note for note in notes if not note.archived}
    retrieved = [use for path, use in used.notes.items() if path in current]
    never = [NoteUse(path, 0, "", last_active(note)) for path, note in current.items() if path not in used.notes]
    return Stats(
        since=since,
        counted_since=used.counted_since,
        searches=len(used.milliseconds),
        empty=used.empty,
        p50_ms=_percentile(used.milliseconds, 0.5),
        p95_ms=_percentile(used.milliseconds, 0.95),
        most_retrieved=tuple(
            NoteUse(use.path, use.retrieved, use.last_retrieved, last_active(current[use.path]))
            for use in sorted(retrieved, key=lambda use: (-use.retrieved, use.path))[:limit]
        ),
        never_retrieved=tuple(sorted(never, key=lambda use: (use.last_active, use.path))[:limit]),
        never_count=len(never),
        growth=tuple(used.growth),
        queries=tuple(used.queries),
        warnings=_counting_faults(memory),
        pending_text=pending,
    )


def unused(notes: Iterable[IndexedNote], used: Mapping[NotePath, NoteUse], today: date, days: int) -> Sequence[NoteUse]:
    """Return the notes that are older than `days` and were not retrieved for that long, oldest first.

    Personal and pinned notes never count as unused: every context includes them.
    """
    unused_notes = []
    for note in notes:
        if is_kept_for_good(note) or days_since(counted_from(note), today) <= days:
            continue
        use = used.get(note.path, NoteUse(note.path))
        if not use.last_retrieved or (today - date.fromisoformat(use.last_retrieved[:10])).days > days:
            unused_notes.append(NoteUse(note.path, use.retrieved, use.last_retrieved, last_active(note)))
    return sorted(unused_notes, key=lambda use: (use.last_active, use.path))


def _counting_faults(memory: Workspace) -> tuple[str, ...]:
    off = "" if memory.settings["usage.count"] else "nothing is counted: [usage] count is off in the settings"
    return tuple(filter(None, [off, memory.usage.fault]))


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of the values do not exceed; 0 without any."""
    return round(ordered[max(0, math.ceil(len(ordered) * share) - 1)], 1) if ordered else 0.0


# ------------------------------------------------------------------------------------------------ archive


@operation(writes=True, is_slow=True)
def prune(
    memory: Workspace,
    *,
    days: Annotated[
        int, Meta(ge=1, le=MAX_DAYS, description="Age of task memory in days. [default: prune.task_days, 30]")
    ] = 0,
    apply: Annotated[bool, Meta(description="Move them. Without it they are only shown.")] = False,
    force: Annotated[bool, Meta(description="Move them even if they are more than 10 % of all notes.")] = False,
) -> Pruning:
    """Return the notes due to be archived (old task memory, expired notes); with `apply`, move them to archive/.

    Personal and pinned notes stay. Raises WriteRefused when more than a tenth of the notes would move, unless `force`.
    """
    with memory.as_of_now() as (reader, pending):
        notes = reader.notes()
    retirements, warnings = due(notes, datetime.now().astimezone(), days or memory.settings["prune.task_days"])
    retirements = memory.archive.with_free_targets(retirements)
    kept = sum(not note.archived for note in notes)
    is_refused = is_too_much(len(retirements), kept) and not force
    plan = Pruning(tuple(retirements), (), kept, is_refused, (), tuple(warnings), pending)
    if not apply:
        return plan
    if is_refused:
        raise WriteRefused(
            f"{len(retirements)} of {kept} notes are due, more than a tenth, and none was moved",
            hint="Look at them with memsync prune; if that is right: memsync prune --apply --force",
        )
    return _done(memory, plan, memory.archive.retire(retirements, {note.path: note.mtime_ns for note in notes}))


@operation(writes=True, is_slow=True)
def undo_prune(memory: Workspace) -> Pruning:
    """Move back what the last `prune` moved. Raises UsageError when there is nothing to undo."""
    moved = memory.archive.undo()
    back = tuple(Retirement(source, target, "", "moved back") for source, target in moved.moves)
    return _done(memory, Pruning(back, (), 0), moved)


def _done(memory: Workspace, plan: Pruning, moved: Moved) -> Pruning:
    """Return the plan with its result: the notes moved, the failures, and a warning if the index misses a target."""
    with memory.as_of_now() as (reader, pending):
        notes = reader.notes()
    sources = {source for source, _ in moved.moves}
    known = {note.path for note in notes}
    unindexed = next((target for _, target in moved.moves if target not in known), "") if not pending else ""
    left_out = f"no search finds {unindexed}: .gitignore or [files] exclude leaves it out" if unindexed else ""
    return replace(
        plan,
        moved=tuple(retirement for retirement in plan.due if retirement.path in sources),
        notes=plan.notes or sum(not note.archived for note in notes),
        failed=tuple(moved.failed),
        warnings=(*plan.warnings, *filter(None, (left_out, moved.complaint))),
        pending_text=pending,
    )


def due(notes: Iterable[IndexedNote], now: datetime, task_days: int) -> tuple[list[Retirement], list[str]]:
    """Return the notes that are due at `now`, by path, and a warning for each `expires` that cannot be parsed.

    A note with `expires` is due at that time. Task memory without it is due when it is older than `task_days`; a note
    that a clone or pull brought ages from its arrival. Never due: personal and pinned notes, a README.md that
    describes its folder, and a note whose `expires` cannot be parsed.
    """
    retirements, warnings = [], []
    for note in notes:
        if is_kept_for_good(note) or describes_folder(note.path):
            continue
        expires = note.front_matter.get("expires")
        if expires is None:
            age = days_since(here_since(note), now.date())
            reason = f"{note.tier}, {age} days old" if note.tier is Tier.TASK and age > task_days else ""
        else:
            moment = expires_at(expires, begun(note)) if isinstance(expires, str) else None
            if moment is None:
                warnings.append(f"{note.path} is kept: cannot parse expires {expires!r}: write 2026-11-21 or 30d")
            reason = f"expired {moment:%Y-%m-%d}" if moment is not None and moment <= now else ""
        if reason:
            target = NotePath(f"{ARCHIVE_FOLDER}{note.path}")
            shown = last_active(note) if expires is not None else here_since(note)
            retirements.append(Retirement(note.path, target, shown, reason))
    return retirements, warnings


def is_too_much(count: int, notes: int) -> bool:
    """Tell whether `count` of `notes` notes are too many to archive without `force`."""
    return count > notes * MAX_SHARE
