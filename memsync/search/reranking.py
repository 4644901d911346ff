"""Rerank the first hits with a cross-encoder, which reads each of them together with the question.

It runs only with `--rerank`, and its relevance is blended with the score of the hit. If the model cannot be fetched,
fails or does not answer in time, the hits stay as they were, and a warning says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout

from msgspec.structs import replace

from memsync.errors import EmbedderError, UnknownModel, sentences
from memsync.model.answer import Hit, Rank
from memsync.ports import Clock, Reranker

RERANKED = 30
"""Number of hits to rerank, unless the limit is higher."""
LOAD_PATIENCE_SECONDS = 10.0
"""How long a search in a daemon waits for a model that may have to be loaded first; only one search does."""

_LOADING = "It may still be fetched or loaded: try again later."
_TOO_SLOW = "If it is always too slow, raise [search] deadline_ms or set a smaller rerank_model."

Relevance = Callable[[Sequence[str]], Sequence[float] | None]
"""Texts -> how relevant each is to the question, from 0 to 1; None if the model failed."""


def blended(hits: Sequence[Hit], relevance: Sequence[float], weight: float) -> list[Hit]:
    """Return hits ordered by their new score, (1 - weight) × score + weight × relevance, best first.

    Adds `rerank` to the ranks of each hit: its relevance, and its rank by relevance alone. Ties keep their order.
    """
    by_relevance = sorted(range(len(hits)), key=lambda position: -relevance[position])
    ranks = {position: rank for rank, position in enumerate(by_relevance, start=1)}
    read = [
        replace(
            hit,
            score=round((1.0 - weight) * hit.score + weight * relevance[position], 6),
            ranks={**hit.ranks, "rerank": Rank(ranks[position], relevance[position])},
        )
        for position, hit in enumerate(hits)
    ]
    return sorted(read, key=lambda hit: -hit.score)


def warning_of(error: EmbedderError, consequence: str) -> str:
    """Return the warning for an answer without a model that failed, for example `…; searched by words alone`."""
    return sentences(f"{error.message.rstrip('.')}; {consequence}", error.hint)


class Reranking:
    """The reranking model, made at its first use and asked with a timeout. Safe to call from several threads.

    `is_loaded` is True from its first use until `unload`.
    """

    def __init__(self, make: Callable[[], Reranker] | None, pool: ThreadPoolExecutor, clock: Clock) -> None:
        self._make = make
        self._pool = pool
        self._clock = clock
        self._making = threading.Lock()
        self._reranker: Reranker | None = None
        self._is_closed = False
        self._asking = threading.Lock()
        self._unanswered: Future[list[float]] | None = None
        self._has_answered = False
        self._used_at = clock.monotonic()
        self.is_loaded = False

    def relevance(
        self, question: str, texts: Sequence[str], patience: float | None, warnings: list[str]
    ) -> list[float] | None:
        """Return how relevant each text is to a question, from 0 to 1; None, with a warning, if the model fails.

        It also returns None after the timeout of `patience` seconds. Without a timeout it waits as long as the model
        takes, even while that is downloaded. Raises UnknownModel.
        """
        try:
            return self._read(question, texts) if patience is None else self._awaited(question, texts, patience)
        except UnknownModel:
            raise
        except EmbedderError as error:
            warnings.append(warning_of(error, "hits are not reranked"))
            return None

    def _awaited(self, question: str, texts: Sequence[str], patience: float) -> list[float]:
        """Ask on another thread, with a timeout.

        Only one search at a time waits for the model to load. No search waits while an earlier question has timed out
        and is still unanswered.
        """
        with self._asking:
            if self._unanswered is not None and not self._unanswered.done():
                raise EmbedderError("the reranking model has yet to answer an earlier question", hint=_LOADING)
            answer = self._pool.submit(self._read, question, texts)
            is_loading = not self._has_answered
            if is_loading:
                self._unanswered, patience = answer, max(patience, LOAD_PATIENCE_SECONDS)
        try:
            return answer.result(patience)
        except FutureTimeout:
            self._unanswered = answer
            message = f"the reranking model has not answered within {patience:g} s"
            raise EmbedderError(message, hint=_LOADING if is_loading else _TOO_SLOW) from None

    def _read(self, question: str, texts: Sequence[str]) -> list[float]:
        self._used_at = self._clock.monotonic()
        self.is_loaded = True
        try:
            relevance = self._made().relevance(question, texts)
        except EmbedderError:
            self._has_answered = False
            raise
        self._has_answered = True
        return relevance

    def _made(self) -> Reranker:
        """Return the model, making it at the first use; after `close`, close it at once."""
        with self._making:
            if self._reranker is None:
                if self._make is None:
                    raise EmbedderError("this memory has no reranking model")
                self._reranker = self._make()
                if self._is_closed:
                    self._reranker.close()
            return self._reranker

    def idle_seconds(self) -> float:
        """Return the seconds since the last reranking."""
        return self._clock.monotonic() - self._used_at

    def unload(self) -> None:
        """Free the model's memory; the next question loads it again."""
        if self._reranker is not None:
            self._reranker.unload()
        self.is_loaded = self._has_answered = False

    def close(self) -> None:
        """Close the model for good; threads that wait for it stop waiting."""
        self._is_closed = True
        if self._reranker is not None:
            self._reranker.close()
