"""Commands that are made of several operations: `recover` and `pref get`."""

from __future__ import annotations

import click

from memsync.cli.build import option
from memsync.cli.common import answering, opened
from memsync.cli.output import NO_EXIT_CODE, CommandAnswer, local_time
from memsync.errors import UsageError
from memsync.features.overwritten import MAX_DAYS, overwritten
from memsync.features.preferences import preferences
from memsync.model.text import count
from memsync.model.written import Overwritten

SECTION = "Notes"


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "--apply", "is_applied", is_flag=True, help="Append the entries ID again; without ID, all that are not marked."
)
@click.option("--dismiss", is_flag=True, help="Forget the entries ID: they were deleted on purpose.")
@option(overwritten.values["days"])
@answering
def recover(
    context: click.Context, ids: tuple[str, ...], is_applied: bool, dismiss: bool, days: int | None
) -> CommandAnswer:
    """Show entries that memsync appended and that are gone from the notes, to put them back.

    An editor may have saved an older version over them.
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
            return CommandAnswer({"dismissed": forgotten}, [f"{forgotten} forgotten"])
        since = {"days": MAX_DAYS} if ids and not is_applied else {} if days is None else {"days": days}
        entries = memory.overwritten(**since)
        if not is_applied:
            return _overwritten(_only(ids, entries) if ids else entries)
        ids_to_restore = ids or tuple(entry.id for entry in entries if entry.is_restored_unasked)
        written = memory.recover(ids_to_restore)
    remarks = [warning for entry in written for warning in entry.warnings]
    if not ids and len(entries) > len(ids_to_restore):
        skipped = count(len(entries) - len(ids_to_restore), "entry was", "entries were")
        where = "edited, deleted with the note, or on another branch"
        remarks.append(f"{skipped} {where}: memsync recover shows them, --apply ID restores one")
    return CommandAnswer({"recovered": written}, [entry.citation for entry in written], remarks)


def _only(ids: tuple[str, ...], entries: tuple[Overwritten, ...]) -> tuple[Overwritten, ...]:
    unknown = set(ids).difference(entry.id for entry in entries)
    if unknown:
        raise UsageError(f"no overwritten entry has the id {min(unknown)}", hint="Run memsync recover to see all IDs.")
    return tuple(entry for entry in entries if entry.id in ids)


def _overwritten(entries: tuple[Overwritten, ...]) -> CommandAnswer:
    lines = []
    for entry in entries:
        marks = [f"on branch {entry.other_branch}" * bool(entry.other_branch)]
        marks += ["note deleted" * entry.note_deleted or "edited" * entry.similar]
        place = f"{entry.id}  {entry.path}  {local_time(entry.appended_at)}"
        lines.append("  ".join(filter(None, (place, *marks))))
        lines += [f"  {line}".expandtabs() for line in entry.text.split("\n")]
    if not entries:
        return CommandAnswer({"overwritten": entries}, remarks=["No overwritten text found."])
    return CommandAnswer({"overwritten": entries}, lines, code=NO_EXIT_CODE)


@click.command("pref get")
@click.argument("key")
@option(preferences.values["user"])
@answering
def pref_get(context: click.Context, key: str, user: str | None) -> CommandAnswer:
    """Print the value of KEY. Exits with 1 when it is not set."""
    with opened(context) as memory:
        preference = next((p for p in memory.preferences(user=user or "") if p.key == key), None)
    if preference is None:
        return CommandAnswer({"preference": None}, code=NO_EXIT_CODE)
    return CommandAnswer({"preference": preference}, [preference.value])
