"""Find keys, tokens and passwords in the notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memsync.errors import NoteError
from memsync.model.status import Failure
from memsync.model.upkeep import SecretPlace, Secrets
from memsync.operation import Command, operation
from memsync.ports import Progress, no_progress

if TYPE_CHECKING:
    from memsync.workspace import Workspace

SECTION = "Upkeep"


@operation(
    Command(
        "check secrets",
        help="Print the places in the notes that seem to contain a key, a token or a password.",
        notes="It prints their kind and the first eight digits of their SHA-256, but not the secrets. Exits with 1 if "
        "it finds one, or if a note cannot be read.",
        runs_here=True,
    ),
    is_slow=True,
)
def secrets(memory: Workspace, *, progress: Progress = no_progress) -> Secrets:
    """Return the places in the notes that seem to contain a secret, by path and line."""
    from memsync.notes.secrets import places

    scan = memory.files.scan()
    failed, found = list(scan.failures), list[SecretPlace]()
    for number, path in enumerate(sorted(scan.files), 1):
        try:
            found += [SecretPlace(path, *place) for place in places(memory.files.read(path)[0])]
        except FileNotFoundError:
            continue
        except NoteError as error:
            failed.append(Failure(path, error.message))
        progress("reading notes", number, len(scan.files))
    return Secrets(tuple(found), len(scan.files), tuple(failed))
