"""The embedding models in use: the configured one and, while its vectors are being built, the previous one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from memsync.errors import EmbedderError
from memsync.model.query import EmbeddingSpace
from memsync.ports import Clock, Embedder
from memsync.system import clock as system_clock


class EmbeddingModels:
    """Creates each embedder once, at its first use. Safe to call from several threads."""

    def __init__(
        self,
        configured: Callable[[], Embedder],
        of_space: Callable[[EmbeddingSpace], Embedder],
        clock: Clock = system_clock,
    ) -> None:
        self._clock = clock
        self._used_at = clock.monotonic()
        self.is_loaded = False
        self._make_configured = configured
        self._make_of_space = of_space
        self._lock = threading.RLock()
        self._made: list[Embedder] = []
        self._is_closed = False
        self._configured: Embedder | None = None
        self._by_space: dict[str, Embedder] = {}
        self._refused: set[str] = set()
        self._failure = ""

    def configured(self) -> Embedder:
        """Return the embedder of the model in the settings. Raises EmbedderError."""
        with self._lock:
            if self._configured is None:
                self._configured = self._kept(self._make_configured())
            self._by_space.setdefault(self._configured.space.name, self._configured)
            self._failure = ""
            return self._configured

    def complaint(self, space: EmbeddingSpace) -> str:
        """Return why searches use `space` instead of the configured model's space; empty if they do not.

        Call `of_space` first: only that finds out.
        """
        with self._lock:
            if self._failure:
                return f"{self._failure}; searches use {space.model} instead"
            if self._configured is not None and self._configured.space != space:
                model = self._configured.space.model
                return f"searches use {space.model} until memsync sync has built the vectors of {model}"
            return ""

    def of_space(self, space: EmbeddingSpace) -> Embedder:
        """Return the embedder for `space`. Raises EmbedderError if its model is no longer available."""
        with self._lock:
            if space.name not in self._by_space:
                try:
                    self.configured()
                except EmbedderError as error:  # `space` may be of another model, which still works
                    self._failure = str(error)
            if space.name not in self._by_space:
                self._make_for(space)
            return self._by_space[space.name]

    def _make_for(self, space: EmbeddingSpace) -> None:
        """Create the embedder for `space`. If it has another space, close it and never create it again."""
        if space.name not in self._refused:
            embedder = self._kept(self._make_of_space(space))
            try:
                if embedder.space == space:
                    self._by_space[space.name] = embedder
                    return
                self._refused.add(space.name)
            finally:
                if space.name not in self._by_space:
                    self._made.remove(embedder)
                    embedder.close()
        raise EmbedderError(f"the index was built with {space.name}, now unavailable", hint="Run: memsync sync")

    def _kept(self, embedder: Embedder) -> Embedder:
        """Register an embedder for `close`. If `close` was called meanwhile, close it at once."""
        self._made.append(embedder)
        if self._is_closed:
            embedder.close()
        return embedder

    def unload(self) -> None:
        """Free the memory of every model. Each loads again at its next use."""
        for embedder in list(self._made):  # without the lock: a thread that waits for a hanging model may hold it
            embedder.unload()
        self.is_loaded = False

    def close(self) -> None:
        """Free every model for good; threads that wait for a model stop waiting."""
        self._is_closed = True
        for embedder in list(self._made):
            embedder.close()
        self.is_loaded = False

    def idle_seconds(self) -> float:
        """Return the seconds since a model last began to embed."""
        return self._clock.monotonic() - self._used_at

    def note_use(self) -> None:
        """Record that a model is about to embed something."""
        self._used_at = self._clock.monotonic()
        self.is_loaded = True
