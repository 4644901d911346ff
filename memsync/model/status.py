"""What an index holds and what keeps it current."""

from __future__ import annotations

from dataclasses import dataclass

from memsync.model.sync_report import Failure
from memsync.model.vocabulary import WatcherState


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """The process that keeps an index live.

    `watcher` and `reason`: how it learns of changes, and why that is not `live`. `scanned_at`: when all files were last
    compared with the index. `pending_text`: changed files it has yet to index. `model_loaded`: whether questions are
    answered without loading the model first. `memory_bytes`: what the process holds in memory. `errors`: what keeps
    failing, each until it has worked again.
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


@dataclass(frozen=True, slots=True)
class Status:
    """What the index holds. Sizes in bytes; `space` names the embedding space that answers searches now.

    `last_sync`: when files and index were last known to be equal, whoever made them so (ISO 8601, UTC). `dated_by`: the
    commit whose history gives `dated_notes` notes their date, empty without one; `undated`: why it could not be read.
    `pending_seconds`: about how long embedding what waits takes, by the speed it last had here; 0 when that is unknown.
    `daemon` is None when no daemon gave the answer.
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
    index_bytes: int
    last_sync: str
    pending_seconds: float = 0.0
    warnings: tuple[Failure, ...] = ()
    failures: tuple[Failure, ...] = ()
    dated_by: str = ""
    dated_notes: int = 0
    undated: str = ""
    daemon: DaemonStatus | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """The first line at which two canonical dumps differ: the index's and the one rebuilt beside it.

    `mended` tells whether the rebuilt one has taken the index's place.
    """

    line: int
    indexed: str
    rebuilt: str
    mended: bool = False
