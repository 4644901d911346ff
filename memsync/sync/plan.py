"""Files as they are x files as indexed -> what changed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memsync.model import Change, ChangeType, IndexedFile, NotePath
from memsync.notes.files import FileScan

RACY_NS = 2_000_000_000
"""Two writes can share one mtime or ctime: what was younger than this when it was stamped is read again."""


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """Changes in the order in which they are applied: deletions last, so that text that moved keeps its passages."""

    changes: tuple[Change, ...]
    unchanged: int


def plan_sync(scan: FileScan, indexed: Mapping[NotePath, IndexedFile], parsed_by: str) -> SyncPlan:
    """Compare a scan with the index.

    A file is read again when its size, mtime, ctime or inode differ, when it was stamped too soon after it was
    written, or when other settings parsed it. A note in a folder that could not be read is left as it is.
    """
    added: list[Change] = []
    modified: list[Change] = []
    for path, identity in scan.files.items():
        known = indexed.get(path)
        if known is None:
            added.append(Change(ChangeType.ADDED, path))
            continue
        racy = abs(known[5] - identity[1]) < RACY_NS or abs(known[5] - identity[2]) < RACY_NS
        if racy or known[:4] != identity or known[6] != parsed_by:
            modified.append(Change(ChangeType.MODIFIED, path))
    deleted = [
        Change(ChangeType.DELETED, path) for path in indexed.keys() - scan.files.keys() if not scan.is_unknown(path)
    ]
    changes = [*_by_path(modified), *_by_path(added), *_by_path(deleted)]
    return SyncPlan(tuple(changes), len(scan.files) - len(added) - len(modified))


def _by_path(changes: list[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: change.path)
