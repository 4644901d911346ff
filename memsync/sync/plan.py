"""Files as they are x files as indexed -> what changed. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from memsync.model.sync_report import Change, ChangeType, IndexedFile
from memsync.model.vocabulary import NotePath
from memsync.notes.files import FileScan

RACY_NS = 2_000_000_000
"""Two writes can share one mtime or ctime: what was younger than this when it was stamped is read again."""
FINE_RACY_NS = 100_000_000
"""The same on a local disk that stamps with this machine's clock, in ticks of ten milliseconds at most."""


def plan_sync(
    scan: FileScan, indexed: Mapping[NotePath, IndexedFile], parsed_by: str, *, is_local: bool = False
) -> list[Change]:
    """Return what changed between index and scan; deletions last, so that text that moved keeps its passages.

    A file is read again when its size, mtime, ctime or inode differ, when it was stamped too soon after it was
    written, or when other settings parsed it. A note in a folder that could not be read is left as it is. `is_local`
    says that the files' ctimes can be compared with this machine's clock.
    """
    added: list[Change] = []
    modified: list[Change] = []
    fine = FINE_RACY_NS if is_local else RACY_NS
    for path, identity in scan.files.items():
        known = indexed.get(path)
        if known is None:
            added.append(Change(ChangeType.ADDED, path))
            continue
        window = fine if identity[2] % 1_000_000 else RACY_NS  # whole milliseconds: stamps are coarser than they look
        racy = abs(known[5] - identity[1]) < window or abs(known[5] - identity[2]) < window
        if racy or known[:4] != identity or known[6] != parsed_by:
            modified.append(Change(ChangeType.MODIFIED, path))
    deleted = [
        Change(ChangeType.DELETED, path) for path in indexed.keys() - scan.files.keys() if not scan.is_unknown(path)
    ]
    return [*_by_path(modified), *_by_path(added), *_by_path(deleted)]


def _by_path(changes: list[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: change.path)
