"""Plans a sync: compares the files with the index, sorts the changes, and delays those of files still being saved.

It also stores which files could not be indexed and their state then, so that each is retried only after it changes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from memsync.errors import FilesystemError, IndexFailure, IndexReadOnly, NoteError, RootError
from memsync.model.status import ChangeType, Failure, FileChange, IndexedFile
from memsync.model.vocabulary import NotePath
from memsync.notes.files import FileScan, Identity, NoteFiles, Places
from memsync.notes.unfinished_saves import State, Stillness, stillness_needed
from memsync.ports import Clock, Index, IndexReader, IndexWriter
from memsync.settings.paths import is_identity, keep_dir, kept_identity
from memsync.sync.git_dates import KnownDates, read_dates
from memsync.sync.moved_root import set_aside
from memsync.system import clock

RACY_NS = 2_000_000_000
"""Two writes can get the same mtime or ctime, so a file that was younger than this when stamped is read again."""
FINE_RACY_NS = 100_000_000
"""The same for a local disk that uses this machine's clock, with ticks of at most ten milliseconds."""
SEVERAL = 8
"""How many notes must have the indexed content in a copy whose files have new times."""
_FAILURES = "failures"
"""Key in the index for the failed files."""


def is_settled(stamp: IndexedFile, parsed_by: str, *, is_local: bool) -> bool:
    """Tell whether a file that still has this stamp need not be read again: not stamped too soon, same parser."""
    fine = FINE_RACY_NS if is_local else RACY_NS
    window = fine if stamp[2] % 1_000_000 else RACY_NS  # a whole number of ms suggests coarse time stamps
    racy = abs(stamp[5] - stamp[1]) < window or abs(stamp[5] - stamp[2]) < window
    return not racy and stamp[6] == parsed_by


def plan_sync(
    scan: FileScan, indexed: Mapping[NotePath, IndexedFile], parsed_by: str, *, is_local: bool = False
) -> list[FileChange]:
    """Return the changes between index and scan; deletions last, so that moved text keeps its passages.

    A file is read again if its size, mtime, ctime or inode differ, if it was stamped too soon after it was written,
    or if it was parsed with other settings. Notes in an unreadable folder are left unchanged. `is_local`: the files'
    ctimes can be compared with this machine's clock. Files that are not in `scan.changed` are settled as indexed.
    """
    added: list[FileChange] = []
    modified: list[FileChange] = []
    for path in scan.changed:
        known = indexed.get(path)
        if known is None:
            added.append(FileChange(ChangeType.ADDED, path))
        elif known[:4] != scan.files[path] or not is_settled(known, parsed_by, is_local=is_local):
            modified.append(FileChange(ChangeType.MODIFIED, path))
    gone = indexed.keys() - scan.files.keys() if len(scan.files) - len(added) < len(indexed) else ()
    deleted = [FileChange(ChangeType.DELETED, path) for path in gone if not scan.is_unknown(path)]
    return [*_by_path(modified), *_by_path(added), *_by_path(deleted)]


def _by_path(changes: list[FileChange]) -> list[FileChange]:
    return sorted(changes, key=lambda change: change.path)


LONGEST_SECONDS = 2.0
"""Maximum time to delay a change. A file that is emptied again and again is indexed after this."""
FORGOTTEN_SECONDS = 1.0
"""If nobody checked a delayed change for this long, for example after a search's deadline, the delay starts again."""


@dataclass(slots=True)
class _Unsettled:
    """A file that lost text: how long it has been unchanged, and when it was first and last checked."""

    still: Stillness
    first: float
    last: float


class Settling:
    """Decides which changes to delay, and for how long. Times are seconds of a monotonic clock.

    It measures how long this process has seen a file unchanged. Ages from file stamps would be wrong after a clock was
    set, here or on a file server, and a note that is just being saved would be indexed as empty.
    """

    def __init__(self, files: NoteFiles) -> None:
        self._files = files
        self._unsettled: dict[NotePath, _Unsettled] = {}

    def divide(
        self, changes: list[FileChange], scan: FileScan, known: Mapping[NotePath, IndexedFile], now: float
    ) -> tuple[list[FileChange], float]:
        """Return the changes to make now, and in how many seconds the next delayed one is due; 0 if none is delayed.

        For a deleted file, its folder's time stamp shows whether the file came back and disappeared meanwhile.
        """
        settled, waits = [], []
        folders: dict[str, int] = {}
        # Keep changes that are due as well: `plan` asks about them again before they are committed.
        unsettled = {path: seen for path, seen in self._unsettled.items() if scan.is_unknown(path)}
        for change in changes:
            wait = 0.0
            if change.type is not ChangeType.ADDED:
                state = self._state(change, scan, folders)
                needed = stillness_needed(state, known[change.path].size)
                if needed:
                    seen = unsettled[change.path] = self._seen(change.path, state, now)
                    if now - seen.first < LONGEST_SECONDS:
                        wait = needed - seen.still.seconds(state, now)
            if wait > 0:
                waits.append(wait)
            else:
                settled.append(change)
        self._unsettled = unsettled
        return settled, min(waits, default=0.0)

    def _seen(self, path: NotePath, state: State, now: float) -> _Unsettled:
        """Record this check of a file that lost text, and return the file's record."""
        seen = self._unsettled.get(path)
        if seen is None:
            return _Unsettled(Stillness(state, now), now, now)
        if now - seen.last > FORGOTTEN_SECONDS:
            seen.first = now
        seen.last = now
        seen.still.seconds(state, now)
        return seen

    def _state(self, change: FileChange, scan: FileScan, folders: dict[str, int]) -> State:
        if change.type is ChangeType.MODIFIED:
            return scan.files[change.path]
        folder = change.path.rpartition("/")[0]
        if folder not in folders:
            folders[folder] = self._files.last_touched_ns(NotePath(folder))
        return folders[folder]


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file that could not be indexed: the reason, its `stat` identity then, and the parser's version and settings."""

    path: NotePath
    reason: str
    identity: Identity
    parsed_by: str

    @property
    def failure(self) -> Failure:
        """The failure as shown to the user."""
        return Failure(self.path, self.reason)


