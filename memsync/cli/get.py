"""`memsync get`."""

from __future__ import annotations

import sys

import click

from memsync.cli.common import here, json_option, opened
from memsync.cli.here import without_place
from memsync.cli.text import say, say_as_it_is, say_json
from memsync.errors import NoSuchNote


@click.command()
@click.argument("location")
@json_option
@click.pass_context
def get(context: click.Context, location: str, as_json: bool) -> None:
    """Print the lines that LOCATION names, from the file as it is now.

    A note is named as search prints it, by its path from the current folder, by an absolute path, without .md, or by a
    title, an alias or a file name that only one note has.

    \b
    memsync get SOUL.md
    memsync get daily/2026-11-21.md:12
    memsync get daily/2026-11-21.md:12:5      five lines from line 12
    memsync get daily/2026-11-21.md:12-16     as search prints it
    memsync get projects/store.md#decision    a section, by its heading
    """
    with opened(context) as memory:
        try:
            excerpt = memory.get(here(context).location(location))
        except NoSuchNote as error:
            raise NoSuchNote(f"{without_place(location)} does not exist", hint=error.hint) from error
    if as_json:
        say_json(excerpt)
    else:
        # A terminal must not be driven by a note; a pipe gets the quote exactly, escape sequences and all.
        (say if sys.stdout.isatty() else say_as_it_is)(excerpt.text)
