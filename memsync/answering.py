"""From a question to a search result: how fresh the index is made first, by which model the question is embedded."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from memsync.errors import EmbedderError
from memsync.model import EmbeddingSpace, Fresh, Freshness, Mode, Query, SearchResult, WatcherState
from memsync.ports import Clock, Index, Live
from memsync.search.searcher import Searcher
from memsync.sync.indexer import TextReport
from memsync.sync.models import EmbeddingModels
from memsync.sync.syncer import Syncer

if TYPE_CHECKING:
    from memsync.ports import Vector

    _QueryVector = tuple[EmbeddingSpace | None, Vector | None]

LEAVE_TO_BACKGROUND = 64
"""Changed files which a search does not index itself, when something else is at it."""
GENERATION_POLL_SECONDS = 0.01
MODEL_PATIENCE_SECONDS = 2.0
"""How long a search in a daemon waits for the question's vector. Alone, a process may first have to load the model."""
NO_ANSWER = "the embedding model does not answer; searched by words alone"


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a search may take over what comes before it, in seconds."""

    deadline: float
    bound: float


class Answering:
    """Answers queries about the files as they are, as far as `Fresh` asks for it."""

    def __init__(
        self,
        index: Index,
        syncer: Syncer,
        searcher: Searcher,
        models: EmbeddingModels,
        limits: Limits,
        clock: Clock,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._index = index
        self._syncer = syncer
        self._searcher = searcher
        self._models = models
        self._limits = limits
        self._clock = clock
        self._pool = pool
        self._unanswered: Future[_QueryVector] | None = None
        self.live: Live | None = None

    def answer(self, query: Query, *, tokens: int | None, fresh: Fresh, generation: int) -> SearchResult:
        """See Memory.search."""
        with self._syncer.gate.searching():
            return self._answer(query, tokens, fresh, generation)

    def _answer(self, query: Query, tokens: int | None, fresh: Fresh, generation: int) -> SearchResult:
        started = time.perf_counter()
        warnings = [*query.warnings]
        by_meaning = query.mode is not Mode.KEYWORD and bool(query.text.strip())
        embedding = self._begin_embedding(query.text) if by_meaning else None
        report = self._freshen(fresh)
        warnings += [*self._await_generation(generation), *self._index.take_warnings(), *self._stale(report)]
        timings = {"scan": _ms_since(started)}
        started = time.perf_counter()
        space, vector = self._awaited(embedding, warnings) if embedding is not None else (None, None)
        if by_meaning and embedding is None:
            warnings.append(NO_ANSWER)
        timings["embed"] = _ms_since(started)
        if by_meaning and vector is None:
            query = replace(query, mode=Mode.KEYWORD)
        result = self._search(query, vector, space, tokens, warnings)
        freshness = self.freshness(report.pending)
        if freshness.pending_vectors and result.mode is not Mode.KEYWORD:
            advice = "they are being embedded" if self.live else "run memsync sync"
            warnings.append(f"{freshness.pending_vectors} passages are not searchable by meaning yet: {advice}")
        if freshness.watcher is WatcherState.DEGRADED:
            warnings.append(f"the daemon's watching is degraded: {freshness.reason}")
        return replace(
            result,
            freshness=freshness,
            warnings=(*filter(None, warnings), *result.warnings),
            timings={**timings, **result.timings},
        )

    # -------------------------------------------------------------------------------------- freshness

    def _freshen(self, fresh: Fresh) -> TextReport:
        """Index what changed, as far as `fresh` asks for it, and return what the answer will lack."""
        deadline = self._limits.deadline
        if fresh is Fresh.NONE:
            self._syncer.check_root()
            return TextReport()
        if fresh is Fresh.BOUNDED:
            if self.live is not None and self.live.watching()[0] is WatcherState.LIVE:
                self._syncer.check_root()
                self.live.catch_up(deadline)
                return TextReport()
            if self._syncer.age_seconds() <= self._limits.bound:
                self._syncer.check_root()
                return TextReport()
        report = self._syncer.refresh(deadline, most=LEAVE_TO_BACKGROUND if self.live else float("inf"))
        if report.pending and self.live is not None:
            self.live.notice()
        return report

    def _await_generation(self, generation: int) -> list[str]:
        """Wait until the index has reached a state; return a complaint if it has not within the deadline."""
        limit = self._clock.monotonic() + self._limits.deadline
        while True:
            with self._index.reading() as reader:
                reached = reader.generation()
            if reached >= generation:
                return []
            if self._clock.monotonic() >= limit:
                return [f"the index is at generation {reached}, not yet at {generation}: what came with it is missing"]
            self._clock.sleep(GENERATION_POLL_SECONDS)

    def _stale(self, report: TextReport) -> list[str]:
        failed = [f"{failure.path}: {failure.reason}" for failure in report.failed]
        advice = "they are being indexed" if self.live else "run memsync sync"
        late = f"{report.pending} changed files are not in this answer yet: {advice}"
        return [*failed, late] if report.pending else failed

    def freshness(self, pending_text: int) -> Freshness:
        """Return how current the index is, when so many changed files are known not to be in it."""
        watcher, reason = self.live.watching() if self.live else (WatcherState.NONE, "")
        with self._index.reading() as reader:
            active = reader.active_space()
            pending = reader.pending(active) if active else reader.counts().passages
            return Freshness(self._syncer.scanned_at, pending_text, pending, watcher, reason, reader.generation())

    # -------------------------------------------------------------------------------------- the question

    def _begin_embedding(self, text: str) -> Future[_QueryVector] | None:
        """Embed a question beside the scan; None while the model has yet to answer an earlier one it hangs on."""
        if self._unanswered is not None:
            if not self._unanswered.done():
                return None
            self._unanswered = None
        return self._pool.submit(self._query_vector, text)

    def _query_vector(self, text: str) -> _QueryVector:
        """Embed a question in the space that answers, if there is one yet."""
        with self._index.reading() as reader:
            space = reader.active_space()
        return space, self._models.of_space(space).embed_query(text) if space is not None else None

    def _awaited(self, embedding: Future[_QueryVector], warnings: list[str]) -> _QueryVector:
        """Return the question's vector and its space; no vector, and why in `warnings`, when words must answer."""
        found: _QueryVector = (None, None)
        try:
            found = embedding.result(MODEL_PATIENCE_SECONDS if self.live else None)
            self._syncer.embed_leftovers()
        except FutureTimeout:
            self._unanswered = embedding
            warnings.append(NO_ANSWER)
            return found
        except EmbedderError as error:
            warnings.append(f"{error}; searched by words alone" if found[1] is None else str(error))
            return found
        warnings += [self._models.complaint(found[0])] if found[0] else []
        if found[1] is None:
            advice = "the first are being computed" if self.live else "run memsync sync"
            warnings.append(f"no vectors yet: searched by words alone; {advice}")
        return found

    def _search(
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


def _ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
