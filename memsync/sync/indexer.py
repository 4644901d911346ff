"""Changes -> rows: read, parse and chunk each file and commit its text at once; vectors follow (embedding.py)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from memsync.errors import NoteError, NoteTooLarge
from memsync.model import Change, ChangeType, Chunk, Failure, FileStamp, IndexedFile, Note, NotePath
from memsync.notes.decode import BinaryFileError
from memsync.notes.files import FileScan, NoteFiles
from memsync.notes.places import Places
from memsync.notes.reader import NoteReader
from memsync.notes.repository import head_state
from memsync.ports import Clock, Index, IndexWriter, Progress
from memsync.sync.dates import SEARCH_SECONDS, SYNC_SECONDS, bring_up_to_date
from memsync.sync.failures import FailedFile, write_failures
from memsync.sync.gate import Gate
from memsync.sync.outlook import Lookout, Outlook

BATCH_SECONDS = 0.25
BATCH_NOTES = 200
LARGE_BYTES = 500_000
"""A note of this size takes half a second to parse."""
SMALL, LARGE, GONE = range(3)
"""The order of work. What is gone comes last, so that text that moved keeps its passages."""
MAX_ROUNDS = 3
"""How often one refresh looks again for files that changed while it read them."""
MAX_TURN_SECONDS = 3_600.0
LONGEST_WAIT_SECONDS = 5.0
"""How long one refresh waits in all for files that are being saved to stand still."""


@dataclass(slots=True)
class TextReport:
    """What one refresh did to the index, and to which notes. `pending` counts the changes it did not get to.

    `look_seconds` is how long one look at all files takes. `dated`: notes got their dates from another HEAD;
    `has_old_dates`: they still have those of an earlier one.
    """

    added: int = 0
    changed: int = 0
    deleted: int = 0
    unchanged: int = 0
    pending: int = 0
    vectors_reused: int = 0
    failed: list[Failure] = field(default_factory=list)
    paths: list[NotePath] = field(default_factory=list)
    look_seconds: float = 0.0
    dated: bool = False
    has_old_dates: bool = False


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A changed file, read; without a note when only its stamp is new, or when it is no text any more (`forget`)."""

    change: Change
    stamp: FileStamp
    note: Note | None = None
    chunks: Sequence[Chunk] = ()
    forget: bool = False


