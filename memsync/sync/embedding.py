"""Embeds passages that have no vector, in small committed steps, so that an interrupted run can continue."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from memsync.errors import EmbedderError, NoteError
from memsync.model.note import Chunk
from memsync.model.query import EmbeddingSpace
from memsync.model.status import IndexCounts, PendingPassage
from memsync.model.text import count, duration
from memsync.model.vocabulary import NotePath
from memsync.notes.decode import BinaryFileError
from memsync.notes.files import Identity, NoteFiles
from memsync.notes.parse import NoteReader
from memsync.ports import Clock, Embedder, Index, IndexReader, Progress
from memsync.sync.sharing import Sharing, remember

COMPUTING = "computing vectors"
"""What progress names after each batch."""
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
RATES = "embedding_rates"
"""Key in the index for the passages per second of each model on this machine in its last long run."""
RATE_PASSAGES = 200
"""Minimum passages to compute a rate from. The first ones are slow, because the model is being loaded."""


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
        self._last_read: tuple[NotePath, Identity | None] | None = None
        self._texts: Mapping[bytes, str] = {}

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
            writer.prepare_space(space)
        report = self.embed(embedder, progress=progress, pause=pause)
        with self._index.writing() as writer:
            writer.activate_complete_space(space)
        return report

    def embed(
        self,
        embedder: Embedder,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        pause: Callable[[], None] = lambda: None,
    ) -> VectorReport:
        """Embed the passages without a vector in the embedder's space, at most `limit`; `pause` as in Embedder.

        The order is that of IndexReader.waiting; new passages of notes that change meanwhile are sorted in. Vectors
        from the cache are used first and do not count for the limit.
        """
        space = embedder.space
        reused = self._sharing.take(space, progress)
        with self._index.reading() as reader:
            run = _Run(space, limit, _rates(reader).get(space.name, 0.0), BATCH_PASSAGES)
        while ids := self._next_ids(run):
            with self._index.reading() as reader:
                passages = reader.pending_passages(space, ids)
            run.announce(progress)
            started = self._clock.monotonic()
            try:
                done, refused = self._embed_batch(embedder, space, passages, pause)
            except EmbedderError as failed:  # the model failed; an unusable vector only affects its own passage
                run.error = failed
                break
            run.unusable = run.unusable or next(iter(refused), None)
            run.note_batch(done, self._clock.monotonic() - started)
            if progress is not None:
                progress(COMPUTING, len(run.tried), len(run.tried) + len(run.order))
            if run.computed >= RATE_PASSAGES:
                with self._index.reading() as reader:
                    rates = {**_rates(reader), space.name: round(run.rate, 2)}
                remember(self._index, RATES, json.dumps(rates, sort_keys=True), quiet=True)
        with self._index.reading() as reader:
            return VectorReport(run.computed, reused, reader.pending(space), run.error, run.unusable)

    def _next_ids(self, run: _Run) -> Sequence[int]:
        """Return the ids of the passages to embed next; empty if each was tried.

        Sorts again from time to time if notes have changed, never in a run with a limit.
        """
        started = self._clock.monotonic()
        if started >= run.sort_at:
            with self._index.reading() as reader:
                generation = reader.notes_generation()
                if generation != run.generation:
                    retrievals = self._retrievals() if reader.pending(run.space) > BATCH_PASSAGES else {}
                    order = [passage for passage in reader.waiting(run.space, retrievals) if passage not in run.tried]
                    run.order, run.generation = order[: run.limit], generation
            rest = max(ORDER_SECONDS, ORDER_REST * (self._clock.monotonic() - started))
            run.sort_at = self._clock.monotonic() + rest if run.limit is None else float("inf")
        ids = run.order[: run.size]
        del run.order[: run.size]
        run.tried.update(ids)
        return ids

    def _embed_batch(
        self, embedder: Embedder, space: EmbeddingSpace, batch: Sequence[PendingPassage], pause: Callable[[], None]
    ) -> tuple[int, list[EmbedderError]]:
        """Embed and commit one batch; return how many vectors were stored, and an error for each unusable one."""
        # For a remote model, take every text from its file: the index may not know yet that it has become local-only.
        texts = [
            self._text(p, is_remote=space.is_remote) if space.is_remote or p.text is None else p.text for p in batch
        ]
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

    def _text(self, passage: PendingPassage, *, is_remote: bool) -> str | None:
        """Return the text of a passage from its file; None if it is not there, or is not for a remote model.

        Keeps the texts of the last note, because the next passage is often of the same.
        """
        read = passage.path, self._files.identity(passage.path)  # before the reading, to notice a later change
        if self._last_read != read:
            chunks: Sequence[Chunk] = ()
            with suppress(FileNotFoundError, NoteError, BinaryFileError):
                content, _ = self._files.read(passage.path)
                note, chunks = self._reader.read(passage.path, content)
                if is_remote and note.local_only:
                    chunks = ()
            self._last_read, self._texts = read, {chunk.content_hash: chunk.text for chunk in chunks}
        return self._texts.get(passage.content_hash)


@dataclass(eq=False)
class _Run:
    """One call of `embed`: what is left to embed, in `order`, and the figures of the progress.

    `rate`: passages per second. `sort_at` (monotonic clock): when to sort again if the notes' `generation` has changed.
    """

    space: EmbeddingSpace
    limit: int | None
    rate: float
    size: int
    order: list[int] = field(default_factory=list)
    tried: set[int] = field(default_factory=set)
    generation: int = -1
    sort_at: float = float("-inf")
    computed: int = 0
    seconds: float = 0.0
    is_announced: bool = False
    error: EmbedderError | None = None
    unusable: EmbedderError | None = None

    def note_batch(self, done: int, seconds: float) -> None:
        """Count one batch, and choose the size of the next one from the time that this one took."""
        self.computed += done
        self.seconds += seconds
        if self.computed >= RATE_PASSAGES:
            self.rate = self.computed / max(self.seconds, 1e-3)
        elif self.computed > done and not self.rate:  # the first batch waits for the model to load
            self.rate = done / max(seconds, 1e-3)
        fits = self.size * BATCH_SECONDS / max(seconds, 1e-3)
        self.size = int(min(max(fits, BATCH_PASSAGES / 2), MAX_BATCH_PASSAGES))

    def announce(self, progress: Progress | None) -> None:
        """Announce once, as soon as the rate is known, how many passages are left and how long they will take."""
        left = len(self.tried) + len(self.order) - self.computed
        if progress is not None and self.rate and not self.is_announced:
            self.is_announced = True
            if left / self.rate >= WORTH_ANNOUNCING_SECONDS:
                about = f"about {duration(left / self.rate)}"
                progress(f"{count(left, 'passage')} to embed, {about}; searches work meanwhile", 0, 0)


def _rates(reader: IndexReader) -> dict[str, float]:
    rates: dict[str, float] = json.loads(reader.meta(RATES) or "{}")
    return rates


def pending_seconds(reader: IndexReader, counts: IndexCounts) -> float:
    """Return the estimated seconds to embed all pending passages; 0 if there are none or the rate is unknown."""
    building = (counts.building_pending, counts.building_space)
    waiting, space = building if counts.building_space else (counts.pending, counts.active_space)
    rate = _rates(reader).get(space, 0.0)
    return round(waiting / rate, 1) if rate else 0.0
