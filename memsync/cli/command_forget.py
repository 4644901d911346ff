"""`memsync forget`: delete what the notes contain about a user, or what an index holds of a memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memsync.cli.build import run_on, show
from memsync.cli.common import answering, json_option, opened_here
from memsync.cli.output import CommandAnswer
from memsync.errors import UsageError
from memsync.features.forgetting import forget as forget_operation
from memsync.features.forgetting import purge_forgotten, undo_forget
from memsync.model.text import count
from memsync.operation import Command

if TYPE_CHECKING:
    from memsync.model.status import HeldByIndex

SECTION = "Upkeep"

_NOT_DELETED = "Nothing was deleted; --apply deletes it. The notes themselves stay in any case."
_NOT_OWN = "Nothing was deleted; --apply --take-over deletes it, if its writer is gone for good. The notes stay."


@click.command()
@click.option("--user", metavar="NAME", help="The user.")
@click.option("--root", "root_name", metavar="NAME", help="The index of a whole memory instead; its notes stay.")
@click.option("--apply", is_flag=True, help="Delete it. Without --apply it is only shown.")
@click.option("--take-over", is_flag=True, help="With --root: proceed even if another machine or folder writes it.")
@click.option("--undo", is_flag=True, help="Put back what --apply took out, of this user or of everyone.")
@click.option(
    "--purge", is_flag=True, help="Permanently delete the copies that --apply kept, of this user or of everyone."
)
@json_option
@click.pass_context
def forget(
    context: click.Context, /, user: str | None, root_name: str | None, take_over: bool, as_json: bool, **modes: bool
) -> None:
    """Show what the notes contain about a user: threads, messages, preferences and patterns. --apply deletes it.

    A thread with `user: NAME` in its front matter goes as a whole. From other notes, it removes the messages, sections
    and list items with {user=NAME}, and the sections user:NAME of preferences.md. --apply keeps a copy of each note for
    --undo, until --purge deletes the copies. --purge also deletes what the journal holds of it, and all recorded
    questions, but not the history of git.

    With --root, delete everything that the index holds of the memory NAME, a registered one or one of the database that
    MEMSYNC_INDEX_DSN names. Its notes stay, and so does its name in the list. --apply first stops its daemon, which
    would keep the memory. If another machine writes the memory to a shared database, --apply requires --take-over.

    \b
    memsync forget --user ada
    memsync forget --user ada --apply
    memsync forget --undo
    memsync forget --purge
    memsync forget --root old-project --apply
    """
    if sum(modes.values()) > 1:
        raise UsageError("--apply, --undo and --purge cannot be used together", hint="Use one of them.")
    if root_name is not None:
        if user is not None or modes["undo"] or modes["purge"]:
            hint = "Write: memsync forget --root NAME --apply"
            raise UsageError("--root takes only --apply and --take-over", hint=hint)
        _forget_memory(name=root_name, is_applied=modes["apply"], take_over=take_over, as_json=as_json)
        return
    if take_over:
        raise UsageError("--take-over requires --root", hint="Write: memsync forget --root NAME --apply --take-over")
    if user is None and not (modes["undo"] or modes["purge"]):
        hint = "Write: memsync forget --user NAME, or memsync forget --root NAME for the index of a whole memory"
        raise UsageError("forget requires --user NAME or --root NAME", hint=hint)
    if user is not None and not user.strip():
        raise UsageError("a user needs a name", hint="Write: memsync forget --user NAME")
    operation = undo_forget if modes["undo"] else purge_forgotten if modes["purge"] else forget_operation
    arguments = {"user": user, "apply": modes["apply"]}
    with opened_here(context) as memory:
        result = run_on(memory, operation, {name: value for name, value in arguments.items() if value})
    show(context, result, operation, Command("forget"), as_json=as_json)


@answering
def _forget_memory(_: click.Context, name: str, is_applied: bool, take_over: bool) -> CommandAnswer:
    """Show or delete what an index holds of a memory."""
    from memsync.wiring import forget_memory

    held = forget_memory(name, apply=is_applied, take_over=take_over)
    size = f"{count(held.notes, 'note')} and {count(held.passages, 'passage')}"
    writer = f"; written by {held.writer}, {f'synced {held.last_sync}' if held.last_sync else 'never synced'}"
    line = f"{name}: {size} {'deleted from' if is_applied else 'in'} {held.place}{writer if held.writer else ''}"
    document = {"memory": name, "place": held.place, "notes": held.notes, "passages": held.passages}
    written = {"writer": held.writer, "last_sync": held.last_sync, "is_own": held.is_own}
    outcomes = {"deleted": is_applied, "registered": held.is_registered, "daemon_stopped": held.daemon_stopped}
    remarks = _what_stays(name, held) if is_applied else [_NOT_DELETED if held.is_own else _NOT_OWN]
    return CommandAnswer({**document, **written, **outcomes}, [line], remarks)


def _what_stays(name: str, held: HeldByIndex) -> list[str]:
    """Return what a person should know after the index of a memory was deleted."""
    lines = ["Its daemon was stopped."] if held.daemon_stopped else []
    if held.folder:
        lines.append(f"The notes stay in {held.folder}. The next search or sync there indexes them again.")
    else:
        lines.append("The notes stay where they are. The next sync there indexes them again.")
    if held.is_registered:
        lines.append(f"The memory stays registered. To remove it from the list, run: memsync roots remove {name}")
    return lines
