"""Memory: one memory root, searched and synced in this process. What `from memsync import Memory` gives."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from memsync.errors import EmbedderError, UsageError
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
from memsync.sync.failures import read_failures
from memsync.sync.indexer import TextReport
from memsync.sync.models import EmbeddingModels
from memsync.sync.syncer import MODEL_FAILURE, Syncer

if TYPE_CHECKING:
    from memsync.ports import Vector

    _QueryVector = tuple[EmbeddingSpace | None, Vector | None]

_CHUNK_SETTINGS = ("max_tokens", "small_tokens", "run_tokens", "window_entries", "window_stride")
_RANKING_SETTINGS = ("keyword_weight", "candidates", "recency", "recency_days", "importance", "pinned")
WAIT_SECONDS = 600.0
POOL_THREADS, BUDGET_HITS = 2, 50


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
        self._files = NoteFiles(settings.root, settings["files.exclude"])
        self._reader = NoteReader(
            counter.count,
            PathRules(settings.kinds, settings.tiers),
            ChunkLimits(*(settings[f"chunks.{name}"] for name in _CHUNK_SETTINGS)),
            settings["files.max_structured_bytes"],
        )
        self._models = EmbeddingModels(make_embedder, embedder_of)
        self._syncer = Syncer(self._files, index, self._reader, self._models, settings.index_dir)
        self._pool = ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="memsync")
        ranking = Ranking(**{name: settings[f"search.{name}"] for name in _RANKING_SETTINGS})
        self._searcher = Searcher(self._files, index, self._reader, counter.count, ranking, self._pool)

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
            query = self.parse(query, limit=limit, mode=mode, filters=filters, tokens=tokens)
        started = time.perf_counter()
        by_meaning = query.mode is not Mode.KEYWORD and bool(query.text.strip())
        embedding = self._pool.submit(self._query_vector, query.text) if by_meaning else None
        report = self._syncer.refresh(self.settings["search.deadline_ms"] / 1000)
        warnings = [*query.warnings, *self._index.take_warnings(), *_stale_warnings(report)]
        timings = {"scan": _ms_since(started)}
        started = time.perf_counter()
        space, vector = self._awaited(embedding, warnings) if embedding is not None else (None, None)
        timings["embed"] = _ms_since(started)
        if by_meaning and vector is None:
            query = replace(query, mode=Mode.KEYWORD)
        result = self._answer(query, vector, space, tokens, warnings)
        with self._index.reading() as reader:
            active = reader.active_space()
            pending = reader.pending(active) if active else reader.counts().passages
        if pending and result.mode is not Mode.KEYWORD:
            warnings.append(f"{pending} passages are not searchable by meaning yet: run memsync sync")
        return replace(
            result,
            freshness=Freshness(self._syncer.scanned_at, report.pending, pending),
            warnings=(*filter(None, warnings), *result.warnings),
            timings={**timings, **result.timings},
        )

    def _awaited(self, embedding: Future[_QueryVector], warnings: list[str]) -> _QueryVector:
        """Return the question's vector and its space; no vector, and why in `warnings`, when words must answer."""
        found: _QueryVector = (None, None)
        try:
            found = embedding.result()
            self._syncer.embed_leftovers()
        except EmbedderError as error:
            warnings.append(f"{error}; searched by words alone" if found[1] is None else str(error))
            return found
        warnings += [self._models.complaint(found[0])] if found[0] else []
        if found[1] is None:
            warnings.append("no vectors yet: searched by words alone; run memsync sync")
        return found

    def _answer(
        self,
        query: Query,
        vector: Vector | None,
        space: EmbeddingSpace | None,
        tokens: int | None,
        warnings: list[str],
    ) -> SearchResult:
        """Search, by words alone if what the model gave is no vector of the space that answers."""
        try:
            return self._searcher.search(query, vector, space, tokens=tokens)
        except EmbedderError as error:
            warnings.append(f"{error}; searched by words alone")
            return self._searcher.search(replace(query, mode=Mode.KEYWORD), None, tokens=tokens)

    def parse(
        self,
        text: str,
        *,
        limit: int | None = None,
        mode: Mode | str | None = None,
        filters: Filters = Filters(),
        filter_pairs: Sequence[tuple[str, str]] = (),
        tokens: int | None = None,
    ) -> Query:
        """Return `text` understood as a query, without asking it. Raises UsageError.

        With a budget of `tokens` and no `limit`, as many hits as may fit are looked for.
        """
        if limit is None:
            limit = self.settings["search.limit"] if tokens is None else BUDGET_HITS
        if limit < 1:
            raise UsageError(f"limit {limit} is not at least 1", hint="Ask for one hit or more.")
        chosen = mode or self.settings["search.mode"]
        if chosen not in list(Mode):
            raise UsageError(f"mode {chosen!r} is not known", hint=f"Write {', '.join(Mode)}.")
        return parse_query(
            text, now=datetime.now(), limit=limit, mode=Mode(chosen), filters=filters, filter_pairs=filter_pairs
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
        wait_seconds: float = WAIT_SECONDS,
        on_wait: Callable[[str], None] = lambda holder: None,
        accept_root: bool = False,
    ) -> SyncReport:
        """Make the index equal to the files: text first, then vectors.

        Waits for another sync of the same index to end and tells `on_wait` who holds it. Raises IndexBusy when that
        takes too long, RootError when the root is not the one indexed (unless `accept_root`), IndexFailure.
        """
        return self._syncer.sync(wait_seconds=wait_seconds, on_wait=on_wait, accept_root=accept_root, progress=progress)

    def rebuild(
        self,
        *,
        keep_vectors: bool = True,
        progress: Progress | None = None,
        wait_seconds: float = WAIT_SECONDS,
        on_wait: Callable[[str], None] = lambda holder: None,
    ) -> SyncReport:
        """Build the index anew from the files, beside the old one, which answers until the new one is complete.

        Vectors of known texts are kept unless told not to. Raises as `sync` does.
        """
        return self._syncer.rebuild(
            keep_vectors=keep_vectors, wait_seconds=wait_seconds, on_wait=on_wait, progress=progress
        )

    def verify(
        self,
        *,
        recompute: bool = False,
        progress: Progress | None = None,
        wait_seconds: float = WAIT_SECONDS,
        on_wait: Callable[[str], None] = lambda holder: None,
    ) -> Difference | None:
        """Build the index a second time from the files and return the first line in which the two differ, or None.

        Changes not yet indexed are indexed first. Vectors come from the cache unless they are to be recomputed.
        """
        return self._syncer.verify(recompute=recompute, wait_seconds=wait_seconds, on_wait=on_wait, progress=progress)

    def status(self) -> Status:
        """Return what the index holds, as of the last sync; files changed since are not looked for."""
        with self._index.reading() as reader:
            counts, model = reader.counts(), reader.meta(MODEL_FAILURE)
            model_failure = [Failure("(model)", model)] if model else []
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
                failures=(*model_failure, *(failed.failure for failed in read_failures(reader).values())),
            )

    def _query_vector(self, text: str) -> _QueryVector:
        """Embed a question in the space that answers, if there is one yet; runs beside the scan."""
        with self._index.reading() as reader:
            space = reader.active_space()
        return space, self._models.of_space(space).embed_query(text) if space is not None else None


def _ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _stale_warnings(report: TextReport) -> list[str]:
    failed = [f"{failure.path}: {failure.reason}" for failure in report.failed]
    late = f"{report.pending} changed files are not in this answer yet: run memsync sync"
    return [*failed, late] if report.pending else failed
