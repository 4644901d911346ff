"""Indexes changed files: reads, parses and chunks each file and commits its text; embedding.py adds the vectors."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from memsync.errors import NoteError, NoteTooLarge
from memsync.model.note import FileStamp
from memsync.model.status import ChangeType, Failure, FileChange, IndexedFile
from memsync.model.vocabulary import NotePath
from memsync.notes.decode import BinaryFileError
from memsync.notes.files import FileScan, NoteFiles, Places
from memsync.notes.parse import NoteReader
from memsync.notes.unfinished_saves import stillness_needed
from memsync.ports import Clock, Index, IndexWriter, PreparedNote, Progress
from memsync.sync.gate import Gate
from memsync.sync.git_dates import SEARCH_SECONDS, SYNC_SECONDS, bring_up_to_date
from memsync.sync.order import relevance
from memsync.sync.plan import FailedFile, Scanner, SyncPlan, iso_moment, write_failures
from memsync.sync.workers import AHEAD_BYTES, AHEAD_NOTES, LARGE_BYTES, NoteWorkers, WorkerPool
from memsync.system.child import ChildFailed

BATCH_SECONDS = 0.25
BATCH_NOTES = 200
HEAVY_CHUNKS = 2_000
"""A note with more chunks is committed alone, and so is one that had more than LARGE_BYTES, if there is time for it."""
WRITTEN_PER_SECOND = 8_000_000
"""Bytes of a large note's text whose rows are written or deleted in a second, at least."""
SMALL, LARGE, GONE = range(3)
"""The order of work. Deletions come last, so that moved text keeps its passages."""
MAX_UNSORTED_CHANGES = 64
"""With more changes than this, a search first indexes the files that are most relevant to its question."""
MAX_ROUNDS = 3
"""How often one refresh scans because files changed while it read them."""
MAX_TURN_SECONDS = 3_600.0
SHORTEST_WAIT_SECONDS = 0.001
LONGEST_WAIT_SECONDS = 5.0
"""How long one refresh waits in total for files that are being saved."""


@dataclass(slots=True)
class TextReport:
    """The result of one refresh. `paths` are the changed notes; `pending` counts the changes still to be indexed.

    `dated`: notes got new dates from git's HEAD; `has_old_dates`: notes still have the dates of an earlier HEAD.
    `last_removal` is that of the index which was compared with the files; see `as_of`.
    """

    added: int = 0
    changed: int = 0
    deleted: int = 0
    unchanged: int = 0
    pending: int = 0
    failed: list[Failure] = field(default_factory=list)
    paths: list[NotePath] = field(default_factory=list)
    dated: bool = False
    has_old_dates: bool = False
    last_removal: int | None = None

    @property
    def as_of(self) -> int | None:
        """The `last_removal` of an index that has the text of all files; None if no index is known to have it.

        A later removal may have been decided before this comparison: a note whose folder was away and is back again
        can be deleted from the index after it was found unchanged.
        """
        return None if self.pending else self.last_removal


@dataclass(slots=True)
class _Read:
    """A changed file after reading. With `content` it must be parsed, by a worker if `parsing` is set: into `note`.

    Without either, only the stamp is new, or the note's text must leave the index: `forget` if the file is now binary.
    """

    change: FileChange
    stamp: FileStamp
    content: bytes | None = None
    parsing: Future[PreparedNote] | None = None
    note: PreparedNote | None = None
    forget: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether the note's text must leave the index."""
        return self.forget or self.change.type is ChangeType.DELETED


class _OutOfTime(Exception):
    """Ends work on a note when a search has no time left; the note's rows stay unchanged."""


