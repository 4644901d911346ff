"""Sync, rebuild and verify the index, and report its status."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from msgspec.structs import replace

from memsync.errors import IndexDamaged, IndexFailure, IndexOutdated, IndexTooNew, MemsyncError
from memsync.model.status import Difference, Failure, Shared, Status, SyncReport
from memsync.operation import Cli, Command, Tool, operation
from memsync.ports import Progress, no_progress

if TYPE_CHECKING:
    from memsync.notes.files import FileScan
    from memsync.workspace import Workspace

SECTION = "Index"

WAIT_SECONDS = 600.0
VERIFY_WAIT_SECONDS = 5.0
"""`verify` does not wait for a long sync: it soon fails and names the process that is syncing."""

INDEX_FAILURE = "(index)"
"""Stands for a path in the failures of a status: the index itself cannot be written."""
Waiting = Callable[[str], None]
"""Called with the name of the process that holds the sync lock."""


def _no_waiting(holder: str) -> None:
    """Report nothing."""


Wait = Annotated[
    float, Meta(ge=0, description="How long to wait for another sync."), Cli(("--wait",), metavar="SECONDS")
]


@operation(
    Command(
        "sync",
        notes="You can interrupt it at any time: the next sync continues from there. Exits with 1 if a file or the "
        "model failed.",
    ),
    Command("index sync", help="The same as memsync sync."),
    is_slow=True,
)
def sync(
    memory: Workspace,
    *,
    progress: Progress = no_progress,
    wait_seconds: Wait = WAIT_SECONDS,
    on_wait: Waiting = _no_waiting,
    accept_root: Annotated[bool, Meta(description="Accept a different folder as the memory root.")] = False,
) -> SyncReport:
    """Make the index equal to the files: text first, then vectors.

    If another process is syncing this index, calls `on_wait` with its name and waits. Raises IndexBusy when that takes
    longer than `wait_seconds`, RootError when another root was indexed (unless `accept_root`), IndexFailure.
    """
    from memsync.notes.languages import advice_on_model

    syncer = memory.syncer
    report = syncer.sync(wait_seconds=wait_seconds, on_wait=on_wait, accept_root=accept_root, progress=progress)
    if not report.added:
        return report
    advice = advice_on_model(memory.files, syncer.scanner.scan.files, memory.settings["embedder.model"])
    return replace(report, warnings=(*report.warnings, *filter(None, [advice])))


@operation(
    Command("index rebuild", help="Build the index again from the files; searches use the old one until then."),
    writes=True,
    is_slow=True,
    is_local=True,
)
def rebuild(
    memory: Workspace,
    *,
    drop_vectors: Annotated[bool, Meta(description="Compute every vector again.")] = False,
    progress: Progress = no_progress,
    wait_seconds: Wait = WAIT_SECONDS,
    on_wait: Waiting = _no_waiting,
) -> SyncReport:
    """Build a new index from the files; searches use the old one until the new one is complete.

    Takes the vectors of known texts from the vector cache unless `drop_vectors`. Raises the same errors as `sync`.
    """
    return memory.syncer.rebuild(
        keep_vectors=not drop_vectors, wait_seconds=wait_seconds, on_wait=on_wait, progress=progress
    )


@operation(
    Command(
        "index verify",
        help="Check the index (check: the notes; doctor: this machine), by a second one from the same files.",
        notes="If they differ, print the first difference, replace the index with the second one, and exit with 1.",
    ),
    writes=True,
    is_slow=True,
    is_local=True,
)
def verify(
    memory: Workspace,
    *,
    recompute: Annotated[
        bool, Meta(description="Compute every vector again instead of comparing cached ones.")
    ] = False,
    progress: Progress = no_progress,
    wait_seconds: Wait = VERIFY_WAIT_SECONDS,
    on_wait: Waiting = _no_waiting,
) -> Difference | None:
    """Build a second index from the files and return the first line in which the two differ, or None.

    Indexes pending changes first. Takes vectors from the cache and computes missing ones; with `recompute`, all.
    """
    return memory.syncer.verify(recompute=recompute, wait_seconds=wait_seconds, on_wait=on_wait, progress=progress)


@operation(
    Command(
        "status",
        help="Print what the index holds and the daemon does now (stats: how the memory was used).",
        notes="It does not read changed files.",
    ),
    tool=Tool(
        "memory_status",
        "Status of the memory",
        "Tell whether the index of the memory is current, and what is wrong with it. Use it when answers have "
        "warnings.",
    ),
    is_quick=True,
)
def status(memory: Workspace) -> Status:
    """Return what the index holds as of the last sync, without reading changed files.

    If a server does not answer, only the root, the failure and the daemon are told.
    """
    try:
        known = _status_of_index(memory)
    except (IndexDamaged, IndexOutdated, IndexTooNew):
        raise
    except IndexFailure as error:
        nothing = (0, 0, 0, 0, 0, "", "", 0, None, "")
        failure = Failure(INDEX_FAILURE, error.sentences())
        known = Status(str(memory.settings.root), memory.index.place, *nothing, failures=(failure,))
    return memory.daemon_status(known) if memory.daemon_status is not None else known


def _status_of_index(memory: Workspace) -> Status:
    """Return all but the daemon. Raises IndexFailure."""
    # Imported here, because a process that only declares this operation does not sync.
    from memsync.notes.copies import copies_of
    from memsync.notes.git_files import commit_in
    from memsync.notes.languages import advice_on_model
    from memsync.sync.embedding import pending_seconds
    from memsync.sync.git_dates import read_dates
    from memsync.sync.plan import read_failures
    from memsync.sync.syncer import MODEL_FAILURE

    faults, scan = _write_fault(memory), _walk(memory)
    shared = _shared(memory, faults)
    advice = advice_on_model(memory.files, scan.files, memory.settings["embedder.model"])
    with memory.index.reading() as reader:
        counts, model, dates = reader.counts(), reader.meta(MODEL_FAILURE), read_dates(reader)
        found = ((INDEX_FAILURE, memory.index.take_damage()), ("(model)", model))
        faults += [Failure(place, reason) for place, reason in found if reason]
        return Status(
            root=str(memory.settings.root),
            index_path=memory.index.place,
            notes=counts.notes,
            chunks=counts.chunks,
            passages=counts.passages,
            vectors=counts.vectors,
            pending_vectors=counts.pending,
            pending_seconds=pending_seconds(reader, counts),
            space=counts.active_space,
            building_space=counts.building_space,
            building_pending=counts.building_pending,
            local_only=counts.local_only,
            copies=tuple(copy for copy, _ in copies_of(memory.files, scan.files)),
            links=tuple(scan.links),
            excluded=len(scan.left_out),
            index_bytes=counts.index_bytes,
            last_sync=reader.meta("last_sync"),
            shared=shared if shared.address else None,
            dated_by="" if dates.reason else commit_in(dates.state),
            dated_notes=reader.committed_notes(),
            undated=dates.reason,
            warnings=(
                *(Failure("(settings)", text) for text in memory.settings.warnings),
                *(Failure("(model)", text) for text in filter(None, [advice])),
                *(Failure("(share)", text) for text in shared.warnings),
                *(Failure(path, text) for path, text in reader.warnings()),
            ),
            failures=(*faults, *(failed.failure for failed in read_failures(reader).values())),
        )


def _shared(memory: Workspace, faults: list[Failure]) -> Shared:
    """Return how the memory is shared with other machines; if that cannot be read, add a fault."""
    from memsync.edit.share_state import shared_of

    try:
        return shared_of(memory.state)
    except MemsyncError as error:
        faults.append(Failure("(state)", error.sentences()))
        return Shared()


def _walk(memory: Workspace) -> FileScan:
    """Return the files of the root, without reading them; none if they cannot be listed."""
    from memsync.notes.files import FileScan  # imported here, like what `status` imports

    with suppress(MemsyncError):
        return FileScan() if memory.settings.only else memory.files.scan()
    return FileScan()


def _write_fault(memory: Workspace) -> list[Failure]:
    """Return why this process may not write the index, which every sync and most searches need; otherwise nothing."""
    try:
        memory.index.check_writable()
    except IndexFailure as error:
        return [Failure(INDEX_FAILURE, error.sentences())]
    return []
