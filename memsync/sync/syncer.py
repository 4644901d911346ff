"""The complete operations on one index: refresh before a search, sync, rebuild, verify."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import zip_longest
from pathlib import Path

from msgspec.structs import replace

from memsync.errors import EmbedderError, FilesystemError, IndexBusy, IndexDamaged, IndexFailure, IndexReadOnly
from memsync.model.query import EmbeddingSpace
from memsync.model.status import Difference, Failure, SyncReport
from memsync.model.vocabulary import NotePath
from memsync.notes.files import NoteFiles
from memsync.notes.parse import NoteReader
from memsync.ports import Clock, Index, Progress, VectorCache, active_space
from memsync.sync.embedding import EmbeddingQueue, VectorReport
from memsync.sync.embedding_models import EmbeddingModels
from memsync.sync.gate import Gate
from memsync.sync.indexer import Indexer, TextReport
from memsync.sync.plan import iso_moment, read_failures
from memsync.sync.sharing import Sharing, remember
from memsync.sync.workers import NoteWorkers
from memsync.system.file_lock import file_lock

POLL_SECONDS = 0.1


def sync_lock(
    folder: Path, wait_seconds: float, on_wait: Callable[[str], None] = lambda holder: None
) -> AbstractContextManager[None]:
    """Hold the lock of the index in `folder`; wait up to `wait_seconds` and call `on_wait(holder)` once.

    Raises IndexBusy with the holder's process id, FilesystemError if the lock file cannot be created.
    """
    return file_lock(folder / "sync.lock", wait_seconds, _busy, poll_seconds=POLL_SECONDS, on_wait=on_wait)


def _busy(holder: str) -> IndexBusy:
    return IndexBusy(f"{holder} is syncing this memory root", hint="Wait for it to end, then try again.")


def first_difference(index: Index, other: Index) -> Difference | None:
    """Return the first line in which the canonical dumps of two indexes differ; None when they are equal."""
    with other.reading() as theirs, index.reading() as mine:  # `index` inside, so that it handles damage in its rows
        pairs = zip_longest(mine.dump(), theirs.dump(), fillvalue="")
        return next((Difference(line, a, b) for line, (a, b) in enumerate(pairs, 1) if a != b), None)


BULK_NOTES = 100
"""With more changed notes than this, a sync merges the word index into one segment."""
LOADING_SECONDS = 0.05
"""How often embedding checks whether the text of many notes has been indexed."""
EMBED_ON_SEARCH = 16
"""Maximum passages that a search embeds itself: enough for one edit, but not for a backlog."""
CACHED_ON_SEARCH = 10_000
"""Maximum passages whose vectors a search takes from the cache: a second's work."""
MODEL_FAILURE = "model_failure"
"""Key in the index for the reason why the model failed in the last sync; empty if it did not fail."""
_VERIFY_ROUNDS = 3


class _Claimed(Exception):
    """Ends background embedding because a sync in this process takes over."""