class Indexer:
    """Makes the index's text equal to the files. Any number may work at once: each commit checks its files again."""

    def __init__(self, files: NoteFiles, index: Index, reader: NoteReader, clock: Clock, gate: Gate) -> None:
        self._files = files
        self._index = index
        self._reader = reader
        self._clock = clock
        self._gate = gate
        self._writing = threading.Lock()
        self.lookout = Lookout(files, index, reader.parsed_by, clock)

    def refresh(
        self,
        *,
        places: Places | None = None,
        deadline_seconds: float = float("inf"),
        most: float = float("inf"),
        for_search: bool = False,
        accept_root: bool = False,
        retry_dates: bool = False,
        progress: Progress | None = None,
        on_commit: Callable[[int, int], None] = lambda done, pending: None,
    ) -> TextReport:
        """Find what changed (at `places`, or anywhere) and commit its text.

        With everything, notes are dated by git's HEAD if that has changed, or with `retry_dates` if it failed before.
        `on_commit` is told after each transaction how many files were in it and how many changes are left.

        Stops with the rest counted as pending at the deadline, or, before it has begun, when there are more than `most`
        changes. What is not `for_search` stands aside for searches. Raises RootError when the root is missing, or is
        another folder than the one indexed with none of its notes; Stopped when the gate is closed.
        """
        deadline = self._clock.monotonic() + deadline_seconds
        report = TextReport()
        rounds, patience = 0, LONGEST_WAIT_SECONDS
        while True:
            outlook = self.lookout.look(places, accept_root=accept_root)
            report.pending = outlook.pending
            report.failed = [*outlook.scan.failures, *(f.failure for f in outlook.known_failures.values())]
            if outlook.new_changes > most:
                break
            if outlook.changes or outlook.known_failures != outlook.known.failures:
                with self._turn(deadline, for_search=for_search) as is_ours:
                    if not is_ours:
                        break
                    self._apply(outlook.scan, report, deadline, progress, on_commit, for_search=for_search)
            left = min(deadline - self._clock.monotonic(), patience)
            if report.pending == 0 or left <= 0:
                break
            if report.pending > outlook.put_off:  # something changed while it was read
                rounds += 1
                if rounds >= MAX_ROUNDS:
                    break
            else:
                wait = min(outlook.due_seconds, left)
                patience -= wait
                self._clock.sleep(wait)
        if places is None:  # last: what git takes must not cost a search its text
            self._date(report, deadline, for_search=for_search, retry=retry_dates)
        report.look_seconds = self.lookout.look_seconds
        report.unchanged = max(0, len(self.lookout.known().stamps) - report.added - report.changed)
        return report

    def has_current_dates(self) -> bool:
        """Tell whether notes are dated by git's HEAD as it is now."""
        return self.lookout.known().dates.are_of(head_state(self._files.root))

    def _date(self, report: TextReport, deadline: float, *, for_search: bool, retry: bool) -> None:
        """Date the notes by HEAD's history if another HEAD is there than the index knows."""
        head, known = head_state(self._files.root), self.lookout.known().dates
        left = deadline - self._clock.monotonic()
        seconds = max(SEARCH_SECONDS, left) if for_search else SYNC_SECONDS
        if known.are_of(head) and not (known.reason and (retry or known.are_worth_another_try(seconds))):
            return
        report.has_old_dates = True
        if for_search and left <= 0:
            return
        with self._turn(deadline, for_search=for_search) as is_ours:
            if is_ours and self.lookout.known().dates == known:
                bring_up_to_date(self._index, self._files.root, head, min(seconds, SYNC_SECONDS))
                report.dated = True
            report.has_old_dates = not is_ours

    @contextmanager
    def _turn(self, deadline: float, *, for_search: bool) -> Iterator[bool]:
        """Let one thread at a time apply changes; yield False when the deadline came first.

        A search that waits for its turn holds nothing back meanwhile: what it waits for stands aside for searches.
        """
        if for_search:
            with self._gate.awaiting():
                is_ours = self._writing.acquire(
                    timeout=max(0.0, min(deadline - self._clock.monotonic(), MAX_TURN_SECONDS))
                )
        else:
            is_ours = self._writing.acquire()
        try:
            yield is_ours
        finally:
            if is_ours:
                self._writing.release()

    def _apply(
        self,
        scan: FileScan,
        report: TextReport,
        deadline: float,
        progress: Progress | None,
        on_commit: Callable[[int, int], None],
        *,
        for_search: bool,
    ) -> None:
        """Commit the text of what a scan found changed, without what another thread has done meanwhile."""
        outlook = self.lookout.plan(scan, accept_root=True)
        pause = (lambda: None) if for_search else self._gate.pause
        work = _Round(outlook, dict(outlook.known_failures), report, self._clock, deadline, progress, pause)
        report.pending = outlook.pending
        for batch in self._batches(outlook.changes, work):
            self._commit(batch, work)
            on_commit(len(batch), report.pending)
        report.failed = [*scan.failures, *(f.failure for f in work.failures.values())]
        if work.failures != outlook.known.failures:
            self._remember(work)

    # ------------------------------------------------------------------------------------------ batches

    def _batches(self, changes: Sequence[Change], work: _Round) -> Iterator[Sequence[_Parsed]]:
        """Yield files read and parsed, few enough that each commit comes soon; large ones come after small ones."""
        batch: list[_Parsed] = []
        started = self._clock.monotonic()
        for change in sorted(changes, key=work.rank):
            if batch and work.rank(change) == LARGE:
                yield batch
                batch, started = [], self._clock.monotonic()
            if self._clock.monotonic() >= work.deadline:
                break
            work.pause()
            parsed = self._read(change, work)
            work.step()
            if parsed is not None:
                batch.append(parsed)
            if batch and (len(batch) >= BATCH_NOTES or self._clock.monotonic() - started > BATCH_SECONDS):
                yield batch
                batch, started = [], self._clock.monotonic()
        if batch:
            yield batch

    def _read(self, change: Change, work: _Round) -> _Parsed | None:
        """Return a file as it is now; None when it failed or vanished, which the next round will see."""
        path = change.path
        if change.type is ChangeType.DELETED:
            return _Parsed(change, FileStamp(0, 0, 0, 0, b"", 0))
        try:
            content, stamp = self._files.read(path)
            known = work.outlook.known.stamps.get(path)
            if known and known.digest == stamp.digest and known.parsed_by == self._reader.parsed_by:
                return _Parsed(change, stamp)
            note, chunks = self._reader.read(path, content)
        except FileNotFoundError:
            return None
        except BinaryFileError as error:
            # Its content is known, and is nothing to index: unlike a file that cannot be read, its old text is gone.
            work.fail(path, error, self._reader.parsed_by)
            return _Parsed(change, stamp, forget=True) if known else None
        except NoteTooLarge as error:
            work.fail(path, error, self._reader.parsed_by)
            return None
        except NoteError as error:  # which may pass without the file's stamp changing: it is tried every time
            work.fail(path, error, "")
            return None
        return _Parsed(change, stamp, note, chunks)

    def _commit(self, batch: Sequence[_Parsed], work: _Round) -> None:
        """Write one batch; a file that changed since it was read is left for the next round."""
        with self._index.writing() as writer:
            known, generation = writer.notes_generation(), writer.generation() + 1
            done = [(parsed, self._write(writer, parsed)) for parsed in self._still(batch)]
        self.lookout.note_commit(known, generation, {p.change.path: self._stamp(p) for p, _ in done})
        for parsed, reused in done:
            work.count(parsed, reused)

    def _stamp(self, parsed: _Parsed) -> IndexedFile | None:
        if parsed.change.type is ChangeType.DELETED or parsed.forget:
            return None
        stamp = parsed.stamp
        return IndexedFile(*stamp.identity, stamp.digest, stamp.stamped_ns, self._reader.parsed_by)

    def _still(self, batch: Sequence[_Parsed]) -> Sequence[_Parsed]:
        """Return those whose files are now as they were read. A deleted note's file may be there: ignored by now."""
        now = {parsed.change.path: self._files.identity(parsed.change.path) for parsed in batch}
        deleted = {parsed.change.path for parsed in batch if parsed.change.type is ChangeType.DELETED}
        doubtful = [path for path in deleted if now[path] is not None]
        scan = self._files.scan(Places(doubtful)) if doubtful else FileScan()
        back = {path for path in doubtful if path in scan.files or scan.is_unknown(path)}
        return [
            parsed
            for parsed in batch
            if (path := parsed.change.path) not in back and (path in deleted or now[path] == parsed.stamp.identity)
        ]

    def _write(self, writer: IndexWriter, parsed: _Parsed) -> int:
        """Write one file's rows and return how many vectors came from the cache."""
        path = parsed.change.path
        if parsed.change.type is ChangeType.DELETED or parsed.forget:
            writer.delete_note(path)
            return 0
        if parsed.note is None:
            writer.put_stamp(path, parsed.stamp)
            return 0
        return writer.put_note(parsed.note, parsed.chunks, parsed.stamp, self._reader.parsed_by).reused

    def _remember(self, work: _Round) -> None:
        with self._index.writing() as writer:
            write_failures(writer, work.failures.values())


