"""Memory: one memory root, searched and synced in this process. What `from memsync import Memory` gives."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from memsync.errors import EmbedderError, IndexDamaged, UsageError
from memsync.model import (
    Difference,
    EmbeddingSpace,
    Excerpt,
    Failure,
    Filters,
    Freshness,
    Mode,
    Query,
    SearchResult,
    Status,
    SyncReport,
)
from memsync.notes.chunk import ChunkLimits
from memsync.notes.files import NoteFiles
from memsync.notes.reader import NoteReader
from memsync.notes.rules import PathRules
from memsync.ports import Embedder, Index, Progress, TokenCounter
from memsync.search.excerpt import read_excerpt
from memsync.search.query_syntax import parse_query
from memsync.search.searcher import Ranking, Searcher
from memsync.settings import Settings
from memsync.sync.embedding import EmbeddingQueue, VectorReport
from memsync.sync.failures import read_failures
from memsync.sync.indexer import Indexer, TextReport
from memsync.sync.lock import sync_lock

if TYPE_CHECKING:
    from memsync.ports import Vector

_CHUNK_SETTINGS = ("max_tokens", "small_tokens", "run_tokens", "window_entries", "window_stride")
BULK_NOTES = 100
POOL_THREADS = 2
EMBED_ON_SEARCH = 16
"""Passages that a search embeds itself before it answers by meaning: what one edit leaves behind, not a backlog."""


class Memory:
    """One memory root. Safe to use from several threads, and while other processes write.

    with Memory.open("notes") as memory:
        for hit in memory.search("which store did we choose", limit=5).hits:
            print(hit.citation, hit.snippet)
    """

    def __init__(
        self,
        settings: Settings,
        index: Index,
        counter: TokenCounter,
        make_embedder: Callable[[], Embedder],
        embedder_of: Callable[[EmbeddingSpace], Embedder],
    ) -> None:
        """Put the parts together; `wiring.connect` and `Memory.open` are what callers use."""
        self.settings = settings
        self._index = index
        self._make_embedder = make_embedder
        self._embedder_of = embedder_of
        self._embedders: dict[str, Embedder] = {}
        self._lock = threading.RLock()
        self._files = NoteFiles(settings.root, settings["files.exclude"])
        self._reader = NoteReader(
            counter.count,
            PathRules(settings.kinds, settings.tiers),
            ChunkLimits(*(settings[f"chunks.{name}"] for name in _CHUNK_SETTINGS)),
            settings["files.max_structured_bytes"],
        )
        self._indexer = Indexer(self._files, index, self._reader)
        self._pool = ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="memsync")
        ranking = _ranking(settings)
        self._searcher = Searcher(self._files, index, self._reader, counter.count, ranking, self._pool)
        self._scanned_at = ""

    @classmethod
    def open(
        cls, root: str | os.PathLike[str] | None = None, *, config: str | os.PathLike[str] | None = None
    ) -> Memory:
        """Open the memory root at `root`, or the one that `config` (or the nearest config.toml) names.

        Raises ConfigError, RootError, IndexFailure.
        """
        from memsync.settings import load_settings
        from memsync.wiring import connect

        return connect(load_settings(config=Path(config) if config else None, root=Path(root) if root else None))

    def close(self) -> None:
        """Close the index. The memory cannot be used afterwards."""
        self._pool.shutdown()
        self._index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------- search

    def search(
        self,
        query: str | Query,
        *,
        limit: int | None = None,
        mode: Mode | str | None = None,
        filters: Filters = Filters(),
        tokens: int | None = None,
    ) -> SearchResult:
        """Answer a question about the files as they are now.

        `query` is text in the syntax of docs/search.md, or a Query; `limit` and `mode` default to the settings;
        `tokens` keeps as many hits as fit a budget of word pieces. Changed files are indexed first, as far as the
        deadline allows; what the answer then lacks is said in `freshness` and `warnings`.
        Raises UsageError, RootError, IndexFailure.
        """
        if isinstance(query, str):
            query = self.parse(query, limit=limit, mode=mode, filters=filters)
        started = time.perf_counter()
        by_meaning = query.mode is not Mode.KEYWORD and bool(query.text.strip())
        embedding = self._pool.submit(self._query_vector, query.text) if by_meaning else None
        report = self._refresh_text(self.settings["search.deadline_ms"] / 1000)
        warnings = [*query.warnings, *self._index.warnings, *_stale_warnings(report)]
        timings = {"scan": _ms_since(started)}
        started = time.perf_counter()
        vector, mode_used = None, query.mode
        if embedding is not None:
            try:
                vector = embedding.result()
                if vector is None:
                    warnings.append("no vectors yet: searched by words alone; run memsync sync")
                self._embed_leftovers()
            except EmbedderError as error:
                warnings.append(f"{error}; searched by words alone")
            if vector is None:
                mode_used = Mode.KEYWORD
            timings["embed"] = _ms_since(started)
        try:
            result = self._searcher.search(replace(query, mode=mode_used), vector, tokens=tokens)
        except EmbedderError as error:  # what the model gave for the question is no vector of the space that answers
            warnings.append(f"{error}; searched by words alone")
            mode_used = Mode.KEYWORD
            result = self._searcher.search(replace(query, mode=mode_used), None, tokens=tokens)
        with self._index.reading() as reader:
            active = reader.active_space()
            pending = reader.pending(active) if active else reader.counts().passages
        if pending and mode_used is not Mode.KEYWORD:
            warnings.append(f"{pending} passages are not searchable by meaning yet: run memsync sync")
        return replace(
            result,
            freshness=Freshness(self._scanned_at, report.pending, pending),
            warnings=(*warnings, *result.warnings),
            timings={**timings, **result.timings},
        )

    def parse(
        self,
        text: str,
        *,
        limit: int | None = None,
        mode: Mode | str | None = None,
        filters: Filters = Filters(),
        filter_pairs: Sequence[tuple[str, str]] = (),
    ) -> Query:
        """Return `text` understood as a query, without asking it. Raises UsageError."""
        limit = self.settings["search.limit"] if limit is None else limit
        if limit < 1:
            raise UsageError(f"limit {limit} is not at least 1", hint="Ask for one hit or more.")
        chosen = Mode(mode or self.settings["search.mode"])
        return parse_query(
            text, now=datetime.now(), limit=limit, mode=chosen, filters=filters, filter_pairs=filter_pairs
        )

    def get(self, location: str) -> Excerpt:
        """Return the lines that `PATH`, `PATH:LINE`, `PATH:LINE:COUNT`, `PATH:FIRST-LAST` or `PATH#heading` names.

        Nothing outside the memory root is read. Raises NoteError, UsageError.
        """
        return read_excerpt(self._files, self._reader, location)

    # --------------------------------------------------------------------------------------------- sync

    def sync(
        self,
        *,
        progress: Progress | None = None,
        wait_seconds: float = 600.0,
        on_wait: Callable[[str], None] = lambda holder: None,
        accept_root: bool = False,
    ) -> SyncReport:
        """Make the index equal to the files: text first, then vectors.

        Waits for another sync of the same index to end and tells `on_wait` who holds it. Raises IndexBusy when that
        takes too long, RootError when the root is not the one indexed (unless `accept_root`), IndexFailure.
        """
        with sync_lock(self.settings.index_dir, wait_seconds, on_wait):
            started = time.perf_counter()
            text = self._refresh_text(accept_root=accept_root, progress=progress)
            vectors = self._embed(progress=progress)
            if text.added or text.changed or text.deleted or vectors.computed:
                self._index.compact(bulk=text.added + text.changed > BULK_NOTES)
            with self._index.writing() as writer:
                writer.set_last_sync(self._scanned_at)
            return _sync_report(text, vectors, self._index.warnings, time.perf_counter() - started)

    def rebuild(
        self, *, keep_vectors: bool = True, progress: Progress | None = None, wait_seconds: float = 600.0
    ) -> SyncReport:
        """Build the index anew from the files, beside the old one, which answers until the new one is complete.

        Vectors of known texts are kept unless told not to. Raises as `sync` does.
        """
        with sync_lock(self.settings.index_dir, wait_seconds):
            started = time.perf_counter()
            try:
                other = self._index.beside(keep_vectors=keep_vectors)
            except IndexDamaged:
                other = self._index.beside(keep_vectors=False)
            try:
                text = Indexer(self._files, other, self._reader).refresh(accept_root=True, progress=progress)
                vectors = self._embed(other, progress=progress)
                with other.writing() as writer:
                    writer.set_last_sync(_now())
            except BaseException:
                other.discard()
                raise
            self._index.take_over(other)
            self._indexer = Indexer(self._files, self._index, self._reader)
            return _sync_report(text, vectors, self._index.warnings, time.perf_counter() - started)

    def verify(
        self, *, recompute: bool = False, progress: Progress | None = None, wait_seconds: float = 600.0
    ) -> Difference | None:
        """Build the index a second time from the files and return the first line in which the two differ, or None.

        Changes not yet indexed are indexed first. Vectors come from the cache unless they are to be recomputed.
        """
        with sync_lock(self.settings.index_dir, wait_seconds):
            self._refresh_text(progress=progress)
            with self._index.reading() as reader:
                space = reader.active_space()
            other = self._index.beside(keep_vectors=not recompute)
            try:
                Indexer(self._files, other, self._reader).refresh(accept_root=True, progress=progress)
                if space is not None and recompute:
                    self._queue(other).build_space(self._embedder(space), progress=progress)
                elif space is not None:
                    with other.writing() as writer:
                        writer.prepare_space(space)
                with self._index.reading() as mine, other.reading() as theirs:
                    pairs = zip_longest(mine.dump(), theirs.dump(), fillvalue="")
                    return next((Difference(i, a, b) for i, (a, b) in enumerate(pairs, 1) if a != b), None)
            finally:
                other.discard()

    def status(self) -> Status:
        """Return what the index holds, as of the last sync; files changed since are not looked for."""
        with self._index.reading() as reader:
            counts = reader.counts()
            return Status(
                root=str(self.settings.root),
                index_path=str(self.settings.index_dir),
                notes=counts.notes,
                chunks=counts.chunks,
                passages=counts.passages,
                vectors=counts.vectors,
                pending_vectors=counts.pending,
                space=counts.active_space,
                building_space=counts.building_space,
                building_pending=counts.building_pending,
                index_bytes=counts.index_bytes,
                last_sync=reader.meta("last_sync"),
                warnings=tuple(Failure(path, text) for path, text in reader.warnings()),
                failures=tuple(failed.failure for failed in read_failures(reader).values()),
            )

    # ------------------------------------------------------------------------------------------ private

    def _refresh_text(
        self, deadline_seconds: float = float("inf"), *, accept_root: bool = False, progress: Progress | None = None
    ) -> TextReport:
        with self._lock:
            report = self._indexer.refresh(
                deadline_seconds=deadline_seconds, accept_root=accept_root, progress=progress
            )
            self._scanned_at = _now()
            return report

    def _queue(self, index: Index) -> EmbeddingQueue:
        return EmbeddingQueue(self._files, index, self._reader)

    def _embed(self, index: Index | None = None, *, progress: Progress | None = None) -> VectorReport:
        """Embed what waits; a model that cannot even be loaded leaves everything pending and is reported."""
        index = index or self._index
        try:
            return self._queue(index).build_space(self._configured_embedder(), progress=progress)
        except EmbedderError as error:
            with index.reading() as reader:
                return VectorReport(pending=reader.counts().pending, error=error)

    def _query_vector(self, text: str) -> Vector | None:
        """Embed a question in the space that answers, None while there is none; runs beside the scan."""
        with self._index.reading() as reader:
            space = reader.active_space()
        return self._embedder(space).embed_query(text) if space is not None else None

    def _embed_leftovers(self) -> None:
        """Embed the few passages that an edit leaves behind, so that they are found by meaning too."""
        with self._index.reading() as reader:
            space = reader.active_space()
            pending = reader.pending(space) if space else 0
        if space is not None and 0 < pending <= EMBED_ON_SEARCH:
            self._queue(self._index).embed(self._embedder(space), limit=EMBED_ON_SEARCH)

    def _configured_embedder(self) -> Embedder:
        with self._lock:
            if "" not in self._embedders:
                embedder = self._make_embedder()
                self._embedders[""] = embedder
                self._embedders[embedder.space.name] = embedder
            return self._embedders[""]

    def _embedder(self, space: EmbeddingSpace) -> Embedder:
        """Return what embeds in `space`: the configured model, or while its space is built, the one before."""
        with self._lock:
            if space.name not in self._embedders:
                with suppress(EmbedderError):  # the space that answers may be of another model, which still works
                    self._configured_embedder()
            if space.name not in self._embedders:
                embedder = self._embedder_of(space)
                if embedder.space != space:
                    raise EmbedderError(
                        f"the index was built with {space.name}, which is not to be had any more",
                        hint="Run: memsync sync",
                    )
                self._embedders[space.name] = embedder
            return self._embedders[space.name]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _stale_warnings(report: TextReport) -> list[str]:
    warnings = [f"{failure.path}: {failure.reason}" for failure in report.failed]
    if report.pending:
        warnings.append(f"{report.pending} changed files are not in this answer yet: run memsync sync")
    return warnings


def _sync_report(text: TextReport, vectors: VectorReport, warnings: Sequence[str], seconds: float) -> SyncReport:
    failed = list(text.failed)
    if vectors.error is not None:
        failed.append(Failure("(model)", f"{vectors.error} {vectors.error.hint}".strip()))
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


def _ranking(settings: Settings) -> Ranking:
    return Ranking(
        keyword_weight=settings["search.keyword_weight"],
        candidates=settings["search.candidates"],
        recency=settings["search.recency"],
        recency_days=settings["search.recency_days"],
        importance=settings["search.importance"],
        pinned=settings["search.pinned"],
    )
