"""`memsync forget`: delete what the notes have of a user, or what an index has of a memory."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from memsync.cli.build import run_on
from memsync.cli.common import json_option, opened_here
from memsync.cli.output import NO_EXIT_CODE, remark, say_answer, say_json
from memsync.cli.render import forgetting, remarks
from memsync.errors import UsageError
from memsync.features.forgetting import forget as forget_operation
from memsync.features.forgetting import purge_forgotten, undo_forget
from memsync.model.text import count, printable

if TYPE_CHECKING:
    from memsync.model.status import HeldByIndex

_NOT_DELETED = "Nothing was deleted; --apply deletes it. The notes themselves stay in any case."
_NOT_OWN = "Nothing was deleted; --apply --take-over deletes it, if its writer is gone for good. The notes stay."


@click.command()
@click.option("--user", metavar="NAME", help="The user.")
@click.option("--root", "root_name", metavar="NAME", help="The index of a whole memory instead; its notes stay.")
@click.option("--apply", "is_applied", is_flag=True, help="Delete it. Without --apply it is only shown.")
@click.option("--take-over", is_flag=True, help="--root: also if another machine or folder writes it to the database.")
@click.option("--undo", is_flag=True, help="Put back what --apply took out, of this user or of everyone.")
@click.option("--purge", is_flag=True, help="Delete what --apply kept for good, of this user or of everyone.")
@json_option
@click.pass_context
def forget(
    context: click.Context,
    user: str | None,
    root_name: str | None,
    is_applied: bool,
    take_over: bool,
    undo: bool,
    purge: bool,
    as_json: bool,
) -> None:
    """Show what the notes have of a user: threads, messages, preferences and patterns. --apply deletes it.

    A thread with `user: NAME` in its front matter goes as a whole. Of other notes go the messages, sections and list
    items with {user=NAME}, and the sections user:NAME of preferences.md. --apply keeps a copy of each note for --undo,
    until --purge deletes the copies. --purge also deletes what the journal has of it, and all recorded questions, but
    not the history of git.

    With --root, delete everything that the index has of the memory NAME, a registered one or one of the database that
    MEMSYNC_INDEX_DSN names. Its notes stay, and so does its name in the list. --apply first stops its daemon, which
    would keep the memory. If another machine writes the memory to a shared database, --apply requires --take-over.

    \b
    memsync forget --user ada
    memsync forget --user ada --apply
    memsync forget --undo
    memsync forget --purge
    memsync forget --root old-project --apply
    """
    if undo + purge + is_applied > 1:
        raise UsageError("--apply, --undo and --purge cannot be used together", hint="Use one of them.")
    if root_name is not None:
        if user is not None or undo or purge:
            hint = "Write: memsync forget --root NAME --apply"
            raise UsageError("--root takes only --apply and --take-over", hint=hint)
        _forget_memory(root_name, is_applied=is_applied, take_over=take_over, as_json=as_json)
        return
    if take_over:
        raise UsageError("--take-over requires --root", hint="Write: memsync forget --root NAME --apply --take-over")
    if user is None and not (undo or purge):
        hint = "Write: memsync forget --user NAME, or memsync forget --root NAME for the index of a whole memory"
        raise UsageError("forget requires --user NAME or --root NAME", hint=hint)
    if user is not None and not user.strip():
        raise UsageError("a user needs a name", hint="Write: memsync forget --user NAME")
    _forget_user(context, user, is_applied=is_applied, undo=undo, purge=purge, as_json=as_json)


def _forget_user(
    context: click.Context, user: str | None, *, is_applied: bool, undo: bool, purge: bool, as_json: bool
) -> None:
    """Show, delete, put back or purge what the notes have of a user; without `user`, of everyone."""
    arguments = {} if user is None else {"user": user}
    with opened_here(context) as memory:
        if undo:
            result = run_on(memory, undo_forget, arguments)
        elif purge:
            result = run_on(memory, purge_forgotten, arguments)
        else:
            result = run_on(memory, forget_operation, {**arguments, "apply": is_applied})
    if as_json:
        say_json(result)
    else:
        forgetting(result, is_applied=is_applied)
    remarks(result)
    if getattr(result, "failed", ()):
        sys.exit(NO_EXIT_CODE)


def _forget_memory(name: str, *, is_applied: bool, take_over: bool, as_json: bool) -> None:
    """Show or delete what an index has of a memory."""
    from memsync.wiring import forget_memory

    held = forget_memory(name, apply=is_applied, take_over=take_over)
    notes, passages = count(held.notes, "note", "notes"), count(held.passages, "passage", "passages")
    outcome = "deleted from" if is_applied else "in"
    writer = f"; written by {held.writer}, {f'synced {held.last_sync}' if held.last_sync else 'never synced'}"
    line = f"{name}: {notes} and {passages} {outcome} {held.place}{writer if held.writer else ''}"
    document = {"memory": name, "place": held.place, "notes": held.notes, "passages": held.passages}
    written = {"writer": held.writer, "last_sync": held.last_sync, "is_own": held.is_own}
    outcomes = {"deleted": is_applied, "registered": held.is_registered, "daemon_stopped": held.daemon_stopped}
    say_answer({**document, **written, **outcomes}, [printable(line)], as_json=as_json)
    if not as_json:
        for text in _what_stays(name, held) if is_applied else [_NOT_DELETED if held.is_own else _NOT_OWN]:
            remark(text)


def _what_stays(name: str, held: HeldByIndex) -> list[str]:
    """Return what a person should know after the index of a memory was deleted."""
    lines = ["Its daemon was stopped."] if held.daemon_stopped else []
    if held.folder:
        folder = printable(held.folder)
        lines.append(f"The notes stay in {folder}. The next search or sync there indexes them again.")
    else:
        lines.append("The notes stay where they are. The next sync there indexes them again.")
    if held.is_registered:
        lines.append(f"The memory stays registered. To remove it from the list, run: memsync roots remove {name}")
    return lines