class Indexer:
    """Makes the index's text equal to the files.

    Several indexers may work at once, because each commit checks its files again. `is_loading` is True while worker
    processes parse many notes.
    """

    def __init__(
        self, files: NoteFiles, index: Index, reader: NoteReader, clock: Clock, gate: Gate, workers: NoteWorkers
    ) -> None:
        self._workers = workers
        self.is_loading = False
        self._files = files
        self._index = index
        self._reader = reader
        self._clock = clock
        self._gate = gate
        self._writing = threading.Lock()
        self.scanner = Scanner(files, index, reader.parsed_by, clock)

    def refresh(
        self,
        deadline_seconds: float = float("inf"),
        *,
        places: Places | None = None,
        max_changes: float = float("inf"),
        for_search: bool = False,
        words: Sequence[str] = (),
        accept_root: bool = False,
        retry_dates: bool = False,
        progress: Progress | None = None,
        on_commit: Callable[[int, int], None] = lambda done, pending: None,
    ) -> TextReport:
        """Find the changed files (at `places`, or all) and commit their text.

        `words`: the words of a question; files that contain them come first. If there are more than `max_changes`, it
        indexes only those files, and nothing without `words`. It stops at the deadline. All changes that are left count
        as pending. `for_search`: do not pause for searches. `on_commit(files, changes left)` is called after each
        transaction.

        Without `places` it also dates the notes if git's HEAD has changed, with `retry_dates` also if that failed
        before.

        Raises RootError if the root is missing, or if it is another folder without any indexed note; Stopped if the
        gate was stopped.
        """
        pause = (lambda: None) if for_search else self._gate.pause
        work = _Refresh(self._clock, self._clock.monotonic() + deadline_seconds, for_search, progress, pause)
        report = work.report
        while True:
            work.compared_at = iso_moment(self._clock.time_ns())
            plan = self.scanner.compare(places, accept_root=accept_root)
            work.begin(plan)
            is_too_much = plan.new_changes > max_changes
            if is_too_much and not words:
                break
            if plan.changes or plan.known_failures != plan.known.failures:
                with self._turn(work) as is_ours:
                    if not is_ours:
                        break
                    # Plan again, because another thread may have indexed some of the files meanwhile.
                    work.begin(self.scanner.plan(plan.scan, accept_root=True))
                    chosen = self._chosen(work, words, max_changes if is_too_much else None)
                    self._apply(chosen, work, on_commit)
            if is_too_much or not work.wait_for_next_round(plan):
                break
        if places is None:  # last, so that a slow git does not keep a search from indexing text
            self._date(work, retry=retry_dates)
        report.unchanged = max(0, len(self.scanner.known().stamps) - report.added - report.changed)
        return report

    def has_current_dates(self) -> bool:
        """Tell whether the notes have the dates of git's current HEAD."""
        return self.scanner.known().dates.are_of(self._files.head_state())

    def _date(self, work: _Refresh, *, retry: bool) -> None:
        head, known = self._files.head_state(), self.scanner.known().dates
        seconds = max(SEARCH_SECONDS, work.seconds_left()) if work.for_search else SYNC_SECONDS
        if known.are_of(head) and not (known.reason and (retry or known.are_worth_another_try(seconds))):
            return
        work.report.has_old_dates = True
        if work.for_search and work.seconds_left() <= 0:
            return
        with self._turn(work) as is_ours:
            if is_ours and self.scanner.known().dates == known:
                bring_up_to_date(self._index, head, min(seconds, SYNC_SECONDS))
                work.report.dated = True
            work.report.has_old_dates = not is_ours

    @contextmanager
    def _turn(self, work: _Refresh) -> Iterator[bool]:
        """Let one thread at a time apply changes; yield False if the deadline passes first.

        A search that waits here does not pause background work, because it may wait for just that work.
        """
        if work.for_search:
            with self._gate.awaiting():
                is_ours = self._writing.acquire(timeout=max(0.0, min(work.seconds_left(), MAX_TURN_SECONDS)))
        else:
            is_ours = self._writing.acquire()
        try:
            yield is_ours
        finally:
            if is_ours:
                self._writing.release()

    def _chosen(self, work: _Refresh, words: Sequence[str], limit: float | None) -> Sequence[FileChange]:
        """Return all changes; or, with `limit`, up to `limit` changes of files relevant to the question, best first."""
        changes = work.plan.changes
        if words and (limit is not None or len(changes) > MAX_UNSORTED_CHANGES):
            work.relevance = relevance(changes, work.plan.scan, words, self._files, self._clock)
        if limit is None:
            return changes
        relevant = [change for change in changes if change.path in work.relevance]
        return sorted(relevant, key=work.order)[: int(limit)]

    def _apply(self, changes: Sequence[FileChange], work: _Refresh, on_commit: Callable[[int, int], None]) -> None:
        with suppress(_OutOfTime), self._workers_for(changes, work):
            for batch in self._batches(changes, work):
                self._files.require_settings()
                self._commit(batch, work)
                on_commit(len(batch), work.report.pending)
        work.report_failures()
        if work.failures != work.plan.known.failures:
            with self._index.writing() as writer:
                write_failures(writer, work.failures.values())
                if work.report.pending == 0:
                    writer.set_last_sync(work.compared_at)

    # ------------------------------------------------------------------------------------------ batches

    @contextmanager
    def _workers_for(self, changes: Sequence[FileChange], work: _Refresh) -> Iterator[None]:
        """Provide worker processes: for all notes only if there is much to parse and no search waits."""
        work.pool = self._workers.pool(0 if work.for_search else sum(map(work.size, changes)))
        self.is_loading = work.pool.is_bulk
        try:
            yield
        finally:
            work.pool.close()
            self.is_loading = False

    def _batches(self, changes: Sequence[FileChange], work: _Refresh) -> Iterator[Sequence[_Read]]:
        """Read and parse the files in the order of `_Refresh.order`; yield small batches, so that each commits soon."""
        batch: list[_Read] = []
        started = self._clock.monotonic()
        with suppress(_OutOfTime):
            for read in self._read_ahead(sorted(changes, key=work.order), work):
                if batch and read is not None and work.rank(read.change) == LARGE:
                    yield batch
                    batch, started = [], self._clock.monotonic()
                parsed = self._parsed(read, work)
                work.step()
                is_heavy = parsed is not None and work.is_heavy(parsed)
                if is_heavy and batch:
                    yield batch
                    batch = []
                if parsed is not None and is_heavy:
                    work.require_time_to_write(parsed)
                if parsed is not None:
                    batch.append(parsed)
                is_full = len(batch) >= BATCH_NOTES or self._clock.monotonic() - started > BATCH_SECONDS
                if batch and (is_heavy or is_full):
                    yield batch
                    batch, started = [], self._clock.monotonic()
        if batch:
            yield batch

    def _read_ahead(self, changes: Sequence[FileChange], work: _Refresh) -> Iterator[_Read | None]:
        """Yield each file after reading, in order, None if that failed. In bulk, read ahead for the workers."""
        ahead: deque[tuple[_Read | None, int]] = deque()
        ahead_bytes, max_ahead = 0, AHEAD_NOTES if work.pool.is_bulk else 1
        for change in changes:
            size = work.size(change)
            while ahead and (ahead_bytes + size > AHEAD_BYTES or len(ahead) >= max_ahead):
                read, size_read = ahead.popleft()
                ahead_bytes -= size_read
                yield read
            work.breathe()
            read = self._read(change, work)
            if read is not None and read.content is not None:
                read.parsing = work.pool.submit(change.path, read.content)
            ahead.append((read, size))
            ahead_bytes += size
        yield from (read for read, _ in ahead)

    def _read(self, change: FileChange, work: _Refresh) -> _Read | None:
        """Return a file after reading; None if it failed, disappeared or is being saved: the next round handles it."""
        path = change.path
        if change.type is ChangeType.DELETED:
            return _Read(change, FileStamp(0, 0, 0, 0, b"", 0))
        try:
            content, stamp = self._files.read(path)
        except FileNotFoundError:
            return None
        except NoteTooLarge as error:
            work.fail(path, error, self._reader.parsed_by)
            return None
        except NoteError as error:  # it can disappear without a new file stamp (permissions), so retry every time
            work.fail(path, error, "")
            return None
        known = work.plan.known.stamps.get(path)
        if known and known.digest == stamp.digest and known.parsed_by == self._reader.parsed_by:
            return _Read(change, stamp)
        if known and (
            stillness_needed(stamp.identity, known.size) > stillness_needed(work.plan.scan.files[path], known.size)
        ):
            return None  # the file has lost more text since the scan: the next round waits for the end of this save
        return _Read(change, stamp, content)

    def _parsed(self, read: _Read | None, work: _Refresh) -> _Read | None:
        """Return a file after parsing; None if there is nothing to write."""
        if read is None or read.content is None:
            return read
        path, content, read.content = read.change.path, read.content, None
        try:
            if read.parsing is not None:
                with suppress(ChildFailed):
                    read.note = work.pool.result(read.parsing, work.breathe)
            if read.note is None:
                read.note = self._index.prepare(*self._reader.read(path, content))
        except BinaryFileError as error:
            # Remove its old text: unlike with an unreadable file, it is certain that the text no longer exists.
            work.fail(path, error, self._reader.parsed_by)
            read.forget = True
            return read if path in work.plan.known.stamps else None
        return read

    def _commit(self, batch: Sequence[_Read], work: _Refresh) -> None:
        """Write one batch; files that changed since they were read are left for the next round."""
        with self._index.writing() as writer:
            before, after = writer.notes_generation(), writer.generation() + 1
            removal_before = writer.last_removal()
            written = self._still(batch)
            for parsed in written:
                self._write(writer, parsed)
            removal = writer.last_removal()
            if work.is_last(written):
                writer.set_last_sync(work.compared_at)
        self.scanner.note_commit(before, after, removal, {p.change.path: self._stamp(p) for p in written})
        if work.report.last_removal == removal_before:  # no other process or thread has removed text in between
            work.report.last_removal = removal
        for parsed in written:
            work.count(parsed)

    def _stamp(self, parsed: _Read) -> IndexedFile | None:
        stamp = parsed.stamp
        known = IndexedFile(*stamp.identity, stamp.digest, stamp.stamped_ns, self._reader.parsed_by)
        return None if parsed.is_gone else known

    def _still(self, batch: Sequence[_Read]) -> Sequence[_Read]:
        """Return the changes whose files have not changed since. A deleted note's file may exist if it is ignored."""
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

    def _write(self, writer: IndexWriter, parsed: _Read) -> None:
        """Write one file's rows."""
        path = parsed.change.path
        if parsed.is_gone:
            writer.delete_note(path)
        elif parsed.note is None:
            writer.put_stamp(path, parsed.stamp)
        else:
            writer.put_note(parsed.note, parsed.stamp, self._reader.parsed_by)


