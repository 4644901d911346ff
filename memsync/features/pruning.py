"""Move the notes that are due (old task memory, expired notes) to archive/, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from msgspec.structs import replace

from memsync.edit.run_records import Work
from memsync.errors import UsageError, WriteRefused
from memsync.model.text import count, not_shared
from memsync.model.upkeep import Pruning, Retirement
from memsync.notes.prune_ages import due
from memsync.operation import Command, operation
from memsync.system import clock

if TYPE_CHECKING:
    from memsync.edit.runs import Outcome
    from memsync.workspace import Workspace

SECTION = "Upkeep"

MAX_DAYS = 36_500
MAX_SHARE = 0.1
"""Share of the notes that may be archived at once without `force`."""


@operation(
    Command(
        "prune",
        help="Show notes that are due to be archived: old task memory and expired notes. --apply moves them to "
        "archive/.",
        notes="Nothing is deleted, and folders are kept. Searches find archived notes with is:archived. Personal and "
        "pinned notes are never due.",
        examples=("memsync prune", "memsync prune --apply", "memsync prune --undo"),
    ),
    writes=True,
    is_slow=True,
)
def prune(
    memory: Workspace,
    *,
    days: Annotated[
        int, Meta(ge=1, le=MAX_DAYS, description="Age of task memory in days. [default: prune.task_days, 30]")
    ] = 0,
    apply: Annotated[bool, Meta(description="Move them. Without it they are only shown.")] = False,
    force: Annotated[bool, Meta(description="Move them even if they are more than 10 % of all notes.")] = False,
    undo: Annotated[bool, Meta(description="Move back what was moved last.")] = False,
) -> Pruning:
    """Return the notes due to be archived (old task memory, expired notes); with `apply`, move them to archive/.

    Personal and pinned notes stay. With `undo` it is `undo_prune`. Raises WriteRefused when more than a tenth of the
    notes would move, unless `force`.
    """
    if undo:
        if days or apply or force:
            raise UsageError("undo takes no other options", hint="Write: memsync prune --undo")
        return undo_prune.function(memory)
    with memory.as_of_now() as (reader, pending):
        notes, hidden = reader.notes(), not_shared(reader.not_shared())
    retirements, warnings = due(notes, clock.now().astimezone(), days or memory.settings["prune.task_days"])
    retirements = memory.archive.with_free_targets(retirements)
    kept = sum(not note.archived for note in notes)
    is_refused = len(retirements) > kept * MAX_SHARE and not force
    plan = Pruning(tuple(retirements), (), kept, is_refused, (), (*warnings, *hidden), pending)
    if not apply:
        return plan
    if is_refused:
        due_notes = f"{len(retirements):,} of {count(kept, 'note')} {'is' if len(retirements) == 1 else 'are'} due"
        raise WriteRefused(
            f"{due_notes}, more than a tenth, and none was moved",
            hint="Look at them with memsync prune; if that is right: memsync prune --apply --force",
        )
    return _done(memory, plan, memory.archive.retire(retirements, {note.path: note.mtime_ns for note in notes}))


@operation(writes=True, is_slow=True)
def undo_prune(memory: Workspace) -> Pruning:
    """Move back what the last `prune` moved. Raises UsageError when there is nothing to undo."""
    with memory.writer.lock():
        steps = memory.writer.runs.steps(Work.PRUNE)
        outcome = memory.archive.undo()
    back = tuple(Retirement(step.other, step.path, "", "moved back") for step in steps if step.run == steps[0].run)
    return _done(memory, Pruning(tuple(reversed(back)), (), 0), outcome)


def _done(memory: Workspace, plan: Pruning, outcome: Outcome) -> Pruning:
    """Return the plan with its result: the notes moved, the failures, and a warning if the index misses a target."""
    with memory.as_of_now() as (reader, pending):
        notes = reader.notes()
    moved = tuple(retirement for retirement in plan.due if retirement.target in outcome.paths)
    known = {note.path for note in notes}
    unindexed = next((one.target for one in moved if one.target not in known), "") if not pending else ""
    left_out = f"no search finds {unindexed}: .gitignore or [files] exclude leaves it out" if unindexed else ""
    return replace(
        plan,
        moved=moved,
        notes=plan.notes or sum(not note.archived for note in notes),
        failed=tuple(outcome.failed),
        warnings=(*plan.warnings, *filter(None, (left_out, outcome.complaint))),
        pending_text=pending,
        applied=True,
    )
