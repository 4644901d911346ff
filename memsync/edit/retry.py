"""Writing a file that others write, too: an attempt that one of them came in between is repeated."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from memsync.edit import note_file
from memsync.edit.note_paths import cannot_write
from memsync.errors import WriteRefused
from memsync.model.vocabulary import NotePath

TRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Done:
    """What a write did: the line on which the new text begins, and what has to be said about it.

    `moved_from` is where the note was until then, if that was another place.
    """

    path: NotePath
    line: int
    warnings: tuple[str, ...] = ()
    moved_from: NotePath | None = None


class Replaced(Exception):
    """Another file took the note's name meanwhile."""


def tried(path: NotePath, attempt: Callable[[], Done]) -> Done:
    """Return what an attempt did, the first that nobody came in between. Raises WriteRefused when there is none."""
    limit = time.monotonic() + TRY_SECONDS
    while time.monotonic() < limit:
        with suppress(Replaced):
            return attempt()
    raise WriteRefused(f"{path} keeps being replaced", hint="Try again when the editor or git is done.")


def make(folder: int, path: NotePath, text: str) -> None:
    """Make a new file whole. Raises Replaced when there is one by now, FilesystemError."""
    try:
        note_file.create(folder, path.rpartition("/")[2], text.encode())
    except FileExistsError:
        raise Replaced from None
    except OSError as error:
        raise cannot_write(path, error) from error
