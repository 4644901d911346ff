"""Whole runs over one index: refresh before a search, sync, rebuild, verify."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path

from memsync.errors import EmbedderError, IndexBusy, IndexFailure
from memsync.model import Difference, Failure, SyncReport
from memsync.notes.files import NoteFiles
from memsync.notes.reader import NoteReader
from memsync.ports import Index, Progress
from memsync.sync.embedding import EmbeddingQueue, VectorReport
from memsync.sync.indexer import Indexer, TextReport
from memsync.sync.lock import sync_lock
from memsync.sync.models import EmbeddingModels

BULK_NOTES = 100
"""Changed notes after which the word index is merged into one segment."""
EMBED_ON_SEARCH = 16
"""Passages that a search embeds itself before it answers by meaning: what one edit leaves behind, not a backlog."""
MODEL_FAILURE = "model_failure"
"""Where the index keeps why the model failed at the last sync; empty when it did not."""
_VERIFY_ROUNDS = 3


class Syncer:
    """Keeps one index equal to the files of one memory root. Safe to call from several threads.

    `scanned_at` is when the files were last compared with the index (ISO 8601, UTC).
    """

    def __init__(
        self, files: NoteFiles, index: Index, reader: NoteReader, models: EmbeddingModels, lock_folder: Path
    ) -> None:
        self._files = files
        self._index = index
        self._reader = reader
        self._models = models
        self._lock_folder = lock_folder
        self._indexer = Indexer(files, index, reader)
        self._guard = threading.Lock()
        self.scanned_at = ""

    def refresh(
        self,
        deadline_seconds: float = float("inf"),
        *,
        accept_root: bool = False,
        progress: Progress | None = None,
    ) -> TextReport:
        """Commit the text of changed files, as far as the deadline allows; see Indexer.refresh."""
        with self._guard:
            report = self._indexer.refresh(
                deadline_seconds=deadline_seconds, accept_root=accept_root, progress=progress
            )
            self.scanned_at = _now()
            return report

    def embed_leftovers(self) -> None:
        """Embed the few passages that an edit leaves behind in the space that answers. Raises EmbedderError."""
        with self._index.reading() as reader:
            space = reader.active_space()
            pending = reader.pending(space) if space else 0
        if space is not None and 0 < pending <= EMBED_ON_SEARCH:
            self._queue(self._index).embed(self._models.of_space(space), limit=EMBED_ON_SEARCH)

    def sync(
        self, *, wait_seconds: float, on_wait: Callable[[str], None], accept_root: bool, progress: Progress | None
    ) -> SyncReport:
        """Make the index equal to the files, text first, then vectors."""
        with sync_lock(self._lock_folder, wait_seconds, on_wait):
            started = time.perf_counter()
            text = self.refresh(accept_root=accept_root, progress=progress)
            vectors = self._embed(self._index, progress)
            if text.added or text.changed or text.deleted or vectors.computed:
                self._index.compact(bulk=text.added + text.changed > BULK_NOTES)
            failure = str(vectors.error or "")
            with self._index.writing() as writer:
                writer.set_last_sync(self.scanned_at)
                if failure != writer.meta(MODEL_FAILURE):
                    writer.set_meta(MODEL_FAILURE, failure)
            return _report(text, vectors, self._index.take_warnings(), time.perf_counter() - started)

    def rebuild(
        self, *, keep_vectors: bool, wait_seconds: float, on_wait: Callable[[str], None], progress: Progress | None
    ) -> SyncReport:
        """Build the index anew beside the old one, which answers until the new one takes its place."""
        with sync_lock(self._lock_folder, wait_seconds, on_wait):
            started = time.perf_counter()
            with suppress(IndexFailure):  # which is why one may rebuild; a wrong root is found here too
                self.refresh(progress=progress)
            other = self._beside(keep_vectors=keep_vectors)
            try:
                text = Indexer(self._files, other, self._reader).refresh(accept_root=True, progress=progress)
                vectors = self._embed(other, progress)
                if vectors.error is not None and not keep_vectors:
                    raise vectors.error  # an index without any vectors must not replace one that has them
                with other.writing() as writer:
                    writer.set_last_sync(_now())
            except BaseException:
                other.discard()
                raise
            with self._guard:
                self._index.take_over(other)
                self._indexer = Indexer(self._files, self._index, self._reader)
            return _report(text, vectors, self._index.take_warnings(), time.perf_counter() - started)

    def verify(
        self, *, recompute: bool, wait_seconds: float, on_wait: Callable[[str], None], progress: Progress | None
    ) -> Difference | None:
        """Compare the index with one built from nothing; a file saved meanwhile is no difference."""
        with sync_lock(self._lock_folder, wait_seconds, on_wait):
            self.refresh(progress=progress)
            for _ in range(_VERIFY_ROUNDS):
                difference = self._difference(recompute, progress)
                again = self.refresh(progress=progress)
                if difference is None or not (again.added or again.changed or again.deleted):
                    break
            return difference

    def _difference(self, recompute: bool, progress: Progress | None) -> Difference | None:
        with self._index.reading() as reader:
            space = reader.active_space()
        other = self._index.beside(keep_vectors=not recompute)
        try:
            Indexer(self._files, other, self._reader).refresh(accept_root=True, progress=progress)
            if space is not None and recompute:
                self._queue(other).build_space(self._models.of_space(space), progress=progress)
            elif space is not None:
                with other.writing() as writer:
                    writer.prepare_space(space)
            with self._index.reading() as mine, other.reading() as theirs:
                pairs = zip_longest(mine.dump(), theirs.dump(), fillvalue="")
                return next((Difference(i, a, b) for i, (a, b) in enumerate(pairs, 1) if a != b), None)
        finally:
            other.discard()

    def _beside(self, *, keep_vectors: bool) -> Index:
        try:
            return self._index.beside(keep_vectors=keep_vectors)
        except IndexBusy:
            raise
        except IndexFailure:  # too damaged even to give its vectors
            return self._index.beside(keep_vectors=False)

    def _queue(self, index: Index) -> EmbeddingQueue:
        return EmbeddingQueue(self._files, index, self._reader)

    def _embed(self, index: Index, progress: Progress | None) -> VectorReport:
        """Embed what waits; a model that cannot even be loaded leaves everything pending and is reported."""
        try:
            return self._queue(index).build_space(self._models.configured(), progress=progress)
        except EmbedderError as error:
            with index.reading() as reader:
                return VectorReport(pending=reader.counts().pending, error=error)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _report(text: TextReport, vectors: VectorReport, warnings: Sequence[str], seconds: float) -> SyncReport:
    failed = list(text.failed)
    if vectors.error is not None:
        failed.append(Failure("(model)", ": ".join(filter(None, (str(vectors.error), vectors.error.hint)))))
    return SyncReport(
        added=text.added,
        changed=text.changed,
        deleted=text.deleted,
        unchanged=text.unchanged,
        vectors_computed=vectors.computed,
        vectors_reused=text.vectors_reused + vectors.reused,
        vectors_pending=vectors.pending,
        failed=tuple(failed),
        warnings=tuple(warnings),
        seconds=seconds,
    )
