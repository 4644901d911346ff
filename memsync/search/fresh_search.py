"""Answer a query: first bring the index up to date as far as required, embed the question, then search."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from memsync.errors import (
    EmbedderError,
    FilesystemError,
    IndexBusy,
    IndexReadOnly,
    MemsyncError,
    UnknownModel,
    UsageError,
    sentences,
)
from memsync.model.answer import Freshness, SearchResult
from memsync.model.note import Link
from memsync.model.query import EmbeddedQuestion, EmbeddingSpace, Query
from memsync.model.status import Failure
from memsync.model.text import count, not_shared, still_indexing
from memsync.model.vocabulary import Fresh, Mode, NotePath, WatcherState
from memsync.notes.inline import wiki_parts
from memsync.notes.links import Linked
from memsync.notes.naming import existing_folder, folder_path, titled
from memsync.ports import Clock, Index, IndexReader, Live, active_space
from memsync.search.patience import Patience
from memsync.search.reranking import Relevance, Reranking
from memsync.search.retrievals import UsageCounter
from memsync.search.searcher import AwaitNear, IndexChanged, Near, Searcher
from memsync.search.time_hints import of_its_times, without_times
from memsync.sync.embedding_models import EmbeddingModels
from memsync.sync.indexer import TextReport
from memsync.sync.syncer import Syncer

if TYPE_CHECKING:
    from memsync.ports import Vector

T = TypeVar("T")

DEADLINE_SECONDS = 2.0
"""How long a search may index changed files before it answers without the others."""
LEAVE_TO_BACKGROUND = 64
"""A search leaves more changed files than this to the daemon's background sync."""
BOUND_SECONDS = 5.0
"""Maximum age of the last comparison of files for `Fresh.BOUNDED`, without a daemon."""
BACKLOG_SECONDS = 0.5
"""How long a search whose words match nothing may look for them in files that are not indexed yet."""
NOWHERE = "//"
"""The prefix of no path."""
MAX_COMPARISONS = 3
"""How often one question compares the files if text is removed from the index between comparison and search."""
GENERATION_POLL_SECONDS = 0.01
MODEL_PATIENCE_SECONDS = 2.0
"""How long a search in a daemon waits for the question's vector. Without a daemon it waits for as long as it takes."""
RERANK_PATIENCE_SECONDS = 10.0
"""The same for the reranking model, which may have to be loaded."""
UNIT_TOLERANCE = 1e-3
"""How much the length of a question's vector may differ from 1: it was computed in float32."""
NOTHING_TO_RERANK = "reranking has no effect without a question: hits are ordered by date"
SEARCHED_BY_WORDS = "searched by words alone"
TOO_SLOW = "It may still be loading: try again later. If it is always too slow, set a smaller rerank_model."


