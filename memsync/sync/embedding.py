"""Passages without a vector -> vectors, in small committed steps: an interrupted run goes on where it was."""

from __future__ import annotations

from dataclasses import dataclass, replace

from memsync.errors import EmbedderError
from memsync.ports import Embedder, Index, Progress

BATCH_PASSAGES = 128
"""Passages between two commits: what an interruption costs at most."""


@dataclass(frozen=True, slots=True)
class VectorReport:
    """Vectors computed and taken from the cache, what still waits, and why if something failed."""

    computed: int = 0
    reused: int = 0
    pending: int = 0
    error: EmbedderError | None = None


def build_space(index: Index, embedder: Embedder, *, progress: Progress | None = None) -> VectorReport:
    """Give every passage a vector in the embedder's space, and let the space answer searches once it is complete.

    A failing model ends the work with its error in the report: what is committed stays, and words go on being found.
    """
    space = embedder.space
    with index.writing() as writer:
        reused = writer.prepare_space(space)
    report = embed_waiting(index, embedder, progress=progress)
    with index.writing() as writer:
        writer.activate_complete_space(space)
    return replace(report, reused=reused)


def embed_waiting(
    index: Index, embedder: Embedder, *, limit: int | None = None, progress: Progress | None = None
) -> VectorReport:
    """Embed what waits in the embedder's space, at most `limit` passages."""
    space = embedder.space
    computed, last_id = 0, 0
    error: EmbedderError | None = None
    with index.reading() as reader:
        waiting = reader.pending(space)
    total = waiting if limit is None else min(limit, waiting)
    while computed < total and error is None:
        with index.reading() as reader:
            batch = reader.pending_passages(space, last_id, min(BATCH_PASSAGES, total - computed))
        if not batch:
            break
        try:
            vectors = embedder.embed_passages([passage.text for passage in batch])
            with index.writing() as writer:
                writer.put_vectors(space, list(zip(batch, vectors, strict=True)))
        except EmbedderError as failed:
            error = failed
            continue
        computed += len(batch)
        last_id = batch[-1].passage_id
        if progress is not None:
            progress("computing vectors", computed, total)
    with index.reading() as reader:
        return VectorReport(computed, 0, reader.pending(space), error)
