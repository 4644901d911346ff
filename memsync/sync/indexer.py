"""Changes -> rows: read, parse and chunk each file and commit its text at once; vectors follow (embedding.py)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memsync.errors import NoteError, RootError
from memsync.model import Change, ChangeType, Chunk, Failure, FileStamp, IndexedFile, Note, NotePath
from memsync.notes.decode import BinaryFileError
from memsync.notes.files import FileScan, NoteFiles
from memsync.notes.reader import NoteReader
from memsync.ports import Index, IndexWriter, Progress
from memsync.sync.failures import FailedFile, read_failures, write_failures
from memsync.sync.plan import plan_sync

BATCH_SECONDS = 0.25
BATCH_NOTES = 200
MAX_ROUNDS = 3
"""How often one refresh looks again for files that changed while it read them."""


@dataclass(slots=True)
class TextReport:
    """What one refresh did to the index. `pending` counts the changes it did not get to."""

    added: int = 0
    changed: int = 0
    deleted: int = 0
    unchanged: int = 0
    pending: int = 0
    vectors_reused: int = 0
    failed: list[Failure] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A changed file, read; without a note when only its stamp is new, or when it is no text any more (`forget`)."""

    change: Change
    stamp: FileStamp
    note: Note | None = None
    chunks: Sequence[Chunk] = ()
    forget: bool = False


@dataclass(frozen=True, slots=True)
class _Known:
    """What the index says of the files, as of one generation."""

    generation: int
    stamps: dict[NotePath, IndexedFile]
    failures: Mapping[NotePath, FailedFile]
    root: str


