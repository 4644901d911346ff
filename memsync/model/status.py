"""The state of index and daemon, the result of a sync, and the index's records of files."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, NamedTuple

from msgspec import Struct

from memsync.model.vocabulary import NotePath, WatcherState


class ChangeType(StrEnum):
    """What happened to a file since it was last indexed."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


class FileChange(Struct, frozen=True):
    """One file to index again or to forget."""

    type: ChangeType
    path: NotePath


class Failure(Struct, frozen=True):
    """A path that could not be processed, and why; the index keeps the note's last state."""

    path: str
    reason: str

    def __str__(self) -> str:
        """Return both, with the path once."""
        return self.reason if self.reason.startswith(self.path) else f"{self.path}: {self.reason}"


class SyncReport(Struct, frozen=True):
    """What one sync did. `failed` is empty when the index equals the files.

    `generation` numbers the state after it: a search that requests it answers from that state or a later one.
    `not_shared` counts the notes among the others that are local-only, and not in the index because others can read it.
    """

    added: int = 0
    changed: int = 0
    deleted: int = 0
    unchanged: int = 0
    vectors_computed: int = 0
    vectors_reused: int = 0
    vectors_pending: int = 0
    failed: tuple[Failure, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    generation: int = 0
    not_shared: int = 0


class IndexedFile(NamedTuple):
    """An indexed note's stamp, and `parsed_by`: parser version and the settings that parsing depends on.

    A NamedTuple, because every search compares all of them with the files.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    digest: bytes
    stamped_ns: int
    parsed_by: str


class PendingPassage(Struct, frozen=True):
    """A passage that waits for its vector, and a note that contains it.

    An index on this machine keeps its text until it is embedded. If `text` is None, read it from the note again, as
    when a new space is built.
    """

    passage_id: int
    content_hash: bytes
    path: NotePath
    text: str | None


class IndexCounts(Struct, frozen=True):
    """The counts of an index; `vectors` and `pending` are those of the active space.

    `index_bytes` is its size; None in a database, which has no figure for one memory.

    `local_only` counts the passages that get no vector in the active or building space, because the model may run on
    another machine and only local-only notes have them.
    """

    notes: int
    chunks: int
    passages: int
    vectors: int
    pending: int
    active_space: str
    building_space: str
    building_pending: int
    index_bytes: int | None
    local_only: int = 0


class DaemonStatus(Struct, frozen=True):
    """The process that keeps an index current.

    `watcher` and `reason`: how it learns of changes, and why that is not `live`. `scanned_at`: when all files were last
    compared with the index. `pending_text`: changed files that are not indexed yet. `model_loaded`: whether the
    embedding model is in memory. `memory_bytes`: memory of the process. `errors`: current failures; each is removed
    when its task works again.
    """

    process: int
    version: str
    started_at: str
    socket: str
    watcher: WatcherState
    reason: str
    scanned_at: str
    pending_text: int
    model_loaded: bool
    memory_bytes: int
    errors: tuple[str, ...] = ()
    web: str = ""


class Shared(Struct, frozen=True, kw_only=True):
    """How a memory root is shared: with a branch of the git repository at an address; an empty one means it is not.

    `at`: when the last exchange succeeded (ISO 8601, UTC), `sent` and `taken` how many files it sent and took.
    `problem`: why the last one failed. `conflicts`: notes in which no rule decides; until they are solved nothing
    is exchanged. `held`: files that are not sent, with the reason. `allowed`: digests of secrets that may be sent.
    """

    computed: ClassVar = ("warnings",)

    address: str = ""
    branch: str = ""
    at: str = ""
    sent: int = 0
    taken: int = 0
    problem: str = ""
    conflicts: tuple[str, ...] = ()
    held: tuple[Failure, ...] = ()
    allowed: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What keeps machines from having the same notes, in sentences."""
        problem = (f"not exchanged with {self.address}: {self.problem}",) if self.problem else ()
        return (*problem, *self.unsolved, *(f"{one.path} is not sent: {one.reason}" for one in self.held))

    @property
    def unsolved(self) -> tuple[str, ...]:
        """What a search says about notes with conflicts."""
        return tuple(
            f"{path} was changed on two machines: edit it, remove the marks, and run memsync share"
            for path in self.conflicts
        )


class Status(Struct, frozen=True):
    """The state of the index. `space` names the embedding space that answers searches now.

    `index_bytes`: its size; None in a database, which has no figure for one memory.

    `last_sync`: when a comparison of the files that left nothing to index began (ISO 8601, UTC). `dated_by`: the commit
    whose history gives `dated_notes` notes their date, empty without one; `undated`: why it could not be read.
    `pending_seconds`: estimated time to embed the pending passages, from the last speed on this machine; 0 if unknown.
    `local_only`: passages without a vector because only local-only notes have them and the model may run on another
    machine. `copies` are the notes that a sync client or git made of another one, `links` the symbolic links, which are
    not followed. `excluded` counts the notes and folders that .gitignore and the settings leave out. `shared` is None
    if no other machine has the notes, `daemon` when no daemon gave the answer.
    """

    root: str
    index_path: str
    notes: int
    chunks: int
    passages: int
    vectors: int
    pending_vectors: int
    space: str
    building_space: str
    building_pending: int
    index_bytes: int | None
    last_sync: str
    pending_seconds: float = 0.0
    warnings: tuple[Failure, ...] = ()
    failures: tuple[Failure, ...] = ()
    dated_by: str = ""
    dated_notes: int = 0
    undated: str = ""
    local_only: int = 0
    copies: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    excluded: int = 0
    shared: Shared | None = None
    daemon: DaemonStatus | None = None


class Difference(Struct, frozen=True):
    """The first line in which the canonical dumps of the index and of a rebuilt one differ.

    `mended` tells whether the rebuilt index has replaced the old one.
    """

    line: int
    indexed: str
    rebuilt: str
    mended: bool = False


class HeldByIndex(NamedTuple):
    """What an index has of a memory.

    `place` is where, for people. `folder` has its notes; empty if they are elsewhere. `is_registered`: the user's list
    has its name. `daemon_stopped`: a daemon served it and was stopped. In a database also who writes it, and when that
    one last synced it; `is_own`: it is this user on this machine.
    """

    place: str
    notes: int
    passages: int
    folder: str = ""
    is_registered: bool = False
    daemon_stopped: bool = False
    writer: str = ""
    last_sync: str = ""
    is_own: bool = True
