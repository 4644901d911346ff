"""Changes -> rows: read, parse and chunk each file and commit its text at once; vectors follow (embedding.py)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from memsync.errors import NoteError, NoteTooLarge
from memsync.model.note import FileStamp
from memsync.model.status import Change, ChangeType, Failure, IndexedFile
from memsync.model.vocabulary import NotePath
from memsync.notes.decode import BinaryFileError
from memsync.notes.files import FileScan, Identity, NoteFiles, Places
from memsync.notes.git_files import head_state
from memsync.notes.parse import NoteReader
from memsync.notes.stillness import stillness_needed
from memsync.ports import Clock, Index, IndexWriter, PreparedNote, Progress
from memsync.sync.failures import FailedFile, write_failures
from memsync.sync.gate import Gate
from memsync.sync.git_dates import SEARCH_SECONDS, SYNC_SECONDS, bring_up_to_date
from memsync.sync.order import relevance
from memsync.sync.plan import Lookout, Outlook
from memsync.sync.workers import AHEAD_BYTES, AHEAD_NOTES, NoteWorkers, WorkerLost, WorkerPool

BATCH_SECONDS = 0.25
BATCH_NOTES = 200
LARGE_BYTES = 100_000
HEAVY_CHUNKS = 2_000
"""A note of this size takes a tenth of a second to parse, some forty times as long. One that is or was so large, or has
so many chunks, is committed alone: a search that has no time left for it gives up nothing else."""
SMALL, LARGE, GONE = range(3)
"""The order of work. What is gone comes last, so that text that moved keeps its passages."""
SEVERAL = 64
"""Of more changes than so many, a search indexes those first that its question seems to be about."""
MAX_ROUNDS = 3
"""How often one refresh looks again for files that changed while it read them."""
MAX_TURN_SECONDS = 3_600.0
SHORTEST_WAIT_SECONDS = 0.001
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
    note: PreparedNote | None = None
    forget: bool = False


@dataclass(slots=True)
class _Opened:
    """A change whose file may have been read, and given to another process, before its turn.

    With a `stamp` its `content` is to be parsed, or is being parsed to `note`. Without one there is nothing to parse:
    what is to be done about it is `done`, None when the file failed or vanished.
    """

    change: Change
    is_read: bool = False
    content: bytes | None = None
    stamp: FileStamp | None = None
    note: Future[PreparedNote] | None = None
    done: _Parsed | None = None


class _Patience:
    """How long one refresh goes on with files that change while it reads them, or that are just being saved."""

    def __init__(self, clock: Clock, deadline: float) -> None:
        self._clock = clock
        self._deadline = deadline
        self._rounds = 0
        self._seconds = LONGEST_WAIT_SECONDS

    def awaits_another_look(self, pending: int, outlook: Outlook) -> bool:
        """Wait until the files are worth another look; return False when there is nothing to wait for, or no time."""
        left = min(self._deadline - self._clock.monotonic(), self._seconds)
        if pending == 0 or left <= 0:
            return False
        if pending > outlook.put_off:  # something changed while it was read
            self._rounds += 1
            return self._rounds < MAX_ROUNDS
        wait = max(min(outlook.due_seconds, left), SHORTEST_WAIT_SECONDS)
        self._seconds -= wait
        self._clock.sleep(wait)
        return True


class _OutOfTime(Exception):
    """Raised in the midst of a note when a search can wait no longer: it is left as it was."""


class Indexer:
    """Makes the index's text equal to the files. Any number may work at once: each commit checks its files again."""

    def __init__(
        self, files: NoteFiles, index: Index, reader: NoteReader, clock: Clock, gate: Gate, workers: NoteWorkers
    ) -> None:
        """`is_loading` is True while so much is read that several processes do it."""
        self._workers = workers
        self.is_loading = False
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
        words: Sequence[str] = (),
        accept_root: bool = False,
        retry_dates: bool = False,
        progress: Progress | None = None,
        on_commit: Callable[[int, int], None] = lambda done, pending: None,
    ) -> TextReport:
        """Find what changed (at `places`, or anywhere) and commit its text.

        With everything, notes are dated by git's HEAD if that has changed, or with `retry_dates` if it failed before.
        With the `words` of a question, files that hold them come first; of more than `most` changes only those.

        `on_commit` is told after each transaction how many files were in it and how many changes are left.

        Stops with the rest counted as pending at the deadline, or, before it has begun, when there are more than `most`
        changes. What is not `for_search` stands aside for searches. Raises RootError when the root is missing, or is
        another folder than the one indexed with none of its notes; Stopped when the gate is closed.
        """
        deadline = self._clock.monotonic() + deadline_seconds
        report = TextReport()
        patience = _Patience(self._clock, deadline)
        while True:
            outlook = self.lookout.look(places, accept_root=accept_root)
            report.pending = outlook.pending
            report.failed = [*outlook.scan.failures, *(f.failure for f in outlook.known_failures.values())]
            is_too_much = outlook.new_changes > most
            if is_too_much and not words:
                break
            if outlook.changes or outlook.known_failures != outlook.known.failures:
                with self._turn(deadline, for_search=for_search) as is_ours:
                    if not is_ours:
                        break
                    work = self._work(outlook.scan, report, deadline, progress, for_search=for_search)
                    chosen = self._chosen(work, words, most if is_too_much else None)
                    self._apply(chosen, work, on_commit)
            if is_too_much or not patience.awaits_another_look(report.pending, outlook):
                break
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

    def _work(
        self, scan: FileScan, report: TextReport, deadline: float, progress: Progress | None, *, for_search: bool
    ) -> _Round:
        """Return what a scan found changed, without what another thread has done meanwhile."""
        outlook = self.lookout.plan(scan, accept_root=True)
        pause = (lambda: None) if for_search else self._gate.pause
        report.pending = outlook.pending
        return _Round(
            outlook, dict(outlook.known_failures), report, self._clock, deadline, progress, pause, for_search=for_search
        )

    def _chosen(self, work: _Round, words: Sequence[str], most: float | None) -> Sequence[Change]:
        """Return the changes to make: all, in the order that suits a question best; or at most so many that suit it."""
        changes = work.outlook.changes
        if words and (most is not None or len(changes) > SEVERAL):
            work.relevance = relevance(changes, work.outlook.scan, words, self._files, self._clock)
        if most is None:
            return changes
        suitable = [change for change in changes if change.path in work.relevance]
        return sorted(suitable, key=work.order)[: int(most)]

    def _apply(self, changes: Sequence[Change], work: _Round, on_commit: Callable[[int, int], None]) -> None:
        """Commit the text of changed files."""
        with suppress(_OutOfTime), self._pool(changes, work) as pool:
            for batch in self._batches(changes, work, pool):
                self._commit(batch, work)
                on_commit(len(batch), work.report.pending)
        work.report.failed = [*work.outlook.scan.failures, *(f.failure for f in work.failures.values())]
        if work.failures != work.outlook.known.failures:
            self._remember(work)

    # ------------------------------------------------------------------------------------------ batches

    @contextmanager
    def _pool(self, changes: Sequence[Change], work: _Round) -> Iterator[WorkerPool | None]:
        """Yield processes that parse, where there is much to do and no search waits for it."""
        pool = None if work.for_search else self._workers.pool(sum(map(work.size, changes)))
        if pool is None:
            yield None
            return
        self.is_loading = True
        try:
            yield pool
        finally:
            pool.close()
            self.is_loading = False

    def _batches(self, changes: Sequence[Change], work: _Round, pool: WorkerPool | None) -> Iterator[Sequence[_Parsed]]:
        """Yield files read and parsed, few enough that each commit comes soon; the smallest come first."""
        batch: list[_Parsed] = []
        started = self._clock.monotonic()
        for opened in self._opened(sorted(changes, key=work.order), work, pool):
            if batch and work.rank(opened.change) == LARGE:
                yield batch
                batch, started = [], self._clock.monotonic()
            if self._clock.monotonic() >= work.deadline:
                break
            try:
                parsed = self._parsed(opened, work, pool)
            except _OutOfTime:
                break
            work.step()
            if parsed is not None and work.is_heavy(parsed):
                yield from ([batch, [parsed]] if batch else [[parsed]])
                batch, started = [], self._clock.monotonic()
            elif parsed is not None:
                batch.append(parsed)
            if batch and (len(batch) >= BATCH_NOTES or self._clock.monotonic() - started > BATCH_SECONDS):
                yield batch
                batch, started = [], self._clock.monotonic()
        if batch:
            yield batch

    def _opened(self, changes: Sequence[Change], work: _Round, pool: WorkerPool | None) -> Iterator[_Opened]:
        """Yield the files in order; where other processes parse, they get some of them ahead of their turn."""
        if pool is None:
            yield from (_Opened(change) for change in changes)
            return
        ahead: deque[_Opened] = deque()
        ahead_bytes = 0
        for change in changes:
            while ahead and (ahead_bytes + work.size(change) > AHEAD_BYTES or len(ahead) >= AHEAD_NOTES):
                ahead_bytes -= work.size(ahead[0].change)
                yield ahead.popleft()
            opened = _Opened(change)
            try:
                work.breathe()
            except _OutOfTime:
                break
            self._read(opened, work)
            if opened.content is not None:
                opened.note = pool.submit(change.path, opened.content)
            ahead.append(opened)
            ahead_bytes += work.size(change)
        yield from ahead

    def _read(self, opened: _Opened, work: _Round) -> None:
        """Read a file as it is now, unless it was read; see _Opened for what it may turn out to be."""
        if opened.is_read:
            return
        change, path, opened.is_read = opened.change, opened.change.path, True
        if change.type is ChangeType.DELETED:
            opened.done = _Parsed(change, FileStamp(0, 0, 0, 0, b"", 0))
            return
        try:
            content, stamp = self._files.read(path)
        except FileNotFoundError:
            return
        except NoteTooLarge as error:
            work.fail(path, error, self._reader.parsed_by)
            return
        except NoteError as error:  # which may pass without the file's stamp changing: it is tried every time
            work.fail(path, error, "")
            return
        known = work.outlook.known.stamps.get(path)
        if known and known.digest == stamp.digest and known.parsed_by == self._reader.parsed_by:
            opened.done = _Parsed(change, stamp)
        elif not (known and _lost_more(stamp, work.outlook.scan.files[path], known.size)):
            opened.content, opened.stamp = content, stamp
        # else a save began after the scan: the next round waits for its end

    def _parsed(self, opened: _Opened, work: _Round, pool: WorkerPool | None) -> _Parsed | None:
        """Return a file as it is now; None when it failed or vanished, which the next round will see."""
        work.breathe()
        self._read(opened, work)
        if opened.stamp is None:
            return opened.done
        change, path = opened.change, opened.change.path
        try:
            return _Parsed(change, opened.stamp, self._note(opened, work, pool))
        except BinaryFileError as error:
            # Its content is known, and is nothing to index: unlike a file that cannot be read, its old text is gone.
            work.fail(path, error, self._reader.parsed_by)
            return _Parsed(change, opened.stamp, forget=True) if path in work.outlook.known.stamps else None

    def _note(self, opened: _Opened, work: _Round, pool: WorkerPool | None) -> PreparedNote:
        """Return a note as the index stores it: as another process parsed it, or parsed here."""
        if pool is not None and opened.note is not None:
            with suppress(WorkerLost):
                return pool.result(opened.note, work.breathe)
        assert opened.content is not None
        note, chunks = self._reader.read(opened.change.path, opened.content, work.breathe)
        return self._index.prepare(note, chunks)

    def _commit(self, batch: Sequence[_Parsed], work: _Round) -> None:
        """Write one batch; a file that changed since it was read is left for the next round."""
        check = work.check if len(batch) == 1 and work.is_heavy(batch[0]) else lambda: None
        with self._index.writing() as writer:
            known, generation = writer.notes_generation(), writer.generation() + 1
            done = [(parsed, self._write(writer, parsed, check)) for parsed in self._still(batch)]
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

    def _write(self, writer: IndexWriter, parsed: _Parsed, check: Callable[[], None]) -> int:
        """Write one file's rows and return how many vectors came from the cache."""
        path = parsed.change.path
        if parsed.change.type is ChangeType.DELETED or parsed.forget:
            writer.delete_note(path, check)
            return 0
        if parsed.note is None:
            writer.put_stamp(path, parsed.stamp)
            return 0
        return writer.put_note(parsed.note, parsed.stamp, self._reader.parsed_by, check).reused

    def _remember(self, work: _Round) -> None:
        with self._index.writing() as writer:
            write_failures(writer, work.failures.values())


