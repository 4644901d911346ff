"""`memsync roots`: the memories that a search can cover together."""

from __future__ import annotations

import click

from memsync.cli.common import answering
from memsync.cli.output import CommandAnswer, table
from memsync.errors import IndexFailure, UsageError
from memsync.settings.connection_string import is_dsn
from memsync.settings.registering import add_root
from memsync.settings.roots import (
    RegisteredRoot,
    add_database,
    check_name,
    default_root,
    registered_roots,
    remove_root,
    roots_path,
    set_default,
)

SECTION = "Set up"


@click.group()
def roots() -> None:
    """Register memories by a name, so that one search covers several (docs/memories.md).

    \b
    memsync roots add work ~/work-notes
    memsync roots add team postgresql://reader@db.example.org/memories
    memsync roots list
    memsync roots default work
    memsync search --all-roots which store did we choose
    """


@roots.command()
@click.argument("name")
@click.argument("place", metavar="PATH|DSN")
@click.option("--memory", metavar="NAME", help="DSN: the memory's name in the database. [default: NAME]")
@answering
def add(_: click.Context, name: str, place: str, memory: str | None) -> CommandAnswer:
    """Register the memory root at PATH as NAME, or the memory of the database that the connection string DSN names.

    NAME has lower-case letters, digits, - and _. Citations of this memory begin with it: NAME:path:line. A memory of a
    database is searched without its files (docs/postgres.md). The DSN is stored for you alone. Better leave the
    password in ~/.pgpass, because other users of this machine can see a command line.
    """
    remarks = []
    if is_dsn(place):
        from memsync.memories.stored import connect_stored

        check_name(name)
        with connect_stored(place, memory or name) as stored:
            added = add_database(name, place, memory or name)
            try:
                stored.require_text()
            except IndexFailure as error:  # it is added all the same: its owner can store the text later
                remarks = [f"searches of {name} will fail: {error.sentences()}"]
    elif memory is not None:
        raise UsageError("--memory belongs to a database", hint="Name one: postgresql://user@host/database")
    else:
        added = add_root(name, place)
    return CommandAnswer(_described(added), [f"{added.name}  {added.place}"], remarks)


def _described(root: RegisteredRoot) -> dict[str, str]:
    return {"name": root.name, **({"database": root.place} if root.dsn else {"path": root.path})}


@roots.command("list")
@answering
def list_(_: click.Context) -> CommandAnswer:
    """Print each registered memory: its name, its folder or database, and whether it can be searched.

    Names the default memory (see memsync roots default).
    """
    from memsync.memories.several import unreachable

    registered = registered_roots()
    faults = unreachable(registered)
    default_name = chosen.name if (chosen := default_root()) else None
    described, rows = [], []
    for root in registered.values():
        fault = faults[root.name]
        described.append({**_described(root), "reachable": not fault, "fault": fault})
        state = f"cannot be searched: {fault}" if fault else "reachable"
        rows.append((root.name, root.place, state, "default" * (root.name == default_name)))
    none = [] if rows else ["no memory is registered. Register one: memsync roots add NAME PATH"]
    return CommandAnswer({"path": roots_path(), "default": default_name, "roots": described}, table(rows), none)


@roots.command()
@click.argument("name", default="", metavar="[NAME]")
@click.option("--none", "is_none", is_flag=True, help="Use no default.")
@answering
def default(_: click.Context, name: str, is_none: bool) -> CommandAnswer:
    """Make the memory NAME the one that commands use outside of every memory root; without NAME, print which it is.

    There, a search still covers all registered memories.
    """
    if name and is_none:
        raise UsageError("--none takes no NAME", hint="Write: memsync roots default --none")
    if name or is_none:
        set_default(name)
    chosen = default_root()
    line = f"{chosen.name}  {chosen.place}" if chosen else "no memory is the default"
    return CommandAnswer({"default": chosen.name if chosen else None}, [line])


@roots.command()
@click.argument("name")
@answering
def remove(_: click.Context, name: str) -> CommandAnswer:
    """Take the memory NAME off the list. Its files and its index stay as they are."""
    removed = remove_root(name)
    return CommandAnswer(
        _described(removed), [f"{removed.name} is not registered any more; {removed.place} is unchanged"]
    )
