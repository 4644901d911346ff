"""Commands that are made of several operations: `prune` with `--undo`, `forget`, `recover`, `pref get`."""

from __future__ import annotations

import sys
from typing import Any

import click
from msgspec.structs import replace

from memsync.cli.build import arguments_of, option, run_on, with_parameters
from memsync.cli.common import json_option, opened, opened_here
from memsync.cli.output import NO_EXIT_CODE, count, local_time, remark, say_answer, say_json
from memsync.cli.render import forgetting, pruning, remarks
from memsync.errors import UsageError
from memsync.features.forgetting import forget as forget_operation
from memsync.features.forgetting import purge_forgotten, undo_forget
from memsync.features.preferences import preferences
from memsync.features.pruning import prune as prune_operation
from memsync.features.recovery import MAX_DAYS, overwritten
from memsync.model.text import printable
from memsync.model.written import Overwritten


@click.option("--undo", is_flag=True, help="Move back what the last --apply moved.")
@json_option
@click.pass_context
def _prune(context: click.Context, /, undo: bool, as_json: bool, **given: Any) -> None:
    """Show notes that are due to be archived: old task memory and expired notes. --apply moves them to archive/.

    Nothing is deleted, and folders are kept. Searches find archived notes with is:archived. Personal and pinned notes
    are never due.

    \b
    memsync prune
    memsync prune --apply
    memsync prune --undo
    """
    arguments = arguments_of(context, prune_operation, given)
    if undo and arguments:
        raise UsageError("--undo takes no other options", hint="Write: memsync prune --undo")
    with opened(context) as memory:
        try:
            result = memory.undo_prune() if undo else memory.run(prune_operation, **arguments)
        except KeyboardInterrupt:
            remark("memsync prune --undo moves back what has moved")
            raise
    is_applied = undo or "apply" in arguments
    if as_json:
        say_json(result)
    else:
        pruning(result, is_applied=is_applied)
    remarks(replace(result, pending_text=0) if is_applied else result)
    if result.failed:
        sys.exit(NO_EXIT_CODE)


prune = click.command("prune")(with_parameters(prune_operation, _prune))


@click.command()
@click.option("--user", metavar="NAME", help="The user.")
@click.option("--apply", "is_applied", is_flag=True, help="Delete it. Without --apply it is only shown.")
@click.option("--undo", is_flag=True, help="Put back what --apply took out, of this user or of everyone.")
@click.option("--purge", is_flag=True, help="Delete what --apply kept for good, of this user or of everyone.")
@json_option
@click.pass_context
def forget(context: click.Context, user: str | None, is_applied: bool, undo: bool, purge: bool, as_json: bool) -> None:
    """Show what the notes have of a user: threads, messages, preferences and patterns. --apply deletes it.

    A thread with `user: NAME` in its front matter goes as a whole. Of other notes go the messages, sections and list
    items with {user=NAME}, and the sections user:NAME of preferences.md. --apply keeps a copy of each note for --undo,
    until --purge deletes the copies. --purge also deletes what the journal and recorded questions have of it, but not
    the history of git.

    \b
    memsync forget --user ada
    memsync forget --user ada --apply
    memsync forget --undo
    memsync forget --purge
    """
    if undo + purge + is_applied > 1:
        raise UsageError("--apply, --undo and --purge cannot be used together", hint="Use one of them.")
    if user is None and not (undo or purge):
        raise UsageError("forget requires --user NAME", hint="Write: memsync forget --user NAME")
    if user is not None and not user.strip():
        raise UsageError("a user needs a name", hint="Write: memsync forget --user NAME")
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


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "--apply",
    "is_applied",
    is_flag=True,
    help="Append the entries ID again; without ID, all except edited and deleted ones.",
)
@click.option("--dismiss", is_flag=True, help="Forget the entries ID: they were deleted on purpose.")
@option(overwritten.values["days"])
@json_option
@click.pass_context
def recover(
    context: click.Context, ids: tuple[str, ...], is_applied: bool, dismiss: bool, days: int | None, as_json: bool
) -> None:
    """Show entries that memsync appended and that are gone. An editor may have saved an older version over them.

    With ID, show only these entries.

    `edited` marks an entry that another line has replaced, `note deleted` one whose note is gone. --apply appends
    these only if you name them. Exits with 1 if an entry is missing from its note.

    \b
    memsync recover
    memsync recover --apply                    all except edited and deleted ones
    memsync recover --apply 18a9f3c2b1d4e000   this one, with the heading of its note if that was deleted
    """
    if dismiss and is_applied:
        raise UsageError("--apply and --dismiss cannot be used together", hint="Use one of them.")
    if dismiss and not ids:
        raise UsageError("--dismiss requires the IDs to forget", hint="Run memsync recover to see them.")
    with opened(context) as memory:
        if dismiss:
            forgotten = memory.dismiss(ids)
            say_answer({"dismissed": forgotten}, [f"{forgotten} forgotten"], as_json=as_json)
            return
        since = {"days": MAX_DAYS} if ids and not is_applied else {} if days is None else {"days": days}
        entries = memory.overwritten(**since)
        if not is_applied:
            _show_overwritten(_only(ids, entries) if ids else entries, as_json=as_json)
            return
        ids_to_restore = ids or tuple(entry.id for entry in entries if not (entry.similar or entry.note_deleted))
        written = memory.recover(ids_to_restore)
    say_answer({"recovered": written}, [printable(entry.citation) for entry in written], as_json=as_json)
    for entry in written:
        remarks(entry)
    skipped = 0 if ids else len(entries) - len(ids_to_restore)
    if skipped:
        edited = f"{count(skipped, 'entry was', 'entries were')} edited, or deleted with the note"
        remark(f"{edited}: memsync recover shows them, --apply ID restores one")


def _only(ids: tuple[str, ...], entries: tuple[Overwritten, ...]) -> tuple[Overwritten, ...]:
    unknown = set(ids).difference(entry.id for entry in entries)
    if unknown:
        raise UsageError(f"no overwritten entry has the id {min(unknown)}", hint="Run memsync recover to see all IDs.")
    return tuple(entry for entry in entries if entry.id in ids)


def _show_overwritten(entries: tuple[Overwritten, ...], *, as_json: bool) -> None:
    lines = []
    for entry in entries:
        state = "  note deleted" if entry.note_deleted else "  edited" if entry.similar else ""
        lines.append(f"{entry.id}  {printable(entry.path)}  {local_time(entry.appended_at)}{state}")
        lines += [f"  {line}" for line in entry.text.split("\n")]
    say_answer({"overwritten": entries}, lines, as_json=as_json)
    if entries:
        sys.exit(NO_EXIT_CODE)
    remark("No overwritten text found.")


@click.command("get")
@click.argument("key")
@option(preferences.values["user"])
@json_option
@click.pass_context
def pref_get(context: click.Context, key: str, user: str | None, as_json: bool) -> None:
    """Print the value of KEY. Exits with 1 when it is not set."""
    with opened(context) as memory:
        preference = next((p for p in memory.preferences(user=user or "") if p.key == key), None)
    say_answer({"preference": preference}, [printable(preference.value)] if preference else [], as_json=as_json)
    if preference is None:
        sys.exit(NO_EXIT_CODE)
