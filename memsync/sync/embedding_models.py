"""The embedding models in use: the configured one, and while its space is being built, the one that still answers."""

from __future__ import annotations

import threading
from collections.abc import Callable

from memsync.errors import EmbedderError
from memsync.model.query import EmbeddingSpace
from memsync.ports import Clock, Embedder
from memsync.sync.clock import SYSTEM_CLOCK


class EmbeddingModels:
    """Makes each embedder once, at its first use. Safe to call from several threads."""

    def __init__(
        self,
        configured: Callable[[], Embedder],
        of_space: Callable[[EmbeddingSpace], Embedder],
        clock: Clock = SYSTEM_CLOCK,
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
        """Return the model that the settings name. Raises EmbedderError."""
        with self._lock:
            if self._configured is None:
                self._configured = self._kept(self._make_configured())
            self._by_space.setdefault(self._configured.space.name, self._configured)
            self._failure = ""
            return self._configured

    def complaint(self, space: EmbeddingSpace) -> str:
        """Return why `space` answers and not the configured model's, once `of_space` has found out; else empty."""
        with self._lock:
            if self._failure:
                return f"{self._failure}; {space.model} answers instead"
            if self._configured is not None and self._configured.space != space:
                return (
                    f"{space.model} answers until memsync sync has built the vectors of {self._configured.space.model}"
                )
            return ""

    def of_space(self, space: EmbeddingSpace) -> Embedder:
        """Return what embeds in `space`. Raises EmbedderError when that model is not to be had any more."""
        with self._lock:
            if space.name not in self._by_space:
                try:
                    self.configured()
                except EmbedderError as error:  # the space that answers may be of another model, which still works
                    self._failure = str(error)
            if space.name not in self._by_space:
                self._make_for(space)
            return self._by_space[space.name]

    def _make_for(self, space: EmbeddingSpace) -> None:
        """Make what embeds in `space`; one that turns out not to is closed, and not made for every question again."""
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
        """Remember what is to be closed; what was made while that happened is closed at once."""
        self._made.append(embedder)
        if self._is_closed:
            embedder.close()
        return embedder

    def unload(self) -> None:
        """Give back the memory of every model; each is loaded again when it is asked for something."""
        for embedder in list(self._made):  # without the lock, which whoever waits for a model that hangs may hold
            embedder.unload()
        self.is_loaded = False

    def close(self) -> None:
        """Give back every model for good; who waits for one waits no longer."""
        self._is_closed = True
        for embedder in list(self._made):
            embedder.close()
        self.is_loaded = False

    def idle_seconds(self) -> float:
        """Return for how long no model has embedded anything."""
        return self._clock.monotonic() - self._used_at

    def note_use(self) -> None:
        """Be told that a model is about to embed something."""
        self._used_at = self._clock.monotonic()
        self.is_loaded = True
