"""Memory: one memory root, searched and synced in this process. What `from memsync import Memory` gives."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from memsync.answering import Answering, Limits
from memsync.calls import Answer, Calls
from memsync.errors import ODD_ERRORS, IndexDamaged, UsageError
from memsync.exchange import Exchange
from memsync.model import (
    Difference,
    Duplicates,
    EmbeddingSpace,
    Excerpt,
    Failure,
    Filters,
    Fresh,
    Mode,
    Query,
    SearchResult,
    Status,
    SyncReport,
)
from memsync.notes.chunk import ChunkLimits
from memsync.notes.files import NoteFiles
from memsync.notes.reader import NoteReader
from memsync.notes.repository import commit_in
from memsync.notes.rules import PathRules
from memsync.ports import Clock, Embedder, Index, Progress, Reranker, TokenCounter, VectorCache
from memsync.search.excerpt import read_excerpt
from memsync.search.query_syntax import parse_query
from memsync.search.reranking import Reranking
from memsync.search.searcher import Ranking, Searcher
from memsync.settings import Settings
from memsync.sync.clock import SYSTEM_CLOCK
from memsync.sync.dates import read_dates
from memsync.sync.failures import read_failures
from memsync.sync.models import EmbeddingModels
from memsync.sync.order import pending_seconds
from memsync.sync.syncer import MODEL_FAILURE, Syncer
from memsync.sync.workers import NoteWorkers
from memsync.usage import Usage

if TYPE_CHECKING:
    from memsync.acts import Acts
    from memsync.daemon.remote import RemoteMemory
    from memsync.evaluation.evaluator import Evaluator

_CHUNK_SETTINGS = ("max_tokens", "small_tokens", "run_tokens", "window_entries", "window_stride")
_RANKING_SETTINGS = (
    "keyword_weight",
    "memory_keyword_weight",
    "candidates",
    "recency",
    "recency_days",
    "importance",
    "pinned",
    "min_score",
    "rerank_weight",
)
WAIT_SECONDS = 600.0
VERIFY_WAIT_SECONDS = 5.0
"""Whoever only wants to look is told who works on the index, and does not wait until it is done."""
POOL_THREADS = 8
"""Two for each of so many searches at once; a thread is made when it is first needed."""
BUDGET_HITS = 50


class Memory(Exchange, Calls):
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
        *,
        make_reranker: Callable[[], Reranker] | None = None,
        files: NoteFiles | None = None,
        clock: Clock = SYSTEM_CLOCK,
        cache: VectorCache | None = None,
        processes: int = 1,
    ) -> None:
        """Put the parts together; `wiring.connect` and `Memory.open` are what callers use.

        Of `processes` more than 1 (0: as many as there are processors) parse notes where there are many to read.
        `syncer`, `models`, `reranking` and `answering` are what keeps the index live works with.
        """
        self.settings = settings
        self._index = index
        self._cache = cache
        self._files = files or NoteFiles(settings.root, settings["files.exclude"])
        self._reader = NoteReader(
            counter.count,
            PathRules(settings.kinds, settings.tiers),
            ChunkLimits(*(settings[f"chunks.{name}"] for name in _CHUNK_SETTINGS)),
            settings["files.max_structured_bytes"],
        )
        self.models = EmbeddingModels(make_embedder, embedder_of, clock)
        self._usage = Usage(
            settings.keep_dir, index, is_on=settings["usage.count"], keeps_queries=settings["usage.queries"]
        )
        workers, retrievals = NoteWorkers(self._reader, processes), self._usage.retrievals
        self.syncer = Syncer(
            self._files, index, self._reader, self.models, settings.index_dir, clock, workers, retrievals, cache
        )
        self._pool = ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="memsync")
        ranking = Ranking(**{name: settings[f"search.{name}"] for name in _RANKING_SETTINGS})
        searcher = Searcher(self._files, index, self._reader, counter.count, ranking)
        limits = Limits(settings["search.deadline_ms"] / 1000, settings["search.bound_ms"] / 1000)
        self.reranking = Reranking(make_reranker, self._pool, clock)
        self.answering = Answering(
            index, self.syncer, searcher, self.models, self.reranking, limits, clock, self._pool, self._usage
        )
        self._beginning = threading.Lock()
        self._acts: Acts | None = None

    @classmethod
    def open(
        cls, root: str | os.PathLike[str] | None = None, *, config: str | os.PathLike[str] | None = None
    ) -> Memory:
        """Open the memory root at `root`, or the one that `config` (or the nearest config.toml) names.

        Raises ConfigError, RootError, IndexFailure.
        """
        from memsync.settings import load_settings
        from memsync.wiring import connect_here

        return connect_here(load_settings(config=config, root=root))

    @classmethod
    def connect(
        cls, root: str | os.PathLike[str] | None = None, *, config: str | os.PathLike[str] | None = None
    ) -> RemoteMemory:
        """Return the same memory as its daemon serves it: nothing is loaded here, and searches are quick at once.

        Raises DaemonUnavailable when no daemon serves this root with these settings, ConfigError, RootError.
        """
        from memsync.settings import load_settings
        from memsync.wiring import connect_daemon

        return connect_daemon(load_settings(config=config, root=root))

    def close(self) -> None:
        """Let go of the model and the index. The memory cannot be used afterwards."""
        self._usage.flush()
        self.models.close()  # first, so that no thread goes on waiting for a model
        self.reranking.close()
        self._pool.shutdown()
        self._index.close()
        if self._cache is not None:
            self._cache.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -------------------------------------------------------------------------------------------- calls

    @property
    def acts(self) -> Acts:
        """What is behind Calls, made at its first use: searches alone need none of it."""
        with self._beginning:
            if self._acts is None:
                from memsync import acts

                files, reader = self._files, self._reader
                self._acts = acts.Acts(
                    self.settings, files, reader, self._index, self.syncer, self.answering, self._usage
                )
            return self._acts

    def answer(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Do what a method of Calls asks for, by its name. Raises MemsyncError."""
        acts = self.acts
        if acts.writes(name):  # something may have been written before the damage was met
            return acts.answer(name, arguments)
        return self._answered(lambda: acts.answer(name, arguments))

    def _answered(self, work: Callable[[], Answer]) -> Answer:
        """Return what `work` gives, asked once more if the index turns out to be damaged: by then it was begun anew."""
        try:
            return work()
        except IndexDamaged:
            return work()
        except ODD_ERRORS:
            try:
                self._index.check()
            except IndexDamaged:
                return work()
            raise

    def _ask(self, kind: type[Answer], name: str, arguments: dict[str, Any]) -> Answer:  # noqa: ARG002 (because only the socket needs the kind)
        answer: Answer = self.answer(name, arguments)
        return answer

    # ------------------------------------------------------------------------------------------- search

    def search(
        self,
        query: str | Query,
        *,
        limit: int | None = None,
        mode: Mode | str | None = None,
        filters: Filters | None = None,
        filter_pairs: Sequence[tuple[str, str]] = (),
        tokens: int | None = None,
        min_score: float | None = None,
        rerank: bool = False,
        fresh: Fresh | str = Fresh.STRICT,
        generation: int = 0,
    ) -> SearchResult:
        """Answer a question about the files as they are now.

        `query` is text in the syntax of docs/search.md, or a Query; `limit` and `mode` default to the settings;
        `filter_pairs` are filters as (name, value) of that syntax; `tokens` keeps as many hits as fit a budget of word
        pieces; `min_score` leaves out hits with a lower score; `rerank` lets a cross-encoder read the first hits, and
        if that fails, a warning says so. With `fresh` strict, changed files are
        indexed first, as far as the deadline allows; what the answer then lacks is said in `freshness` and `warnings`.
        `generation`, from a SyncReport, names a state of the index that the answer must not be older than. Raises
        UsageError, RootError, IndexFailure, and with `rerank` UnknownModel.
        """
        if fresh not in list(Fresh):
            raise UsageError(f"fresh {fresh!r} is not known", hint=f"Write {', '.join(Fresh)}.")
        if isinstance(query, str):
            query = self.parse(query, limit=limit, mode=mode, filters=filters, filter_pairs=filter_pairs, tokens=tokens)
        if min_score is not None:
            if not 0.0 <= min_score <= 1.0:
                raise UsageError(f"min_score {min_score} is not from 0 to 1", hint="Scores are probabilities.")
            query = replace(query, min_score=min_score)
        if rerank:
            query = replace(query, rerank=True)
        asked = query
        return self._answered(
            lambda: self.answering.answer(asked, tokens=tokens, fresh=Fresh(fresh), generation=generation)
        )

    def parse(
        self,
        text: str,
        *,
        limit: int | None = None,
        mode: Mode | str | None = None,
        filters: Filters | None = None,
        filter_pairs: Sequence[tuple[str, str]] = (),
        tokens: int | None = None,
    ) -> Query:
        """Return `text` as a query, not asked yet; with `tokens` and no `limit` for all that fit. Raises UsageError."""
        if limit is None:
            limit = self.settings["search.limit"] if tokens is None else BUDGET_HITS
        if limit < 1:
            raise UsageError(f"limit {limit} is not at least 1", hint="Ask for one hit or more.")
        chosen = mode or self.settings["search.mode"]
        if chosen not in list(Mode):
            raise UsageError(f"mode {chosen!r} is not known", hint=f"Write {', '.join(Mode)}.")
        filters = filters or Filters()
        query = parse_query(
            text, now=datetime.now(), limit=limit, mode=Mode(chosen), filters=filters, filter_pairs=filter_pairs
        )
        given = filters.folders  # as paths begin; those after them are as somebody typed them
        typed = query.filters.folders[len(given) :]
        folders = (*given, *self.answering.folders(self.settings.root, typed))
        return replace(query, filters=replace(query.filters, folders=folders)) if typed else query

    def get(self, location: str) -> Excerpt:
        """Return the lines that `PATH`, `PATH:LINE`, `PATH:LINE:COUNT`, `PATH:FIRST-LAST` or `PATH#heading` names.

        PATH is from the root or absolute, `.md` may be left out, or what only one note is called. Raises NoteError,
        UsageError; nothing outside the memory root is read.
        """
        found = read_excerpt(self._files, self._reader, location, self.answering.titled)
        self._usage.read([found.path])
        return found

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
        return self._answered(
            lambda: self.syncer.sync(
                wait_seconds=wait_seconds, on_wait=on_wait, accept_root=accept_root, progress=progress
            )
        )

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
        return self.syncer.rebuild(
            keep_vectors=keep_vectors, wait_seconds=wait_seconds, on_wait=on_wait, progress=progress
        )

    def duplicates(
        self,
        *,
        similarity: float = 0.95,
        limit: int = 50,
        compare_all: bool = False,
        progress: Progress = lambda what, done, total: None,
    ) -> Duplicates:
        """Return passages that stand in several notes, equal or with a cosine of `similarity` or more.

        Of more than 40,000 passages the longest are compared, unless `compare_all`; equal ones are found in any case.
        """
        from memsync.caretaker import MOST_COMPARED

        most = sys.maxsize if compare_all else MOST_COMPARED
        return self._answered(lambda: self.acts.caretaker.duplicates(similarity, limit, most, progress))

    def evaluator(self) -> Evaluator:
        """Return what asks this memory questions with known answers (docs/search.md): nothing counts as use there."""
        from memsync.evaluation.evaluator import Evaluator

        return Evaluator(self._files, self._reader, self.answering, self.parse)

    def verify(
        self,
        *,
        recompute: bool = False,
        progress: Progress | None = None,
        wait_seconds: float = VERIFY_WAIT_SECONDS,
        on_wait: Callable[[str], None] = lambda holder: None,
    ) -> Difference | None:
        """Build the index a second time from the files and return the first line in which the two differ, or None.

        Changes not yet indexed are indexed first. Vectors come from the cache unless they are to be recomputed.
        """
        return self.syncer.verify(recompute=recompute, wait_seconds=wait_seconds, on_wait=on_wait, progress=progress)

    def status(self) -> Status:
        """Return what the index holds, as of the last sync; files changed since are not looked for."""
        return self._answered(self._status)

    def _status(self) -> Status:
        with self._index.reading() as reader:
            counts, model, dates = reader.counts(), reader.meta(MODEL_FAILURE), read_dates(reader)
            model_failure = [Failure("(model)", model)] if model else []
            return Status(
                root=str(self.settings.root),
                index_path=str(self.settings.index_dir),
                notes=counts.notes,
                chunks=counts.chunks,
                passages=counts.passages,
                vectors=counts.vectors,
                pending_vectors=counts.pending,
                pending_seconds=pending_seconds(reader, counts),
                space=counts.active_space,
                building_space=counts.building_space,
                building_pending=counts.building_pending,
                index_bytes=counts.index_bytes,
                last_sync=reader.meta("last_sync"),
                dated_by="" if dates.reason else commit_in(dates.state),
                dated_notes=reader.committed_notes(),
                undated=dates.reason,
                warnings=(
                    *(Failure("(settings)", text) for text in self.settings.warnings),
                    *(Failure(path, text) for path, text in reader.warnings()),
                ),
                failures=(*model_failure, *(failed.failure for failed in read_failures(reader).values())),
            )
