"""`memsync open`: a hit of the last search, in the user's editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click

from memsync.cli.command_search import kept_hits, template_of, url_of
from memsync.cli.common import setting_of
from memsync.errors import MemsyncError, UsageError
from memsync.model.vocabulary import NotePath
from memsync.notes.files import NoteFiles


@click.command("open")
@click.argument("number", type=click.IntRange(min=1), default=1, metavar="[N]")
@click.pass_context
def open_(context: click.Context, number: int) -> None:
    """Open hit N (default: 1) of the last search at its line, in your editor.

    The last search is the one whose hits a terminal showed last, in any folder. The editor is the one that `open_with`
    under [cli] names; otherwise the program in $VISUAL or $EDITOR, called with +LINE and the path.
    """
    root, path, line = dict(enumerate(kept_hits(), 1)).get(number, ("", "", 0))
    if not root:
        raise UsageError(f"the last search printed no hit {number} with a file", hint="Search again, at a terminal.")
    open_with, place = setting_of(context, "cli.open_with"), f"{root}/{path}"
    try:
        os.close(NoteFiles(Path(root)).open(NotePath(path)))  # so that no link leads out of the root
        if open_with:
            command = ["open" if sys.platform == "darwin" else "xdg-open", url_of(template_of(open_with), place, line)]
        else:
            command = [*shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"), f"+{line}", place]
        sys.exit(subprocess.run(command, check=False).returncode)  # noqa: S603 (because no shell reads the path)
    except (OSError, ValueError) as error:
        raise MemsyncError(f"{path} cannot be opened: {error}", hint="Check cli.open_with, or $EDITOR.") from error