class FreshSearch:
    """Answers queries, with an index as fresh as `Fresh` requires. A daemon sets `live`.

    `deadline` is the time in seconds to index files before a search.
    """

    def __init__(
        self,
        index: Index,
        syncer: Syncer,
        searcher: Searcher,
        models: EmbeddingModels,
        reranking: Reranking,
        *,
        deadline: float,
        clock: Clock,
        pool: ThreadPoolExecutor,
        usage: UsageCounter,
    ) -> None:
        self._index = index
        self._syncer = syncer
        self._searcher = searcher
        self._models = models
        self._reranking = reranking
        self._deadline = deadline
        self._clock = clock
        self._embedding_model = Patience("embedding model", pool)
        self._reranking_model = Patience("reranking model", pool, TOO_SLOW)
        self._usage = usage
        self._pending_text = 0
        self.live: Live | None = None

    def answer(self, query: Query) -> SearchResult:
        """Answer a query, and count it as a search unless its request says not to; see Memory.search."""
        started = time.perf_counter()
        result = self.answer_uncounted(query)
        milliseconds = (time.perf_counter() - started) * 1000
        if query.request.counted:
            self._usage.searched(query.text, milliseconds, (hit.path for hit in result.hits))
        return result

    def answer_uncounted(self, query: Query) -> SearchResult:
        """Answer a query without counting it as a search.

        Raises UsageError if the request brings a vector that is not one of its space.
        """
        with self._syncer.gate.searching():
            listing = of_its_times(query)
            if listing is not None:
                result = self._answer(listing)
                if result.hits:
                    return replace(result, explain=replace(result.explain, times=query.times))
            return self._answer(query)

    def embed(self, query: Query) -> EmbeddedQuestion:
        """Embed the text of a query in the space that searches use. Raises EmbedderError."""
        embedded = self._ask_model(partial(self._embedded, query))()
        if embedded is None:
            raise EmbedderError("no vectors yet", hint=f"First {self._syncer.advice}.")
        vector, space = embedded
        return EmbeddedQuestion(space.name, tuple(map(float, vector)))

    def compare(self) -> TextReport:
        """Index changed files, as a strict search does first, and report how many are still pending."""
        with self._syncer.gate.searching():
            return self._freshen(Fresh.STRICT)

    @contextmanager
    def as_of_now(self) -> Iterator[tuple[IndexReader, int]]:
        """Compare the files with the index, then yield a view of it and the number of changed files it lacks."""
        for comparison in range(1, MAX_COMPARISONS + 1):
            report = self.compare()
            with self._index.reading() as reader:
                if report.as_of in (None, reader.last_removal()) or comparison == MAX_COMPARISONS:
                    yield reader, report.pending
                    return

    def titled(self, name: str) -> list[NotePath]:
        """Return the notes with this title, alias or file name, or the one that a `[[link]]` in the root means.

        None if the index cannot be used.
        """
        try:
            with self.as_of_now() as (reader, _):
                if not name.startswith("[["):
                    return titled(reader.notes(), name)
                meant = Linked(reader.notes()).target(Link(*wiki_parts(name[2:-2]), 0, wiki=True), NotePath(""))
                return [NotePath(meant)] if meant else []
        except MemsyncError:
            return []

    def folders(self, root: Path, folders: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return folders as prefixes of paths, with a warning for each that is neither on disk nor indexed."""
        prefixes, warnings = [folder_path(root, folder, ()) for folder in folders], list[str]()
        if None in prefixes:
            with self._index.reading() as reader:
                known = list(reader.stamps())
            for number, folder in enumerate(folders):
                try:
                    prefixes[number] = existing_folder(root, folder, known)
                except UsageError as error:
                    warnings.append(error.sentences())
        return [NOWHERE if prefix is None else prefix for prefix in prefixes], warnings

    def _answer(self, query: Query) -> SearchResult:
        started = time.perf_counter()
        warnings, fresh = [*query.warnings], query.request.fresh
        by_meaning = query.mode is not Mode.KEYWORD and bool(query.words)  # the texts nearest to `?!` are arbitrary
        await_near = self._ask_near(query, warnings) if by_meaning else None
        report = self._freshen(fresh, query.words)
        if by_meaning and self.live is None:
            with suppress(EmbedderError):  # the model then fails at the question, too, and `await_near` reports that
                if self._syncer.embed_leftovers():  # the question was asked before there was a model to embed it
                    await_near = self._ask_near(query, warnings)
        warnings += self._await_generation(query.request.generation)
        timings = {"scan": (time.perf_counter() - started) * 1000}
        search = partial(self._search, query, await_near, warnings)
        report, result = self._as_compared(report, search, lambda: self._freshen(fresh, query.words))
        is_by_word = any("keyword" in hit.ranks for hit in result.hits)
        if report.pending and not is_by_word and query.words and self.live is not None and fresh is Fresh.STRICT:
            left = self._deadline - (time.perf_counter() - started)
            report = self._refresh(min(left, BACKLOG_SECONDS), LEAVE_TO_BACKGROUND, query.words)
            await_near = await_near if result.mode is not Mode.KEYWORD else None
            result = self._search(query, await_near, warnings)
        if not result.hits:  # a damaged index may have lost a table: check before answering "nothing"
            self._index.check(is_quick=True)
        warnings += self._stale(report)
        with self._index.reading() as reader:
            freshness = self.freshness(report.pending)
            hidden = reader.not_shared()
        warnings += not_shared(hidden)
        if freshness.pending_vectors and query.text and result.mode is not Mode.KEYWORD:
            advice = "embedding goes on" if self.live else self._syncer.advice
            passages = count(freshness.pending_vectors, "passage is", "passages are")
            warnings.append(f"{passages} not searchable by meaning yet: {advice}")
        if freshness.watcher is WatcherState.DEGRADED:
            warnings.append(f"the daemon's watching is degraded: {freshness.reason}")
        warnings += self._index.take_warnings()  # last: if the answer ends in an error, the next one has them
        explain = replace(result.explain, timings_ms={**timings, **result.explain.timings_ms})
        warnings = [*dict.fromkeys(filter(None, warnings)), *result.warnings]
        return replace(result, freshness=freshness, warnings=tuple(warnings), explain=explain, not_shared=len(hidden))

    def _as_compared(
        self, report: TextReport, search: Callable[[int | None], SearchResult], compare: Callable[[], TextReport]
    ) -> tuple[TextReport, SearchResult]:
        """Search, and compare the files again if text was removed from the index since `report`, see TextReport."""
        for _ in range(MAX_COMPARISONS - 1):
            with suppress(IndexChanged):
                return report, search(report.as_of)
            report = compare()
        return report, search(None)

    def _search(
        self, query: Query, await_near: AwaitNear | None, warnings: list[str], as_of: int | None = None
    ) -> SearchResult:
        relevance = self._relevance(query, warnings)
        try:
            return self._searcher.search(query, await_near, relevance, as_of=as_of)
        except UnknownModel:  # it is the reranking model, so a search by words would fail as well
            raise
        except EmbedderError as error:
            warnings.append(_warning_of(error, SEARCHED_BY_WORDS))
            return self._searcher.search(query, None, relevance, as_of=as_of)

    def _relevance(self, query: Query, warnings: list[str]) -> Relevance | None:
        if not query.request.rerank:
            return None
        if not query.text:
            warnings.append(NOTHING_TO_RERANK)
            return None
        question = without_times(query.text, query.times)

        def relevance(texts: Sequence[str]) -> Sequence[float] | None:
            read = partial(self._reranking.relevance, question, texts)
            try:
                return self._reranking_model.ask(read, RERANK_PATIENCE_SECONDS)() if self.live else read()
            except UnknownModel:
                raise
            except EmbedderError as error:
                warnings.append(_warning_of(error, "hits are not reranked"))
                return None

        return relevance

    # -------------------------------------------------------------------------------------- freshness

    def _freshen(self, fresh: Fresh, words: Sequence[str] = ()) -> TextReport:
        """Index changed files as far as `fresh` requires, and report those that the answer will lack.

        Without a daemon, files with the question's words come first, in case the time is too short for all.
        """
        deadline = self._deadline
        if fresh is Fresh.NONE:
            return self._known_to_be_missing()
        if fresh is Fresh.BOUNDED:
            if self.live is not None and self.live.watching()[0] is WatcherState.LIVE:
                caught_up = self.live.catch_up(deadline)
                self._syncer.gate.require_open()  # raises if the daemon is closing and will not catch up any more
                if caught_up:
                    return self._known_to_be_missing()
                deadline = 0.0  # only compare, in order to report what is missing
            elif self._syncer.age_seconds() <= BOUND_SECONDS:
                return self._known_to_be_missing()
        if self.live is not None:  # `_answer` looks for the question's words in the backlog only if nothing matches
            return self._refresh(deadline, LEAVE_TO_BACKGROUND)
        return self._refresh(deadline, float("inf"), words)

    def _refresh(self, deadline: float, max_changes: float, words: Sequence[str] = ()) -> TextReport:
        try:
            report = self._syncer.refresh(deadline, max_changes=max_changes, for_search=True, words=words)
        except (FilesystemError, IndexBusy, IndexReadOnly, EmbedderError) as error:
            # Indexing is impossible now (disk full, a lock, a standby server), but the index can still be searched.
            failed = [Failure("(index)", error.sentences())]
            report = TextReport(pending=self._syncer.scanner.compare().pending, failed=failed)
        self._pending_text = report.pending
        if self.live is not None:
            self.live.pending_text = report.pending
            if report.pending:
                self.live.notice()
        return report

    def _known_to_be_missing(self) -> TextReport:
        """Report what the last scan left pending, and unreadable files. Raises RootError if the root is lost."""
        pending = self.live.pending_text if self.live else self._pending_text
        return TextReport(pending=pending, failed=self._syncer.known_failures())

    def _await_generation(self, generation: int) -> list[str]:
        """Wait until the index has reached a generation; return a warning if it has not within the deadline."""
        limit = self._clock.monotonic() + self._deadline
        while True:
            with self._index.reading() as reader:
                reached = reader.generation()
            if reached >= generation:
                return []
            self._syncer.gate.require_open()
            if self._clock.monotonic() >= limit:
                return [f"generation {generation} is not indexed yet (now: {reached}): its changes are missing"]
            self._clock.sleep(GENERATION_POLL_SECONDS)

    def _stale(self, report: TextReport) -> list[str]:
        warnings = [*map(str, report.failed)]
        lacks = report.pending or report.has_old_dates
        advice = f" {self._syncer.advice.capitalize()}." if lacks and not self.live else ""
        if report.pending:
            files = max(len(self._syncer.scanner.scan.files), report.pending)
            warnings.append(still_indexing(report.pending, files) + advice)
        if report.has_old_dates:
            warnings.append(f"Dates are those of an earlier commit.{advice}")
        return warnings

    def freshness(self, pending_text: int) -> Freshness:
        """Return how current the index is; `pending_text` is the known number of changed files it lacks."""
        watcher, reason = self.live.watching() if self.live else (WatcherState.NONE, "")
        with self._index.reading() as reader:
            active = reader.active_space()
            pending = reader.pending(active) if active else reader.counts().passages
            return Freshness(self._syncer.scanned_at, pending_text, pending, watcher, reason, reader.generation())

    def silence(self) -> str:
        """Return a complaint while the model has not answered an earlier question; otherwise empty."""
        return "model: it does not answer a question" if self._embedding_model.is_silent() else ""

    # -------------------------------------------------------------------------------------- the question

    def _ask_model(self, question: Callable[[], T]) -> Callable[[], T]:
        return self._embedding_model.ask(question, MODEL_PATIENCE_SECONDS if self.live else None)

    def _ask_near(self, query: Query, warnings: list[str]) -> AwaitNear:
        """Start to embed the question and to search by meaning, in parallel with the comparison of files.

        Returns a function that waits for the result, None with a warning if there is none. It asks again if the notes
        spell the question in another way.
        """
        wait = self._ask_model(partial(self._near, query))

        def await_near(spelled: Query) -> Near | None:
            again = replace(spelled, request=replace(spelled.request, question=None))
            try:
                near = wait() if spelled.text == query.text else self._ask_model(partial(self._near, again))()
            except EmbedderError as error:
                warnings.append(_warning_of(error, SEARCHED_BY_WORDS))
                return None
            if near is not None:
                warnings.append(self._models.complaint(near.space))
            elif self.freshness(0).pending_vectors:  # a memory without text lacks nothing
                advice = "the first are being computed" if self.live else self._syncer.advice
                warnings.append(f"no vectors yet: {SEARCHED_BY_WORDS}; {advice}")
            return near

        return await_near

    def _near(self, query: Query) -> Near | None:
        """Embed a question and return the nearest chunks; None if there is no active space yet."""
        if (given := query.request.question) is not None:
            space = active_space(self._index)
            if space is not None and space.name == given.space:
                return self._searcher.near(query, checked_vector(given, space), space)
        found = self._embedded(query)
        return None if found is None else self._searcher.near(query, *found)

    def _embedded(self, query: Query) -> tuple[Vector, EmbeddingSpace] | None:
        """Embed a question; return its vector and space, None if there is no active space yet."""
        space = active_space(self._index)
        if space is None:
            return None
        self._models.note_use()
        return self._models.of_space(space).embed_query(without_times(query.text, query.times)), space


def _warning_of(error: EmbedderError, consequence: str) -> str:
    """Return the warning for an answer without a model that failed, for example `…; searched by words alone`."""
    return sentences(f"{error.message.rstrip('.')}; {consequence}", error.hint)


def checked_vector(embedded: EmbeddedQuestion, space: EmbeddingSpace) -> Vector:
    """Return the vector of a question in a space. Raises UsageError if it cannot be one."""
    import numpy as np

    with np.errstate(over="ignore"):
        vector = np.array(embedded.vector, dtype=np.float32)
    if vector.shape != (space.dimension,) or not abs(float(np.linalg.norm(vector)) - 1) <= UNIT_TOLERANCE:
        hint = f"Give {space.dimension} numbers of unit length, as embed_question returns them, or none."
        raise UsageError(f"vector is not a question's vector in {space.name}", hint=hint)
    return vector
