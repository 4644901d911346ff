"""`memsync roots`: the memories that a search can cover together."""

from __future__ import annotations

import click

from memsync.cli.common import json_option
from memsync.cli.output import say, say_json, say_table
from memsync.model.text import printable
from memsync.settings.roots import add_root, fault_of, registered_roots, remove_root, roots_path


@click.group()
def roots() -> None:
    """Register memories by a name, so that one search covers several (docs/search.md).

    \b
    memsync roots add work ~/work-notes
    memsync roots list
    memsync search --all-roots which store did we choose
    """


@roots.command()
@click.argument("name")
@click.argument("path")
@json_option
def add(name: str, path: str, as_json: bool) -> None:
    """Register the memory root at PATH as NAME.

    NAME has lower-case letters, digits, - and _. Citations of this memory begin with it: NAME:path:line.
    """
    added = add_root(name, path)
    if as_json:
        say_json({"name": added.name, "path": added.path})
    else:
        say(f"{added.name}  {printable(added.path)}")


@roots.command("list")
@json_option
def list_(as_json: bool) -> None:
    """Print each registered memory: its name, its folder, and whether it can be reached."""
    listed = [(root, fault_of(root)) for root in registered_roots().values()]
    if as_json:
        rows = [
            {"name": root.name, "path": root.path, "reachable": not fault, "fault": fault} for root, fault in listed
        ]
        say_json({"path": roots_path(), "roots": rows})
        return
    none = "no memory is registered. Register one: memsync roots add NAME PATH"
    say_table(
        [(root.name, root.path, f"not reachable: {fault}" if fault else "reachable") for root, fault in listed], none
    )


@roots.command()
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Take the memory NAME off the list. Its files and its index stay as they are."""
    removed = remove_root(name)
    if as_json:
        say_json({"name": removed.name, "path": removed.path})
    else:
        say(f"{removed.name} is not registered any more; {printable(removed.path)} is unchanged")
