"""`memsync open`, and links to the hits of a search: places in notes, for the user's editor."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import click

from memsync.cli.common import setting_of
from memsync.errors import MemsyncError, UsageError
from memsync.model.answer import SearchResult
from memsync.model.vocabulary import NotePath
from memsync.settings.editors import template_of, url_of
from memsync.system.user_folders import state_folder, write_own_file

SECTION = "Search"

_LAST_HITS = "last_search/hits.json"


@click.command("open")
@click.argument("number", type=click.IntRange(min=1), default=1, metavar="[N]")
@click.pass_context
def open_(context: click.Context, number: int) -> None:
    """Open hit N (default: 1) of the last search at its line, in your editor.

    The last search is the one whose hits a terminal showed last, in any folder. The editor is the one that `open_with`
    under [cli] names; otherwise the program in $VISUAL or $EDITOR, called with +LINE and the path.
    """
    import shlex  # here, because `memsync search` imports this module
    import subprocess

    from memsync.notes.files import NoteFiles
    from memsync.settings.paths import resolve_root

    root, path, line = dict(enumerate(kept_hits(), 1)).get(number, ("", "", 0))
    if not root:
        raise UsageError(f"the last search printed no hit {number} with a file", hint="Search again, at a terminal.")
    open_with, place = setting_of(context, "cli.open_with"), f"{root}/{path}"
    try:
        os.close(NoteFiles(Path(resolve_root(root, "open", "/"))).open(NotePath(path)))  # no link may lead elsewhere
        if open_with:
            command = ["open" if sys.platform == "darwin" else "xdg-open", url_of(template_of(open_with), place, line)]
        else:
            command = [*shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"), f"+{line}", place]
        sys.exit(subprocess.run(command, check=False).returncode)  # noqa: S603 (because no shell reads the path)
    except FileNotFoundError as error:
        raise MemsyncError(f"{path} or the editor is not there", hint="Search again, or check $EDITOR.") from error
    except (OSError, ValueError) as error:
        raise MemsyncError(f"{path} cannot be opened: {error}", hint="Check cli.open_with, or $EDITOR.") from error


def keep_hits(result: SearchResult, folders: Mapping[str, str]) -> None:
    """Keep where the hits of a search are, without their text, for `memsync open`. The answer does not depend on it."""
    places = [(folders.get(hit.root, ""), hit.path, hit.start_line) for hit in result.hits]
    with suppress(OSError, MemsyncError):
        write_own_file(os.path.join(state_folder(), _LAST_HITS), json.dumps(places).encode())


def kept_hits() -> list[tuple[str, str, int]]:
    """Return (memory root, path, line) of each hit of the last search; none if there was no search."""
    with suppress(OSError, ValueError):
        return list(json.loads(Path(state_folder(), _LAST_HITS).read_bytes()))
    return []


def linked(text: str, template: str, path: str, line: int) -> str:
    """Return text as a link to a line of a file, which terminals open with a click (OSC 8); unchanged without one."""
    if not template:
        return text
    return f"\x1b]8;;{url_of(template, path, line)}\x1b\\{text}\x1b]8;;\x1b\\"