def _lost_more(stamp: FileStamp, seen: Identity, indexed_size: int) -> bool:
    """Tell whether a file has lost text that it still had when it was found to be changed."""
    return stillness_needed(stamp.identity, indexed_size) > stillness_needed(seen, indexed_size)


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
    for_search: bool
    relevance: Mapping[NotePath, int] = field(default_factory=dict)
    read: int = 0

    def rank(self, change: Change) -> int:
        """Return SMALL, LARGE or GONE."""
        if change.type is ChangeType.DELETED:
            return GONE
        return LARGE if self.size(change) > LARGE_BYTES else SMALL

    def size(self, change: Change) -> int:
        """Return how many bytes a change is to read."""
        return 0 if change.type is ChangeType.DELETED else self.outlook.scan.files[change.path][0]

    def breathe(self) -> None:
        """Stand aside for searches, or end what a search has no time left for. Raises _OutOfTime, Stopped."""
        self.pause()
        self.check()

    def check(self) -> None:
        """Raise _OutOfTime at the deadline."""
        if self.clock.monotonic() >= self.deadline:
            raise _OutOfTime

    def is_heavy(self, parsed: _Parsed) -> bool:
        """Tell whether writing a change takes so long that it is committed alone."""
        known = self.outlook.known.stamps.get(parsed.change.path)
        chunks = parsed.note.chunk_count if parsed.note else 0
        return chunks > HEAVY_CHUNKS or (known is not None and known.size > LARGE_BYTES)

    def order(self, change: Change) -> tuple[bool, int, int, bool, int]:
        """Return what changes are sorted by: relevant ones first, the newest of these before the others.

        Of all others edited notes come before new ones, and small ones before large ones.
        """
        rank, relevance = self.rank(change), self.relevance.get(change.path, 0)
        if relevance:
            return False, -relevance, rank, False, -self.outlook.scan.files[change.path][1]
        return rank == GONE, 0, rank, change.type is ChangeType.ADDED, self.size(change)

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
