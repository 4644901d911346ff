"""Embeds passages that have no vector, in small committed steps, so that an interrupted run can continue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from memsync.errors import EmbedderError, NoteError
from memsync.model.note import Chunk
from memsync.model.query import EmbeddingSpace
from memsync.model.status import PendingPassage
from memsync.model.text import count, duration
from memsync.model.vocabulary import NotePath
from memsync.notes.decode import BinaryFileError
from memsync.notes.files import Identity, NoteFiles
from memsync.notes.parse import NoteReader
from memsync.ports import Clock, Embedder, Index, IndexReader, Progress
from memsync.sync.order import RATE_PASSAGES, RATES, embedding_order, known_rate, rates_with
from memsync.sync.sharing import Sharing

BATCH_PASSAGES = 32
"""Passages of the first batch."""
MAX_BATCH_PASSAGES = 256
BATCH_SECONDS = 0.5
"""Time between two commits: an interruption loses at most this much work, and the cost of commits stays small."""
ORDER_SECONDS = 2.0
"""Minimum time between two checks for changed notes, whose passages then come first."""
ORDER_REST = 20
"""After sorting the queue, embed at least this many times as long before sorting again. Sorting 160,000 passages takes
a second."""
WORTH_ANNOUNCING_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class VectorReport:
    """How many vectors were computed, how many came from the cache, how many are still pending, and errors.

    `error`: the model failed, so that nothing more can be embedded now. `unusable`: the model returned an invalid
    vector for some text; all other texts got theirs.
    """

    computed: int = 0
    reused: int = 0
    pending: int = 0
    error: EmbedderError | None = None
    unusable: EmbedderError | None = None

    @property
    def problem(self) -> EmbedderError | None:
        """The error to report: that the model failed, otherwise that it returned an invalid vector."""
        return self.error or self.unusable


class EmbeddingQueue:
    """Embeds the passages of one index that have no vector.

    `retrievals` returns how often searches retrieved each note.
    """

    def __init__(
        self,
        files: NoteFiles,
        index: Index,
        reader: NoteReader,
        sharing: Sharing,
        clock: Clock,
        retrievals: Callable[[], Mapping[NotePath, int]],
    ) -> None:
        self._files = files
        self._index = index
        self._reader = reader
        self._sharing = sharing
        self._clock = clock
        self._retrievals = retrievals
        self._last_read: tuple[NotePath | None, Identity | None, Mapping[bytes, str]] = (None, None, {})

    def build_space(
        self, embedder: Embedder, *, progress: Progress | None = None, pause: Callable[[], None] = lambda: None
    ) -> VectorReport:
        """Embed every passage in the embedder's space, and use the space for searches when it is complete.

        If the model fails, the report has its error. Committed vectors stay, and keyword search continues to work.
        """
        space = embedder.space
        with self._index.reading() as reader:
            if reader.active_space() == space and not reader.counts().building_space and not reader.pending(space):
                return VectorReport()
        with self._index.writing() as writer:
            reused = writer.prepare_space(space)
        report = self.embed(embedder, progress=progress, pause=pause)
        with self._index.writing() as writer:
            writer.activate_complete_space(space)
        return replace(report, reused=report.reused + reused)

    def embed(
        self,
        embedder: Embedder,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        pause: Callable[[], None] = lambda: None,
    ) -> VectorReport:
        """Embed the passages without a vector in the embedder's space, at most `limit`; `pause` as in Embedder.

        The order is that of `embedding_order`; new passages of notes that change meanwhile are sorted in. Vectors from
        the cache are used first and do not count for the limit.
        """
        reused = self._sharing.take(embedder.space, progress)
        run = _Run(embedder.space, limit, self._clock.monotonic)
        with self._index.reading() as reader:
            run.take_stock(reader, self._retrievals)
            run.rate = known_rate(reader, run.space.name)
        error: EmbedderError | None = None
        while batch := run.next_batch():
            with self._index.reading() as reader:
                passages = reader.pending_passages(run.space, batch)
            run.announce(progress)
            started = self._clock.monotonic()
            try:
                done, refused = self._embed_batch(embedder, run.space, passages, pause)
            except EmbedderError as failed:  # the model failed; an unusable vector only affects its own passage
                error = failed
                break
            run.note_batch(done, refused, self._clock.monotonic() - started)
            if progress is not None:
                progress("computing vectors", len(run.tried), run.total)
            if run.has_first_rate:
                self._keep_rate(run)
            if run.is_to_take_stock():
                with self._index.reading() as reader:
                    run.take_stock(reader, self._retrievals)
        if run.computed >= RATE_PASSAGES:
            self._keep_rate(run)
        with self._index.reading() as reader:
            return VectorReport(run.computed, reused, reader.pending(run.space), error, run.unusable)

    def _keep_rate(self, run: _Run) -> None:
        with self._index.writing() as writer:
            writer.set_meta(RATES, rates_with(writer, run.space, run.rate))
        run.has_first_rate = False

    def _embed_batch(
        self, embedder: Embedder, space: EmbeddingSpace, batch: Sequence[PendingPassage], pause: Callable[[], None]
    ) -> tuple[int, list[EmbedderError]]:
        """Embed and commit one batch; return how many vectors were stored, and an error for each unusable one."""
        if space.is_remote:
            # Take every text from its file: the index may not know yet that the note has become local-only.
            if self._last_read[1] != self._identity(self._last_read[0]):
                self._last_read = (None, None, {})
            texts = [self._read(p.path, is_remote=True).get(p.content_hash) for p in batch]
        else:
            texts = [p.text if p.text is not None else self._read(p.path).get(p.content_hash) for p in batch]
        # A passage without a text is of a note that has changed; the next sync will index it.
        known = [(passage, text) for passage, text in zip(batch, texts, strict=True) if text is not None]
        if space.is_remote:
            self._files.require_settings()  # a note may have become local-only
        vectors = embedder.embed_passages([text for _, text in known], pause)
        pairs = [(passage, vector) for (passage, _), vector in zip(known, vectors, strict=True)]
        self._sharing.put(space, [(passage.content_hash, vector) for passage, vector in pairs])
        with self._index.writing() as writer:
            unusable = writer.put_vectors(space, pairs)
        return len(known) - len(unusable), unusable

    def _read(self, path: NotePath, *, is_remote: bool = False) -> Mapping[bytes, str]:
        """Return the texts of a note by their hash; none of a local-only note if they are for a remote model.

        Caches the last note, because the next batch may continue it.
        """
        if self._last_read[0] != path:
            chunks: Sequence[Chunk] = ()
            identity = self._identity(path)  # before the reading, so that a later change is noticed
            with suppress(FileNotFoundError, NoteError, BinaryFileError):
                content, _ = self._files.read(path)
                note, chunks = self._reader.read(path, content)
                if is_remote and note.local_only:
                    chunks = ()
            self._last_read = path, identity, {chunk.content_hash: chunk.text for chunk in chunks}
        return self._last_read[2]

    def _identity(self, path: NotePath | None) -> Identity | None:
        return None if path is None else self._files.identity(path)


class _Run:
    """The queue and the progress of one call of `embed`."""

    def __init__(self, space: EmbeddingSpace, limit: int | None, now: Callable[[], float]) -> None:
        self.space = space
        self._left = limit
        self._now = now
        self._order: list[int] = []
        self._position = 0
        self._notes_generation = -1
        self._stock_at = 0.0
        self._size = BATCH_PASSAGES
        self._seconds = 0.0
        self._is_announced = False
        self.has_first_rate = False
        self.tried: set[int] = set()
        self.computed = 0
        self.rate = 0.0
        self.unusable: EmbedderError | None = None

    @property
    def total(self) -> int:
        """The number of passages tried and to be tried."""
        return len(self.tried) + len(self._order) - self._position

    def take_stock(self, reader: IndexReader, retrievals: Callable[[], Mapping[NotePath, int]]) -> None:
        """Make the queue again: the passages that have no vector now and were not tried yet, in order."""
        started = self._now()
        generation = reader.notes_generation()
        if generation == self._notes_generation:
            self._stock_at = started + ORDER_SECONDS
            return
        self._notes_generation = generation
        notes = reader.waiting_notes(self.space)
        counts = retrievals() if sum(len(note.passages) for note in notes) > BATCH_PASSAGES else {}
        order = [passage for passage in embedding_order(notes, counts) if passage not in self.tried]
        self._order, self._position = order[: self._left], 0
        self._stock_at = self._now() + max(ORDER_SECONDS, ORDER_REST * (self._now() - started))

    def is_to_take_stock(self) -> bool:
        """Tell whether it is time to check for new passages; never in a run with a limit."""
        return self._left is None and self._now() >= self._stock_at

    def next_batch(self) -> Sequence[int]:
        """Return the passages to embed next; empty if all were tried."""
        batch = self._order[self._position : self._position + self._size]
        self._position += len(batch)
        self.tried.update(batch)
        return batch

    def note_batch(self, done: int, refused: Sequence[EmbedderError], seconds: float) -> None:
        """Count one batch, and choose the size of the next one from the time that this one took."""
        self.computed += done
        self.unusable = self.unusable or next(iter(refused), None)
        self._seconds += seconds
        if self.computed >= RATE_PASSAGES:
            self.has_first_rate = not self.rate
            self.rate = self.computed / max(self._seconds, 1e-3)
        fits = self._size * BATCH_SECONDS / max(seconds, 1e-3)
        self._size = int(min(max(fits, BATCH_PASSAGES / 2, self._size / 2), self._size * 2, MAX_BATCH_PASSAGES))

    def announce(self, progress: Progress | None) -> None:
        """Announce once, as soon as the rate is known, how many passages are left and how long they will take."""
        left = self.total - self.computed
        if progress is not None and self.rate and not self._is_announced:
            self._is_announced = True
            if left / self.rate >= WORTH_ANNOUNCING_SECONDS:
                progress(f"{count(left, 'passage')} to embed, about {duration(left / self.rate)}", 0, 0)
