"""`memsync share`: the same notes on several machines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from msgspec.structs import replace

from memsync.edit.share_state import keep_shared, shared_of
from memsync.errors import IndexBusy, MemsyncError, UsageError
from memsync.model.status import Failure, Shared
from memsync.model.text import printable
from memsync.operation import Cli, Command, operation
from memsync.system import clock
from memsync.system.file_lock import file_lock

if TYPE_CHECKING:
    from memsync.workspace import Workspace

SECTION = "Notes"
WAIT_SECONDS = 60.0
_DIGEST = re.compile("[0-9a-f]{8}")


@operation(
    Command(
        "share",
        notes="ADDRESS is a git repository that your machines reach: a URL, HOST:PATH for ssh, or a folder, which is "
        "made if it is missing. git uses your own settings and keys. A running daemon exchanges a few seconds after a "
        "change, and each minute. On the other machines, begin with: memsync init --from ADDRESS FOLDER. Local-only "
        "notes and notes with secrets are never sent.",
        examples=(
            "memsync share git@example.org:ada/notes.git",
            "memsync share /media/stick/notes.git",
            "memsync share                                 exchange now",
            "memsync share --allow 1a2b3c4d                send the secret with this digest",
            "memsync share --stop",
        ),
        runs_here=True,
    ),
    is_slow=True,
    writes=True,
)
def share(
    memory: Workspace,
    address: Annotated[
        str, Meta(description="A git repository. Default: the address in use."), Cli(metavar="ADDRESS")
    ] = "",
    *,
    stop: Annotated[bool, Meta(description="Stop exchanging; all notes stay where they are.")] = False,
    allow: Annotated[tuple[str, ...], Meta(description="Digest of a secret that may be sent.")] = (),
) -> Shared:
    """Exchange the notes with other machines, now and from now on, through a git repository.

    What both machines changed is merged: logs, threads and MEMORY.md keep what either added, preferences the later
    value. Raises UsageError, FilesystemError, and MemsyncError if nothing can be exchanged.
    """
    shared = shared_of(memory.state)
    if stop:
        keep_shared(memory.state, Shared())
        return Shared()
    if wrong := next((digest for digest in allow if not _DIGEST.fullmatch(digest)), ""):
        raise UsageError(f"{wrong!r} is not the digest of a secret", hint="See: memsync share")
    if address:
        from memsync.features.sharing.beginning import begin, full_address

        begun = begin(memory.settings.root, full_address(address))
        shared = replace(shared, address=begun.address, branch=begun.branch)
    if not shared.address:
        raise UsageError("this memory is not shared", hint="Name a git repository: memsync share ADDRESS")
    keep_shared(memory.state, replace(shared, allowed=tuple(dict.fromkeys((*shared.allowed, *allow)))))
    return exchange(memory)


def exchange(memory: Workspace) -> Shared:
    """Exchange once and store how it went. Raises IndexBusy if another process takes too long for it, MemsyncError."""
    from memsync.features.sharing.exchange import Exchange
    from memsync.notes.git_files import GitUnusable, reason_of

    with file_lock(memory.settings.keep_dir / "share.lock", WAIT_SECONDS, _busy):
        shared = shared_of(memory.state)
        if not shared.address:
            return shared
        done, problem = Exchange(memory, shared), ""
        try:
            done.exchange()
        except MemsyncError as error:
            problem = error.sentences()
        except (GitUnusable, OSError) as error:
            problem = reason_of(error)
        held = tuple(Failure(printable(path), printable(reason)) for path, reason in done.held.items())
        at = shared.at if problem or done.conflicts else clock.utc().isoformat(timespec="seconds")
        after = replace(
            shared,
            at=at,
            sent=done.sent,
            taken=done.taken,
            problem=printable(problem),
            held=held,
            conflicts=tuple(map(printable, done.conflicts)),
        )
        keep_shared(memory.state, after)
        return after


def _busy(holder: str) -> MemsyncError:
    return IndexBusy(f"{holder} is exchanging these notes", hint="Try again.")
