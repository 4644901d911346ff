"""Commands that are made of several operations: `prune` with `--undo`, `forget`, `recover`, `pref get`."""

from __future__ import annotations

import sys
from typing import Any

import click
from msgspec.structs import replace

from memsync.cli.build import arguments_of, option, with_parameters
from memsync.cli.common import json_option, opened
from memsync.cli.output import NO_EXIT_CODE, local_time, remark, say_answer, say_json
from memsync.cli.render import pruning, remarks
from memsync.errors import UsageError
from memsync.features.preferences import preferences
from memsync.features.pruning import prune as prune_operation
from memsync.features.recovery import MAX_DAYS, overwritten
from memsync.model.text import count, printable
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
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "--apply",
    "is_applied",
    is_flag=True,
    help="Append the entries ID again; without ID, all that are not marked.",
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

    `edited` marks an entry that another line has replaced, `note deleted` one whose note is gone, `on branch NAME` one
    that git has on another branch than the present one. --apply appends these only if you name them. Exits with 1 if an
    entry is missing from its note.

    \b
    memsync recover
    memsync recover --apply                    all that are not marked
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
        ids_to_restore = ids or tuple(entry.id for entry in entries if entry.is_restored_unasked)
        written = memory.recover(ids_to_restore)
    say_answer({"recovered": written}, [printable(entry.citation) for entry in written], as_json=as_json)
    for entry in written:
        remarks(entry)
    skipped = 0 if ids else len(entries) - len(ids_to_restore)
    if skipped:
        edited = f"{count(skipped, 'entry was', 'entries were')} edited, deleted with the note, or on another branch"
        remark(f"{edited}: memsync recover shows them, --apply ID restores one")


def _only(ids: tuple[str, ...], entries: tuple[Overwritten, ...]) -> tuple[Overwritten, ...]:
    unknown = set(ids).difference(entry.id for entry in entries)
    if unknown:
        raise UsageError(f"no overwritten entry has the id {min(unknown)}", hint="Run memsync recover to see all IDs.")
    return tuple(entry for entry in entries if entry.id in ids)


def _show_overwritten(entries: tuple[Overwritten, ...], *, as_json: bool) -> None:
    lines = []
    for entry in entries:
        marks = [f"on branch {printable(entry.other_branch)}" * bool(entry.other_branch)]
        marks += ["note deleted" * entry.note_deleted or "edited" * entry.similar]
        place = f"{entry.id}  {printable(entry.path)}  {local_time(entry.appended_at)}"
        lines.append("  ".join(filter(None, (place, *marks))))
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
