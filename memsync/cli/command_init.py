"""`memsync init`."""

from __future__ import annotations

from pathlib import Path

import click

from memsync.cli.common import json_option
from memsync.cli.output import printable, say, say_json
from memsync.errors import UsageError


@click.command()
@click.argument("directory", default=".", metavar="[DIR]")
@json_option
def init(directory: str, as_json: bool) -> None:
    """Make DIR a memory root: templates, .gitignore, .gitattributes and config.toml.

    Where config.toml is another program's, the settings go into memsync.toml.

    Never overwrites a file; in a folder that has notes already it adds only what is missing.
    """
    called = click.get_current_context().obj
    if called.config or called.root:
        raise UsageError("init takes neither --root nor --config", hint=f"Write: memsync init {called.root or 'DIR'}")
    from memsync.features.scaffold import create_root
    from memsync.settings.config_file import OWN_NAME

    made = create_root(Path(directory).expanduser())
    if as_json:
        say_json({"root": str(made.root), "created": list(made.created), "kept": list(made.kept)})
        return
    for name in made.created:
        reason = "  (config.toml here belongs to another program)" if name == OWN_NAME else ""
        say(f"created  {printable(name)}{reason}")
    for name in made.kept:
        say(f"kept     {printable(name)}")
    if made.notes:
        say(f"{made.notes} notes were here already; none was touched")
    here = "" if made.root == Path.cwd() else f"cd {printable(str(made.root))} && "
    say(f'\nNext: {here}memsync sync && memsync search "something you know is in your notes"')