@dataclass(slots=True)
class _Refresh:
    """One call of `refresh`: its limits, its report, and the changes that its latest scan found.

    `compared_at`: when that scan began (ISO 8601, UTC). `rounds` and `patience_seconds` limit how often and how long it
    waits for files that are being saved.
    """

    clock: Clock
    deadline: float
    for_search: bool
    progress: Progress | None
    pause: Callable[[], None]
    report: TextReport = field(default_factory=TextReport)
    plan: SyncPlan = field(init=False)
    failures: dict[NotePath, FailedFile] = field(init=False)
    relevance: Mapping[NotePath, int] = field(init=False)
    pool: WorkerPool = field(init=False)
    compared_at: str = ""
    read: int = 0
    rounds: int = 0
    patience_seconds: float = LONGEST_WAIT_SECONDS

    def begin(self, plan: SyncPlan) -> None:
        """Begin to work on the changes of a scan."""
        self.plan, self.failures, self.relevance, self.read = plan, dict(plan.known_failures), {}, 0
        self.report.pending, self.report.last_removal = plan.pending, plan.known.last_removal
        self.report_failures()

    def report_failures(self) -> None:
        failures = (file.failure for file in self.failures.values())
        self.report.failed = [*self.plan.scan.failures, *failures]

    def seconds_left(self) -> float:
        return self.deadline - self.clock.monotonic()

    def wait_for_next_round(self, plan: SyncPlan) -> bool:
        """Wait until files of this plan that are being saved can be scanned again; return whether to do that.

        False if no change is pending, or if the time or the rounds are used up.
        """
        left = min(self.seconds_left(), self.patience_seconds)
        if self.report.pending == 0 or left <= 0:
            return False
        if self.report.pending > plan.delayed:  # a file changed while it was read
            self.rounds += 1
            return self.rounds < MAX_ROUNDS
        wait = max(min(plan.due_seconds, left), SHORTEST_WAIT_SECONDS)
        self.patience_seconds -= wait
        self.clock.sleep(wait)
        return True

    def rank(self, change: FileChange) -> int:
        if change.type is ChangeType.DELETED:
            return GONE
        return LARGE if self.size(change) > LARGE_BYTES else SMALL

    def size(self, change: FileChange) -> int:
        """Return how many bytes must be read for a change."""
        return 0 if change.type is ChangeType.DELETED else self.plan.scan.files[change.path][0]

    def breathe(self) -> None:
        """Pause for searches and check the deadline. Raises _OutOfTime, Stopped."""
        self.pause()
        if self.seconds_left() <= 0:
            raise _OutOfTime

    def require_time_to_write(self, parsed: _Read) -> None:
        """Raise _OutOfTime if a note's rows cannot be replaced before the deadline, since nothing interrupts that."""
        known = self.plan.known.stamps.get(parsed.change.path)
        size = self.size(parsed.change) + (known.size if known is not None else 0)
        if size / WRITTEN_PER_SECOND > self.seconds_left():
            raise _OutOfTime

    def is_heavy(self, parsed: _Read) -> bool:
        """Tell whether a change takes so long to write that it must be committed alone."""
        known = self.plan.known.stamps.get(parsed.change.path)
        chunks = parsed.note.chunk_count if parsed.note else 0
        return chunks > HEAVY_CHUNKS or (known is not None and known.size > LARGE_BYTES)

    def order(self, change: FileChange) -> tuple[bool, int, int, bool, int]:
        """Return the sort key of changes.

        Relevant files come first, sorted by relevance, then small before large, then newest first. The others follow:
        small before large files, edited before new notes, then by size. Deletions come last.
        """
        rank, relevance = self.rank(change), self.relevance.get(change.path, 0)
        if relevance:
            return False, -relevance, rank, False, -self.plan.scan.files[change.path][1]
        return rank == GONE, 0, rank, change.type is ChangeType.ADDED, self.size(change)

    def step(self) -> None:
        self.read += 1
        if self.progress is not None:
            self.progress("reading notes", self.read, len(self.plan.changes))

    def fail(self, path: NotePath, error: Exception, parsed_by: str) -> None:
        """Record a file that cannot be indexed; it is retried if the file, the parser or its settings change."""
        self.report.pending -= 1
        self.failures[path] = FailedFile(path, str(error), self.plan.scan.files[path], parsed_by)

    def is_last(self, written: Iterable[_Read]) -> bool:
        """Tell whether nothing is left to index after these changes; `fail` has counted the forgotten notes."""
        return self.report.pending == sum(not parsed.forget for parsed in written)

    def count(self, parsed: _Read) -> None:
        """Count one committed change. A file with unchanged content does not count as a changed note."""
        if not parsed.forget:  # `fail` has counted a forgotten note
            self.report.pending -= 1
            self.failures.pop(parsed.change.path, None)
        if parsed.note is not None or parsed.is_gone:
            self.report.paths.append(parsed.change.path)
            self.report.deleted += parsed.is_gone
            self.report.added += parsed.change.type is ChangeType.ADDED and not parsed.is_gone
            self.report.changed += parsed.change.type is ChangeType.MODIFIED and not parsed.is_gone
