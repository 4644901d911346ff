"""Rerank the first hits with a cross-encoder, which reads each of them together with the question.

It runs only with `--rerank`, and its relevance is blended with the score of the hit. If the model cannot be fetched,
fails or does not answer in time, the hits stay as they were, and a warning says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from memsync.errors import EmbedderError
from memsync.model.answer import Hit, Rank
from memsync.ports import Clock, Reranker

RERANKED = 30
"""Number of hits to rerank, unless the limit is higher."""

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


class Reranking:
    """The reranking model, made at its first use. Safe to call from several threads.

    `is_loaded` is True from its first use until `unload`.
    """

    def __init__(self, make: Callable[[], Reranker] | None, clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._making = threading.Lock()
        self._reranker: Reranker | None = None
        self._is_closed = False
        self._used_at = clock.monotonic()
        self.is_loaded = False

    def relevance(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return how relevant each text is to a question, from 0 to 1. Raises EmbedderError, UnknownModel.

        It takes as long as the model does, which may have to be downloaded.
        """
        self._used_at = self._clock.monotonic()
        self.is_loaded = True
        return self._made().relevance(question, texts)

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
        self.is_loaded = False

    def close(self) -> None:
        """Close the model for good; threads that wait for it stop waiting."""
        self._is_closed = True
        if self._reranker is not None:
            self._reranker.close()
