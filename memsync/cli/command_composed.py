"""Commands that are made of several operations: `prune` with `--undo`, `recover`, `pref get`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from memsync.cli.build import arguments_of, option, with_parameters
from memsync.cli.common import json_option, opened
from memsync.cli.output import count, local_time, printable, say, say_json
from memsync.cli.render import FAILED, pruning, remarks
from memsync.errors import UsageError
from memsync.features.preferences import preferences
from memsync.features.recovery import MAX_DAYS, overwritten
from memsync.features.upkeep import prune as prune_operation
from memsync.model.written import Overwritten

if TYPE_CHECKING:
    from memsync.memory import MemoryApi

NOT_SET_EXIT_CODE = 1


@click.option("--undo", is_flag=True, help="Move back what the last --apply moved.")
@json_option
@click.pass_context
def _prune(context: click.Context, /, undo: bool, as_json: bool, **given: Any) -> None:
    """Show notes that are due to be archived: old task memory, and what has expired. --apply moves them to archive/.

    Nothing is deleted, folders are kept, and searches find archived notes with is:archived. Personal and pinned notes
    stay.

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
            found = memory.undo_prune() if undo else memory.run(prune_operation, **arguments)
        except KeyboardInterrupt:
            say("memsync: memsync prune --undo moves back what has moved", err=True)
            raise
    is_applied = undo or "apply" in arguments
    if as_json:
        say_json(found)
    else:
        pruning(found, is_applied=is_applied)
    remarks(replace(found, pending_text=0) if is_applied else found)
    if found.failed:
        sys.exit(FAILED)


prune = click.command("prune")(with_parameters(prune_operation, _prune))


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
    """Show entries that memsync appended and that are gone: an editor may have saved an older version over them.

    With ID, show only these entries.

    `edited` marks an entry in whose place the note has another line, `note deleted` one whose note is gone. --apply
    appends both only if they are named. Exits with 1 when an entry is missing.

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
            _dismiss(memory, ids, as_json=as_json)
            return
        since = {"days": MAX_DAYS} if ids and not is_applied else {} if days is None else {"days": days}
        entries = memory.overwritten(**since)
        if is_applied:
            _recover(memory, ids, entries, as_json=as_json)
            return
    _show_overwritten(_only(ids, entries) if ids else entries, as_json=as_json)


def _dismiss(memory: MemoryApi, ids: tuple[str, ...], *, as_json: bool) -> None:
    forgotten = memory.dismiss(ids)
    if as_json:
        say_json({"dismissed": forgotten})
    else:
        say(f"{forgotten} forgotten")


def _recover(memory: MemoryApi, ids: tuple[str, ...], entries: tuple[Overwritten, ...], *, as_json: bool) -> None:
    """Append entries again: those that are named, otherwise all except edited and deleted ones."""
    wanted = ids or tuple(entry.id for entry in entries if not (entry.similar or entry.note_deleted))
    written = memory.recover(wanted)
    if as_json:
        say_json({"recovered": written})
    for entry in written:
        if not as_json:
            say(printable(entry.citation))
        remarks(entry)
    number = len(entries) - len(wanted)
    if not ids and number:
        left = f"{count(number, 'entry was', 'entries were')} edited, or deleted with the note"
        say(f"memsync: {left}: memsync recover shows them, --apply ID restores one", err=True)


def _only(ids: tuple[str, ...], entries: tuple[Overwritten, ...]) -> tuple[Overwritten, ...]:
    """Return the entries with these ids. Raises UsageError for an id that there is not."""
    unknown = set(ids).difference(entry.id for entry in entries)
    if unknown:
        raise UsageError(f"no overwritten entry has the id {min(unknown)}", hint="Run memsync recover to see all IDs.")
    return tuple(entry for entry in entries if entry.id in ids)


def _show_overwritten(entries: tuple[Overwritten, ...], *, as_json: bool) -> None:
    if as_json:
        say_json({"overwritten": entries})
    for entry in entries if not as_json else ():
        state = "  note deleted" if entry.note_deleted else "  edited" if entry.similar else ""
        say(f"{entry.id}  {printable(entry.path)}  {local_time(entry.appended_at)}{state}")
        say("\n".join(f"  {line}" for line in entry.text.split("\n")))
    if entries:
        sys.exit(1)
    say("memsync: No overwritten text found.", err=True)


@click.command("get")
@click.argument("key")
@option(preferences.values["user"])
@json_option
@click.pass_context
def pref_get(context: click.Context, key: str, user: str | None, as_json: bool) -> None:
    """Print the value of KEY. Exits with 1 when it is not set."""
    with opened(context) as memory:
        found = next((one for one in memory.preferences(user=user or "") if one.key == key), None)
    if as_json:
        say_json({"preference": found})
    elif found is not None:
        say(printable(found.value))
    if found is None:
        sys.exit(NOT_SET_EXIT_CODE)