class Indexer:
    """Makes the index's text equal to the files. Any number may work at once: each commit checks its files again."""

    def __init__(self, files: NoteFiles, index: Index, reader: NoteReader) -> None:
        self._files = files
        self._index = index
        self._reader = reader
        self._cached = _Known(-1, {}, {}, "")

    def refresh(
        self, *, deadline_seconds: float = float("inf"), accept_root: bool = False, progress: Progress | None = None
    ) -> TextReport:
        """Find what changed and commit its text; at the deadline stop, with the rest counted as pending.

        Raises RootError when the root is missing, or is another folder than the one indexed with none of its notes.
        """
        deadline = time.monotonic() + deadline_seconds
        report = TextReport()
        for _ in range(MAX_ROUNDS):
            scan, known = self._files.scan(), self._known()
            self._check_root(scan, known, accept_root)
            plan = plan_sync(scan, known.stamps, self._reader.parsed_by)
            repeated = {path: f for path, f in known.failures.items() if self._fails_again(f, scan)}
            changes = [change for change in plan.changes if change.path not in repeated]
            work = _Round(scan, known, dict(repeated), report, deadline, progress, len(changes))
            report.unchanged, report.pending = plan.unchanged, len(changes)
            for batch in self._batches(changes, work):
                self._commit(batch, work)
            report.failed = [*scan.failures, *(f.failure for f in work.failures.values())]
            if work.failures != known.failures:
                self._remember(work)
            if report.pending == 0 or time.monotonic() >= deadline:
                break
        return report

    def _fails_again(self, failed: FailedFile, scan: FileScan) -> bool:
        """Tell whether a file is as it was when this same parser failed on it."""
        return scan.files.get(failed.path) == failed.identity and failed.parsed_by == self._reader.parsed_by

    def _known(self) -> _Known:
        with self._index.reading() as reader:
            generation = reader.generation()
            if generation != self._cached.generation:
                self._cached = _Known(generation, dict(reader.stamps()), read_failures(reader), reader.meta("root"))
        return self._cached

    def _check_root(self, scan: FileScan, known: _Known, accept_root: bool) -> None:
        """Refuse to take another folder's emptiness for a deletion of everything (an unmounted disk, a moved root)."""
        identity = self._files.root_identity()
        if identity == known.root:
            return
        strange = known.root and known.stamps and not (known.stamps.keys() & scan.files.keys())
        if strange and not accept_root:
            raise RootError(
                f"{self._files.root} is not the folder that was indexed: it has none of its {len(known.stamps)} notes",
                hint="If it was meant to be replaced, run: memsync sync --accept-root",
            )
        with self._index.writing() as writer:
            writer.set_meta("root", identity)

    # ------------------------------------------------------------------------------------------ batches

    def _batches(self, changes: Sequence[Change], work: _Round) -> Iterator[Sequence[_Parsed]]:
        """Yield files read and parsed, few enough that each commit comes soon."""
        batch: list[_Parsed] = []
        started = time.monotonic()
        for change in changes:
            if time.monotonic() >= work.deadline:
                break
            parsed = self._read(change, work)
            work.step()
            if parsed is not None:
                batch.append(parsed)
            if batch and (len(batch) >= BATCH_NOTES or time.monotonic() - started > BATCH_SECONDS):
                yield batch
                batch, started = [], time.monotonic()
        if batch:
            yield batch

    def _read(self, change: Change, work: _Round) -> _Parsed | None:
        """Return a file as it is now; None when it failed or vanished, which the next round will see."""
        path = change.path
        if change.type is ChangeType.DELETED:
            return _Parsed(change, FileStamp(0, 0, 0, 0, b"", 0))
        try:
            content, stamp = self._files.read(path)
            known = work.known.stamps.get(path)
            if known and known.digest == stamp.digest and known.parsed_by == self._reader.parsed_by:
                return _Parsed(change, stamp)
            note, chunks = self._reader.read(path, content)
        except FileNotFoundError:
            return None
        except BinaryFileError as error:
            # Its content is known, and is nothing to index: unlike a file that cannot be read, its old text is gone.
            work.fail(path, error, self._reader.parsed_by)
            return _Parsed(change, stamp, forget=True) if known else None
        except NoteError as error:
            work.fail(path, error, self._reader.parsed_by)
            return None
        return _Parsed(change, stamp, note, chunks)

    def _commit(self, batch: Sequence[_Parsed], work: _Round) -> None:
        """Write one batch; a file that changed since it was read is left for the next round."""
        with self._index.writing() as writer:
            generation = writer.generation()
            done = [(parsed, self._write(writer, parsed)) for parsed in batch if self._is_still(parsed)]
        self._note_commit(generation, [parsed for parsed, _ in done])
        for parsed, reused in done:
            work.count(parsed, reused)

    def _note_commit(self, before: int, done: Sequence[_Parsed]) -> None:
        """Bring what is known of the index up to date without reading it all again, if nobody else wrote meanwhile."""
        if before != self._cached.generation:
            return
        stamps = self._cached.stamps
        for parsed in done:
            if parsed.change.type is ChangeType.DELETED or parsed.forget:
                stamps.pop(parsed.change.path, None)
            else:
                stamp = parsed.stamp
                row = IndexedFile(*stamp.identity, stamp.digest, stamp.stamped_ns, self._reader.parsed_by)
                stamps[parsed.change.path] = row
        self._cached = replace(self._cached, generation=before + 1)

    def _is_still(self, parsed: _Parsed) -> bool:
        now = self._files.identity(parsed.change.path)
        return now is None if parsed.change.type is ChangeType.DELETED else now == parsed.stamp.identity

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

    scan: FileScan
    known: _Known
    failures: dict[NotePath, FailedFile]
    report: TextReport
    deadline: float
    progress: Progress | None
    total: int
    read: int = 0

    def step(self) -> None:
        """Tell how far reading has come."""
        self.read += 1
        if self.progress is not None:
            self.progress("reading notes", self.read, self.total)

    def fail(self, path: NotePath, error: Exception, parsed_by: str) -> None:
        """Note a file that cannot be indexed; it is tried again when it changes."""
        self.report.pending -= 1
        self.failures[path] = FailedFile(path, str(error), self.scan.files[path], parsed_by)

    def count(self, parsed: _Parsed, reused: int) -> None:
        """Count one committed change; a file that reads as before is unchanged."""
        if parsed.forget:
            self.report.deleted += 1
            return
        self.report.pending -= 1
        self.report.vectors_reused += reused
        self.failures.pop(parsed.change.path, None)
        if parsed.change.type is ChangeType.DELETED:
            self.report.deleted += 1
        elif parsed.note is None:
            self.report.unchanged += 1
        elif parsed.change.type is ChangeType.ADDED:
            self.report.added += 1
        else:
            self.report.changed += 1
