"""What a sync is to do: the files compared with the index, changes ordered, and those left to stand still first."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from memsync.errors import RootError
from memsync.model.status import Change, ChangeType, IndexedFile
from memsync.model.vocabulary import NotePath
from memsync.notes.files import FileScan, NoteFiles, Places
from memsync.notes.stillness import State, Stillness, stillness_needed
from memsync.ports import Clock, Index
from memsync.sync.failures import FailedFile, read_failures
from memsync.sync.git_dates import KnownDates, read_dates

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


LONGEST_SECONDS = 2.0
"""For how long a change may be put off in all: a file that is emptied again and again is believed after this."""
FORGOTTEN_SECONDS = 1.0
"""A change that was not looked at for so long, because who waited gave up before it settled, is put off anew."""


@dataclass(slots=True)
class _Unsettled:
    """A file that lost text: since when it looks as it does, when that was first and last looked at."""

    still: Stillness
    first: float
    last: float


class Settling:
    """Tells which changes are to wait, and for how long. Times are seconds of a monotonic clock.

    What counts is how long this process has seen a file stand still. An age by file stamps would be wrong whenever a
    clock was set in between, here or on a file server, and a note that is just being saved would be taken for empty.
    """

    def __init__(self, files: NoteFiles) -> None:
        self._files = files
        self._unsettled: dict[NotePath, _Unsettled] = {}

    def divide(
        self, changes: list[Change], scan: FileScan, known: Mapping[NotePath, IndexedFile], now: float
    ) -> tuple[list[Change], float]:
        """Return the changes to believe now, and in how many seconds the next of the others will be; 0 if none waits.

        Of an unsettled deletion the file itself is gone, so its folder tells whether it came and went meanwhile.
        """
        settled, waits = [], []
        folders: dict[str, int] = {}
        # Remembered if believed, too: it is asked for again before it is committed.
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
        """Return what is known of a file that lost text, this look at it included."""
        seen = self._unsettled.get(path)
        if seen is None:
            return _Unsettled(Stillness(state, now), now, now)
        if now - seen.last > FORGOTTEN_SECONDS:
            seen.first = now
        seen.last = now
        seen.still.seconds(state, now)
        return seen

    def _state(self, change: Change, scan: FileScan, folders: dict[str, int]) -> State:
        if change.type is ChangeType.MODIFIED:
            return scan.files[change.path]
        folder = change.path.rpartition("/")[0]
        if folder not in folders:
            folders[folder] = self._files.last_touched_ns(NotePath(folder))
        return folders[folder]


@dataclass(frozen=True, slots=True)
class Known:
    """What the index says of the files, as of one generation of its notes."""

    generation: int
    stamps: dict[NotePath, IndexedFile]
    failures: Mapping[NotePath, FailedFile]
    root: str
    dates: KnownDates


@dataclass(frozen=True, slots=True)
class Outlook:
    """The changes to be made now, and how many more there are, of which the first is due in so many seconds.

    `known_failures` are files that would fail as they did before.
    """

    scan: FileScan
    known: Known
    changes: Sequence[Change]
    put_off: int
    due_seconds: float
    known_failures: Mapping[NotePath, FailedFile]

    @property
    def new_changes(self) -> int:
        """How many of the changes are not of files that failed before and look the same."""
        failed, files = self.known.failures, self.scan.files
        return sum(
            change.path not in failed or failed[change.path].identity != files.get(change.path)
            for change in self.changes
        )

    @property
    def pending(self) -> int:
        """How many changes the index lacks."""
        return len(self.changes) + self.put_off


class Lookout:
    """Compares files and index. Safe to call from several threads; those that ask at once share one look.

    `looked_at` is when (monotonic clock) the last comparison of everything began, `looked_at_ns` the same by the wall
    clock, `look_seconds` how long its look at the files took; 0 before the first.
    """

    def __init__(self, files: NoteFiles, index: Index, parsed_by: str, clock: Clock) -> None:
        self._files = files
        self._index = index
        self._parsed_by = parsed_by
        self._clock = clock
        self._settling = Settling(files)
        self._looking = threading.Lock()
        self._guard = threading.RLock()
        self._known = Known(-1, {}, {}, "", KnownDates())
        self._scan: FileScan | None = None
        self.looked_at = 0.0
        self.looked_at_ns = 0
        self.look_seconds = 0.0

    def look(self, places: Places | None = None, *, accept_root: bool = False) -> Outlook:
        """Return what there is to do about all files, or about those at `places`.

        Whoever waited while another thread looked takes what a look found that began after his call: it saw all that
        he could have saved. Raises RootError when the root is missing, or is another folder than the one indexed.
        """
        if places is not None:
            return self.plan(self._files.scan(places), accept_root=accept_root)
        called = self._clock.monotonic()
        with self._looking:
            scan = self._scan
            if scan is None or self.looked_at <= called:
                began, began_ns = self._clock.monotonic(), self._clock.time_ns()
                scan = self._files.scan()
                self._scan, self.looked_at, self.looked_at_ns = scan, began, began_ns
                self.look_seconds = self._clock.monotonic() - began
        return self.plan(scan, accept_root=accept_root)

    def plan(self, scan: FileScan, *, accept_root: bool = False) -> Outlook:
        """Compare a scan with what the index knows now."""
        with self._guard:
            # Planned while reading, since what a damaged row is read as shows only when it is made use of.
            with self._index.reading():
                known = self.known()
                identity = self._files.root_identity()
                if identity != known.root and not accept_root:
                    self._check_root(scan, known)
                repeated = {path: f for path, f in known.failures.items() if self._fails_again(f, scan)}
                plan = plan_sync(scan, known.stamps, self._parsed_by, is_local=self._files.is_local)
                changes = [change for change in plan if change.path not in repeated]
                due, due_seconds = self._settling.divide(changes, scan, known.stamps, self._clock.monotonic())
            if identity != known.root:
                with self._index.writing() as writer:
                    writer.set_meta("root", identity)
            return Outlook(scan, known, due, len(changes) - len(due), due_seconds, repeated)

    def _fails_again(self, failed: FailedFile, scan: FileScan) -> bool:
        """Tell whether a file is, as far as was looked, as it was when this same parser failed on it."""
        if scan.places is not None and not scan.places.hold(failed.path):
            return True
        return scan.files.get(failed.path) == failed.identity and failed.parsed_by == self._parsed_by

    def known(self) -> Known:
        """Return what the index knows, read anew only if another process or thread has written since."""
        with self._guard, self._index.reading() as reader:
            generation = reader.notes_generation()
            if generation != self._known.generation:
                self._known = Known(
                    generation, dict(reader.stamps()), read_failures(reader), reader.meta("root"), read_dates(reader)
                )
            return self._known

    def note_commit(self, before: int, after: int, stamps: Mapping[NotePath, IndexedFile | None]) -> None:
        """Bring what is known up to date with one's own commit, None for a note that is gone.

        `before` and `after` are the notes' generations. Without this the next look would read all stamps again. Does
        nothing if somebody else wrote meanwhile.
        """
        with self._guard:
            if before != self._known.generation:
                return
            for path, stamp in stamps.items():
                if stamp is None:
                    self._known.stamps.pop(path, None)
                else:
                    self._known.stamps[path] = stamp
            self._known = replace(self._known, generation=after)

    def folder_inodes(self) -> list[int]:
        """Return the inodes of the folders that the last scan of everything went through."""
        return self._scan.folder_inodes if self._scan is not None else []

    def file_count(self) -> int:
        """Return how many notes the last scan of everything found."""
        return len(self._scan.files) if self._scan is not None else 0

    def _check_root(self, scan: FileScan, known: Known) -> None:
        """Refuse to take another folder's emptiness for a deletion of everything (an unmounted disk, a moved root)."""
        if scan.places is not None:  # which cannot tell what is missing
            scan = self._files.scan()
        if known.root and known.stamps and not (known.stamps.keys() & scan.files.keys()):
            raise RootError(
                f"{self._files.root} is not the folder that was indexed: it has none of its {len(known.stamps)} notes",
                hint="If it was meant to be replaced, run: memsync sync --accept-root",
            )