class Syncer:
    """Keeps one index equal to the files of one memory root. Safe to call from several threads.

    `refresh` indexes the text of changed files, see Indexer. `gate` pauses background work during searches.
    `stepped_at` (monotonic clock) is when background embedding last began a text. `cache` has the vectors of all memory
    roots of the user; None if it is switched off.
    """

    next_step = "run memsync sync"
    """What makes the index complete."""

    def __init__(
        self,
        files: NoteFiles,
        index: Index,
        reader: NoteReader,
        models: EmbeddingModels,
        lock_folder: Path,
        clock: Clock,
        workers: NoteWorkers,
        retrievals: Callable[[], Mapping[NotePath, int]],
        cache: VectorCache | None,
    ) -> None:
        """Take the parts. `retrievals` returns how often searches retrieved each note; these are embedded first."""
        self._retrievals = retrievals
        self._files = files
        self._index = index
        self._cache = cache
        self._reader = reader
        self._models = models
        self._lock_folder = lock_folder
        self._clock = clock
        self.gate = Gate()
        self._workers = workers
        self._indexer = self._indexer_of(index)
        self.scanner = self._indexer.scanner
        self.check_root = self.scanner.check_root
        self.refresh = self._indexer.refresh
        self.has_current_dates = self._indexer.has_current_dates
        self._embedding = threading.Lock()
        self._claims = 0
        self.stepped_at = 0.0
        self._complete_space: EmbeddingSpace | None = None

    @property
    def advice(self) -> str:
        """What makes the index complete: the process that is syncing it now, otherwise `next_step`."""
        try:
            with sync_lock(self._lock_folder, 0.0):
                return self.next_step
        except IndexBusy as busy:
            return f"{busy.message}, and goes on"
        except FilesystemError:
            return self.next_step

    def known_failures(self) -> list[Failure]:
        """Return which files the last comparison could not read. Raises RootError if the root is lost."""
        self.check_root()
        with self._index.reading() as reader:
            return [failed_file.failure for failed_file in read_failures(reader).values()]

    @property
    def scanned_at(self) -> str:
        """When the last full scan began (ISO 8601, UTC); empty before the first."""
        began_ns = self.scanner.scanned_at_ns
        return iso_moment(began_ns) if began_ns else ""

    def age_seconds(self) -> float:
        """Return how long ago the last full scan began; infinity before the first."""
        began = self.scanner.scanned_at
        return self._clock.monotonic() - began if began else float("inf")

    def unreported(self, paths: Sequence[NotePath], older_than_seconds: float) -> list[NotePath]:
        """Return the changed paths whose change is so old that the file watcher should have reported it."""
        limit = self._clock.time_ns() - int(older_than_seconds * 1e9)
        return [path for path in paths if self._files.last_touched_ns(path) < limit]

    def embed_leftovers(self) -> bool:
        """Embed the few passages of a recent edit, or of a new memory. Raises EmbedderError.

        Skips a longer queue, unless the cache has its vectors: the root may be a copy.

        Returns True if searches can use vectors only from now on.
        """
        with self._index.reading() as reader:
            space, counts = reader.active_space(), reader.counts()
        if not 0 < counts.pending <= CACHED_ON_SEARCH or not self._embedding.acquire(blocking=False):
            return False  # if another thread is embedding, it will be done sooner than this one
        try:
            if counts.pending > EMBED_ON_SEARCH and not self._take_cached(space):
                return False
            if space is None:
                self._embed(self._index, None)
                with self._index.reading() as reader:
                    return reader.active_space() is not None
            sharing = Sharing(self._index, self._cache)
            self._queue(self._index, sharing).embed(self._models.of_space(space), limit=EMBED_ON_SEARCH)
            return False
        finally:
            self._embedding.release()

    def _take_cached(self, space: EmbeddingSpace | None) -> bool:
        """Take the vectors of waiting passages from the cache; return False if it lacks more than a few.

        Then a first space is not prepared: searches would use it although it has no vectors yet.
        """
        configured, sharing = space or self._models.configured().space, Sharing(self._index, self._cache)
        try:
            if not sharing.lacks_at_most(EMBED_ON_SEARCH, configured):
                return False
            if space is None:
                _prepare_space(self._index, configured)
            sharing.take(configured)
        except (FilesystemError, IndexBusy, IndexReadOnly):  # it cannot be written to now, but be searched
            return False
        return True

    def embed_in_background(self) -> VectorReport:
        """Embed all pending passages. Pauses for searches, and ends early if a sync in this process takes over.

        If nothing is pending in the configured model's space, the model is not used at all.

        Raises Stopped if the gate was stopped, IndexBusy while another process syncs.
        """
        with suppress(IndexBusy), self._embedding, sync_lock(self._lock_folder, 0.0):
            self._index.discard_leftovers()
        with self._index.reading() as reader:
            active, counts = reader.active_space(), reader.counts()
        if active is not None and active == self._complete_space and not counts.pending and not counts.building_space:
            return VectorReport()
        with self._embedding, sync_lock(self._lock_folder, 0.0):
            try:
                report = self._embed(self._index, None, self._pause, stand_aside=self._stand_aside)
            except _Claimed:
                return VectorReport(pending=1)
        if report.error is None and not report.pending:
            self._complete_space = self._models.configured().space
        return report

    def _pause(self) -> None:
        self._models.note_use()
        self._stand_aside()

    def _stand_aside(self) -> None:
        while True:
            self.stepped_at = self._clock.monotonic()
            self.gate.pause()
            if self._claims:
                raise _Claimed
            if not self._indexer.is_loading:  # text first: it takes seconds, vectors take minutes
                return
            self._clock.sleep(LOADING_SECONDS)

    @contextmanager
    def _alone(self, wait_seconds: float, on_wait: Callable[[str], None]) -> Iterator[None]:
        """Hold the index's lock against other processes; background work of this process releases it first."""
        self._claims += 1
        try:
            if not self._embedding.acquire(timeout=min(wait_seconds, threading.TIMEOUT_MAX)):
                raise IndexBusy(
                    "the model has not answered for a while", hint="See memsync status and memsync daemon logs."
                )
            try:
                with sync_lock(self._lock_folder, wait_seconds, on_wait):
                    yield
            finally:
                self._embedding.release()
        finally:
            self._claims -= 1

    def tidy(self, *, bulk: bool) -> None:
        """Free disk space if it is worth the time."""
        self._index.compact(bulk=bulk)

    def remember_comparison(self) -> None:
        """Store when the files were last compared. If the index cannot be written now, nothing else depends on it."""
        try:
            _set_last_sync(self._index, self.scanned_at)
        except IndexDamaged:  # it was replaced by an empty index, so all files must be indexed
            raise
        except (IndexFailure, FilesystemError):
            pass

    def remember_model_failure(self, failure: str) -> None:
        """Store why the model failed, for `status`; empty if it works."""
        remember(self._index, MODEL_FAILURE, failure)

    def sync(
        self, *, wait_seconds: float, on_wait: Callable[[str], None], accept_root: bool, progress: Progress | None
    ) -> SyncReport:
        """Make the index equal to the files: first the text, then the vectors."""
        with self._alone(wait_seconds, on_wait):
            started = time.perf_counter()
            with suppress(IndexDamaged):  # `check` has replaced it by an empty index, which is filled now
                self._index.check(is_quick=True)
            self._index.discard_leftovers()
            self._begin_space(self._index)
            text = self.refresh(accept_root=accept_root, retry_dates=True, progress=progress)
            if not text.pending:
                _set_last_sync(self._index, self.scanned_at)
            vectors = self._embed(self._index, progress, self.gate.pause)
            is_changed = bool(text.added or text.changed or text.deleted or vectors.computed)
            self._index.compact(bulk=text.added + text.changed > BULK_NOTES, is_changed=is_changed)
            self.remember_model_failure(str(vectors.problem or ""))
            return self._report(text, vectors, time.perf_counter() - started)

    def rebuild(
        self, *, keep_vectors: bool, wait_seconds: float, on_wait: Callable[[str], None], progress: Progress | None
    ) -> SyncReport:
        """Build a new index next to the old one; searches use the old one until the new one replaces it."""
        with self._alone(wait_seconds, on_wait):
            started = time.perf_counter()
            self.check_root()  # even if the index fails
            if not keep_vectors:  # check the model before the long work
                self._models.configured().embed_query("Does the model answer?")
            with suppress(IndexFailure):  # a failing index may be the reason to rebuild; also raises for a wrong root
                self.refresh(progress=progress)
            space = None
            if keep_vectors:
                with suppress(IndexFailure), self._index.reading() as reader:
                    space = reader.active_space()
            with self._beside() as other:
                if space is not None:  # searches use the old space until the vectors of a new model are complete
                    _prepare_space(other, space)
                self._begin_space(other)
                indexer = self._indexer_of(other)
                text = indexer.refresh(accept_root=True, progress=progress)
                vectors = self._embed(other, progress, self.gate.pause, is_anew=not keep_vectors)
                if vectors.problem is not None and not keep_vectors:
                    raise vectors.problem  # an index without vectors must not replace one with vectors
                if space is not None:  # the one that searches go on using, if the configured model failed
                    Sharing(other, self._cache).take(space)
                _set_last_sync(other, iso_moment(indexer.scanner.scanned_at_ns))
                self._index.take_over(other)
            self._index.take_damage()  # do not report damage that the rebuild has repaired
            vectors = self._index_later_changes(text, vectors, progress, is_anew=not keep_vectors)
            return self._report(text, vectors, time.perf_counter() - started)

    def verify(
        self, *, recompute: bool, wait_seconds: float, on_wait: Callable[[str], None], progress: Progress | None
    ) -> Difference | None:
        """Compare the index with a newly built one; files saved meanwhile do not count as differences.

        If they differ, the new one replaces the index. Raises IndexDamaged if the index
        was damaged; it has then been replaced by an empty one.
        """
        with self._alone(wait_seconds, on_wait), self._telling_damage():
            self.refresh(retry_dates=True, progress=progress)
            for _ in range(_VERIFY_ROUNDS):
                if space := active_space(self._index):
                    self._complete(self._index, space, progress)
                with self._beside() as other:
                    self._fill(other, progress, recompute=recompute)
                    difference = first_difference(self._index, other)
                    again = self.refresh(progress=progress)
                    if difference is None:
                        self._index.check()
                        break
                    if not (again.added or again.changed or again.deleted or again.dated):
                        return self._mended(difference, other)
            return difference

    def _mended(self, difference: Difference, other: Index) -> Difference:
        """Replace the index by `other`, unless another process reads it for too long, and return the difference."""
        _set_last_sync(other, self.scanned_at)
        try:
            self._index.take_over(other)
        except IndexBusy:  # report the difference rather than the failed repair
            return difference
        self.refresh()  # the daemon may have indexed a change in the index that was just replaced
        return replace(difference, mended=True)

    def _index_later_changes(
        self, text: TextReport, vectors: VectorReport, progress: Progress | None, *, is_anew: bool
    ) -> VectorReport:
        """Index the changes since a rebuild read the files: the daemon indexed them in the index that was replaced.

        Adds the changes to `text`, and returns `vectors` with theirs; `is_anew` as in Sharing.
        """
        later = self.refresh(progress=progress)
        text.added += later.added - later.deleted
        text.failed = later.failed
        if not (later.added or later.changed):
            return vectors
        more = self._embed(self._index, progress, self.gate.pause, is_anew=is_anew)  # also tries again what failed
        return dataclasses.replace(more, computed=vectors.computed + more.computed, reused=vectors.reused + more.reused)

    @contextmanager
    def _telling_damage(self) -> Iterator[None]:
        """Raise IndexDamaged if the index was damaged, even if the work could continue with an empty index."""
        try:
            yield
        finally:
            if damage := self._index.take_damage():
                raise IndexDamaged(damage, hint="Run: memsync sync; then memsync index verify again.")

    @contextmanager
    def _beside(self) -> Iterator[Index]:
        """Yield a new index next to this one, see Index.beside; delete its files unless it has replaced this one."""
        other = self._index.beside()
        try:
            yield other
        finally:
            other.discard()

    def _fill(self, other: Index, progress: Progress | None, *, recompute: bool) -> None:
        """Index all files in `other`, with the vectors of the cache or, with `recompute`, of the model.

        Raises EmbedderError if the model fails and `other` lacks vectors that this index has.
        """
        space = active_space(self._index)
        self._indexer_of(other).refresh(accept_root=True, progress=progress)
        if space is None:
            return
        _prepare_space(other, space)
        error = self._complete(other, space, progress, is_anew=recompute)
        if error is not None and (recompute or _pending(other, space) > _pending(self._index, space)):
            raise error

    def _complete(
        self, index: Index, space: EmbeddingSpace, progress: Progress | None, *, is_anew: bool = False
    ) -> EmbedderError | None:
        """Embed what waits in `space`, with the model only if the cache lacks it; return why the model failed."""
        sharing = Sharing(index, self._cache, is_anew=is_anew)
        sharing.take(space, progress)
        if not _pending(index, space):
            return None
        try:
            return self._queue(index, sharing).embed(self._models.of_space(space), progress=progress).error
        except EmbedderError as error:
            return error

    def _begin_space(self, index: Index) -> None:
        """Create the space of an index without vectors before its text, so that the text is queued for the model.

        Otherwise the text would have to be read from the files a second time. Ignores a failing model, because
        embedding reports it later.
        """
        with index.reading() as reader:
            has_space = reader.active_space() is not None
        if not has_space:
            with suppress(EmbedderError):
                _prepare_space(index, self._models.configured().space)

    def _indexer_of(self, index: Index) -> Indexer:
        return Indexer(self._files, index, self._reader, self._clock, self.gate, self._workers)

    def _queue(self, index: Index, sharing: Sharing) -> EmbeddingQueue:
        return EmbeddingQueue(self._files, index, self._reader, sharing, self._clock, self._retrievals)

    def _embed(
        self,
        index: Index,
        progress: Progress | None,
        pause: Callable[[], None] = lambda: None,
        *,
        stand_aside: Callable[[], None] | None = None,
        is_anew: bool = False,
    ) -> VectorReport:
        """Embed all pending passages, then put all vectors into the cache; `is_anew` as in Sharing.

        If the model cannot be loaded, everything stays pending and the report has the error. `pause` is called before
        each step with the model, `stand_aside` before each other step.
        """
        sharing = Sharing(index, self._cache, stand_aside or pause, is_anew=is_anew)
        try:
            report = self._queue(index, sharing).build_space(self._models.configured(), progress=progress, pause=pause)
        except EmbedderError as error:
            with index.reading() as reader:
                report = VectorReport(pending=reader.counts().pending, error=error)
        sharing.fill()
        return report

    def _report(self, text: TextReport, vectors: VectorReport, seconds: float) -> SyncReport:
        failed = list(text.failed)
        if vectors.problem is not None:
            failed.append(Failure("(model)", vectors.problem.sentences()))
        damage, warnings = self._index.take_damage(), self._index.take_warnings()
        warnings += self._cache.take_warnings() if self._cache is not None else []
        if damage:
            failed.append(Failure("(index)", damage))
            warnings.remove(damage)
        with self._index.reading() as reader:
            generation, hidden = reader.generation(), len(reader.not_shared())
        return SyncReport(
            added=text.added,
            changed=text.changed,
            deleted=text.deleted,
            unchanged=text.unchanged,
            vectors_computed=vectors.computed,
            vectors_reused=vectors.reused,
            vectors_pending=vectors.pending,
            failed=tuple(failed),
            warnings=tuple(warnings),
            seconds=seconds,
            generation=generation,
            not_shared=hidden,
        )


def _prepare_space(index: Index, space: EmbeddingSpace) -> None:
    with index.writing() as writer:
        writer.prepare_space(space)


def _pending(index: Index, space: EmbeddingSpace) -> int:
    with index.reading() as reader:
        return reader.pending(space)


def _set_last_sync(index: Index, moment: str) -> None:
    with index.writing() as writer:
        writer.set_last_sync(moment)