def read_failures(reader: IndexReader) -> dict[NotePath, FailedFile]:
    """Return the failures of earlier syncs by path."""
    rows = json.loads(reader.meta(_FAILURES) or "[]")
    failed = (FailedFile(NotePath(path), reason, tuple(identity), by) for path, reason, identity, by in rows)
    return {file.path: file for file in failed}


def write_failures(writer: IndexWriter, failures: Iterable[FailedFile]) -> None:
    """Replace the stored failures."""
    rows = sorted((file.path, file.reason, file.identity, file.parsed_by) for file in failures)
    writer.set_meta(_FAILURES, json.dumps(rows))


@dataclass(frozen=True, slots=True)
class Known:
    """The state of the files according to the index, as of one notes generation; `last_removal` as in IndexReader."""

    generation: int
    last_removal: int
    stamps: dict[NotePath, IndexedFile]
    failures: Mapping[NotePath, FailedFile]
    root: str
    dates: KnownDates


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """The changes to make now, and how many are `delayed`; the first of these is due in `due_seconds`.

    `known_failures` are files that failed before and have not changed since.
    """

    scan: FileScan
    known: Known
    changes: Sequence[FileChange]
    delayed: int
    due_seconds: float
    known_failures: Mapping[NotePath, FailedFile]

    @property
    def new_changes(self) -> int:
        """How many changes there are, not counting files that failed before and have not changed since."""
        failed, files = self.known.failures, self.scan.files
        return sum(
            change.path not in failed or failed[change.path].identity != files.get(change.path)
            for change in self.changes
        )

    @property
    def pending(self) -> int:
        """How many changes are not in the index yet."""
        return len(self.changes) + self.delayed


_NOTHING = Known(-1, 0, {}, {}, "", KnownDates())


def iso_moment(time_ns: int) -> str:
    """Return a moment of the clock of files as ISO 8601 in UTC, by the clock that people see."""
    return datetime.fromtimestamp(time_ns / 1e9 + clock.ahead(), UTC).isoformat(timespec="milliseconds")


