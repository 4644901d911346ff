"""Passages without a vector -> vectors, in small committed steps: an interrupted run goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from memsync.errors import EmbedderError, NoteError
from memsync.model import EmbeddingSpace, NotePath, PendingPassage
from memsync.notes.decode import BinaryFileError
from memsync.notes.files import NoteFiles
from memsync.notes.reader import NoteReader
from memsync.ports import Embedder, Index, Progress
from memsync.sync.sharing import Sharing

BATCH_PASSAGES = 32
"""Passages between two commits: what an interruption costs at most."""


@dataclass(frozen=True, slots=True)
class VectorReport:
    """Vectors computed and taken from the cache, what still waits, and why if something failed.

    `error`: the model failed, nothing more can be embedded now. `unusable`: what it gave for some text is no vector;
    all other texts have theirs.
    """

    computed: int = 0
    reused: int = 0
    pending: int = 0
    error: EmbedderError | None = None
    unusable: EmbedderError | None = None

    @property
    def problem(self) -> EmbedderError | None:
        """What is to be told: that the model failed, or else that it gave something that is no vector."""
        return self.error or self.unusable


class EmbeddingQueue:
    """Gives vectors to the passages of one index that wait for one."""

    def __init__(self, files: NoteFiles, index: Index, reader: NoteReader, sharing: Sharing) -> None:
        self._files = files
        self._index = index
        self._reader = reader
        self._sharing = sharing

    def build_space(
        self, embedder: Embedder, *, progress: Progress | None = None, pause: Callable[[], None] = lambda: None
    ) -> VectorReport:
        """Give every passage a vector in the embedder's space, and let the space answer once it is complete.

        A failing model ends the work with its error in the report: what is committed stays, words go on being found.
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
        """Embed what waits in the embedder's space, at most `limit` passages; `pause` as in Embedder.

        What another index has embedded before is taken from there, and does not count for the limit.
        """
        space = embedder.space
        reused = self._sharing.take(space, progress)
        computed = tried = last_id = 0
        error: EmbedderError | None = None
        unusable: EmbedderError | None = None
        with self._index.reading() as reader:
            waiting = reader.pending(space)
        total = waiting if limit is None else min(limit, waiting)
        while tried < total:
            with self._index.reading() as reader:
                batch = reader.pending_passages(space, last_id, min(BATCH_PASSAGES, total - tried))
            if not batch:
                break
            try:
                done, refused = self._embed_batch(embedder, space, batch, pause)
            except EmbedderError as failed:  # the model itself; an unusable vector holds up only its own passage
                error = failed
                break
            computed += done
            unusable = unusable or next(iter(refused), None)
            tried += len(batch)
            last_id = batch[-1].passage_id
            if progress is not None:
                progress("computing vectors", tried, total)
        with self._index.reading() as reader:
            return VectorReport(computed, reused, reader.pending(space), error, unusable)

    def _embed_batch(
        self, embedder: Embedder, space: EmbeddingSpace, batch: Sequence[PendingPassage], pause: Callable[[], None]
    ) -> tuple[int, list[EmbedderError]]:
        """Commit the vectors of one batch; return how many there are, and what is wrong with the unusable ones."""
        known = [(passage, text) for passage, text in self._texts(batch) if text is not None]
        vectors = embedder.embed_passages([text for _, text in known], pause)
        self._sharing.put(space, [(p.content_hash, vector) for (p, _), vector in zip(known, vectors, strict=True)])
        with self._index.writing() as writer:
            pairs = [(passage, vector) for (passage, _), vector in zip(known, vectors, strict=True)]
            unusable = writer.put_vectors(space, pairs)
        return len(known) - len(unusable), unusable

    def _texts(self, batch: Sequence[PendingPassage]) -> list[tuple[PendingPassage, str | None]]:
        """Return each passage with its text; None when its note has changed, which the next sync will see."""
        again = {passage.path for passage in batch if passage.text is None}
        found = {digest: text for path in sorted(again) for digest, text in self._read(path).items()}
        return [(passage, passage.text or found.get(passage.content_hash)) for passage in batch]

    def _read(self, path: NotePath) -> dict[bytes, str]:
        try:
            content, _ = self._files.read(path)
            _, chunks = self._reader.read(path, content)
        except (FileNotFoundError, NoteError, BinaryFileError):
            return {}
        return {chunk.content_hash: chunk.text for chunk in chunks}