@dataclass(slots=True)
class _Round:
    """One pass of `refresh` over the files."""

    outlook: Outlook
    failures: dict[NotePath, FailedFile]
    report: TextReport
    clock: Clock
    deadline: float
    progress: Progress | None
    pause: Callable[[], None]
    read: int = 0

    def rank(self, change: Change) -> int:
        """Return when a change has its turn: SMALL, LARGE or GONE."""
        if change.type is ChangeType.DELETED:
            return GONE
        return LARGE if self.outlook.scan.files[change.path][0] > LARGE_BYTES else SMALL

    def step(self) -> None:
        """Tell how far reading has come."""
        self.read += 1
        if self.progress is not None:
            self.progress("reading notes", self.read, len(self.outlook.changes))

    def fail(self, path: NotePath, error: Exception, parsed_by: str) -> None:
        """Note a file that cannot be indexed; it is tried again when it changes, or other settings parse it."""
        self.report.pending -= 1
        self.failures[path] = FailedFile(path, str(error), self.outlook.scan.files[path], parsed_by)

    def count(self, parsed: _Parsed, reused: int) -> None:
        """Count one committed change; a file that reads as before is none."""
        if parsed.note is not None or parsed.forget or parsed.change.type is ChangeType.DELETED:
            self.report.paths.append(parsed.change.path)
        if parsed.forget:
            self.report.deleted += 1
            return
        self.report.pending -= 1
        self.report.vectors_reused += reused
        self.failures.pop(parsed.change.path, None)
        if parsed.change.type is ChangeType.DELETED:
            self.report.deleted += 1
        elif parsed.note is not None:
            self.report.added += parsed.change.type is ChangeType.ADDED
            self.report.changed += parsed.change.type is ChangeType.MODIFIED