class Scanner:
    """Compares files and index. Safe to call from several threads; simultaneous calls share one scan.

    `scan` is the last full scan. `scanned_at` is when it began (monotonic clock), `scanned_at_ns` the same by the wall
    clock, and `scan_seconds` how long it took; all are 0 before the first.
    """

    def __init__(self, files: NoteFiles, index: Index, parsed_by: str, clock: Clock) -> None:
        self._files = files
        self._index = index
        self._parsed_by = parsed_by
        self._clock = clock
        self._settling = Settling(files)
        self._scanning = threading.Lock()
        self._guard = threading.RLock()
        self._known = _NOTHING
        self._settled: dict[NotePath, Identity] = {}
        self._settled_as_of = _NOTHING.generation
        self.scan = FileScan()
        self.scanned_at = 0.0
        self.scanned_at_ns = 0
        self.scan_seconds = 0.0

    def compare(self, places: Places | None = None, *, accept_root: bool = False) -> SyncPlan:
        """Scan all files, or those at `places`, and return the changes to make.

        A caller that waits for another thread's scan uses the result of a scan that began after the call, because that
        includes everything saved before the call. Raises RootError if the root is missing, or is another folder than
        the indexed one.
        """
        if places is not None:
            return self.plan(self._files.scan(places), accept_root=accept_root)
        called = self._clock.monotonic()
        with self._scanning:
            if self.scanned_at <= called:
                began, began_ns = self._clock.monotonic(), self._clock.time_ns()
                self.scan = self._files.scan(known=self._settled_files())
                self.scanned_at, self.scanned_at_ns = began, began_ns
                self.scan_seconds = self._clock.monotonic() - began
            scan = self.scan
        return self.plan(scan, accept_root=accept_root)

    def plan(self, scan: FileScan, *, accept_root: bool = False) -> SyncPlan:
        """Compare a scan with the current index."""
        with self._guard:
            # Within `reading`, because damaged rows raise errors only when they are used, and `reading` handles them.
            with self._index.reading():
                known = self.known()
                identity = self._files.root_identity()
                if identity != known.root and not accept_root:
                    self._check_root(identity, known)
                repeated = {path: f for path, f in known.failures.items() if self._fails_again(f, scan)}
                if scan.known is not self._settled or self._settled_as_of != known.generation:
                    scan.changed = list(scan.files)  # it was compared with another state of the index
                plan = plan_sync(scan, known.stamps, self._parsed_by, is_local=self._files.is_local)
                changes = [change for change in plan if change.path not in repeated]
                due, due_seconds = self._settling.divide(changes, scan, known.stamps, self._clock.monotonic())
            if identity != known.root:
                # An index that cannot be written now can still be searched; a later comparison stores the identity.
                with suppress(IndexReadOnly, FilesystemError, OSError):
                    kept = kept_identity(str(self._files.root))
                    if kept and self._is_another(identity, kept, known):  # then its journal is another memory's, too
                        set_aside(keep_dir(str(self._files.root)), kept)
                    self._files.keep_identity(identity)
                    with self._index.writing() as writer:
                        writer.set_meta("root", identity)
            return SyncPlan(scan, known, due, len(changes) - len(due), due_seconds, repeated)

    def _fails_again(self, failed: FailedFile, scan: FileScan) -> bool:
        """Tell whether a file is unchanged since this parser failed on it; True if the scan did not include it."""
        if scan.places is not None and not scan.places.hold(failed.path):
            return True
        return scan.files.get(failed.path) == failed.identity and failed.parsed_by == self._parsed_by

    def known(self) -> Known:
        """Return the index's state of the files; reads it again only if another process or thread has written since."""
        with self._guard, self._index.reading() as reader:
            generation = reader.notes_generation()
            if generation != self._known.generation:
                self._known = Known(
                    generation,
                    reader.last_removal(),
                    dict(reader.stamps()),
                    read_failures(reader),
                    reader.meta("root"),
                    read_dates(reader),
                )
            return self._known

    def _settled_files(self) -> Mapping[NotePath, Identity]:
        """Return the files that need not be read again if they are still so, by the index as last known."""
        with self._guard:
            if self._settled_as_of != self._known.generation:
                stamps, by, is_local = self._known.stamps.items(), self._parsed_by, self._files.is_local
                self._settled = {path: stamp[:4] for path, stamp in stamps if is_settled(stamp, by, is_local=is_local)}
                self._settled_as_of = self._known.generation
            return self._settled

    def note_commit(
        self, before: int, after: int, last_removal: int, stamps: Mapping[NotePath, IndexedFile | None]
    ) -> None:
        """Update the known state after a commit by this process; a stamp of None means that the note was deleted.

        `before` and `after` are notes generations, `last_removal` is the one after the commit. This saves reading all
        stamps again. Does nothing if another process or thread wrote meanwhile.
        """
        with self._guard:
            if before != self._known.generation:
                return
            for path, stamp in stamps.items():
                if stamp is None:
                    self._known.stamps.pop(path, None)
                else:
                    self._known.stamps[path] = stamp
            self._known = replace(self._known, generation=after, last_removal=last_removal)

    def check_root(self) -> None:
        """Raise RootError if the memory root is missing, or is another folder than the indexed one."""
        identity = self._files.root_identity()
        if identity == kept_identity(str(self._files.root)):  # so that a write needs no index
            return
        try:
            with self._index.reading():
                known = self.known()
        except IndexFailure:
            known = _NOTHING
        self._check_root(identity, known)

    def _check_root(self, identity: str, known: Known) -> None:
        """Raise RootError if the root is another folder without the indexed notes, such as an empty mount point."""
        if self._is_another(identity, known.root or kept_identity(str(self._files.root)), known):
            raise RootError(
                f"{self._files.root} is not the folder that was indexed: it does not have the notes of the index",
                hint="Bring it back or mount it. If you replaced it on purpose, run: memsync sync --accept-root",
            )

    def _is_another(self, identity: str, before: str, known: Known) -> bool:
        return before != "" and not is_identity(identity, before) and not self._has_notes_of(known)

    def _has_notes_of(self, known: Known) -> bool:
        """Tell whether the root has at least half of the indexed notes: with their times, or SEVERAL by content.

        Fewer show nothing: `memsync init` writes the same notes into every memory.
        """
        files = self._files.scan().files
        alike = [path for path, stamp in known.stamps.items() if path in files and files[path][0] == stamp.size]
        same = sum(files[path][1] == known.stamps[path].mtime_ns for path in alike)
        if 2 * same < len(known.stamps) and len(alike) >= SEVERAL:
            same = sum(self._digest(path) == known.stamps[path].digest for path in alike)
            same = same if same >= SEVERAL else 0
        return 0 < len(known.stamps) <= 2 * same

    def _digest(self, path: NotePath) -> bytes:
        with suppress(NoteError, FileNotFoundError):
            return self._files.read(path)[1].digest
        return b""
