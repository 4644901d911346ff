"""A model in this process as an Embedder: one text at a time, several at once, long texts in halves."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from memsync.errors import EmbedderError
from memsync.model import EmbeddingSpace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]


class LocalModel(Protocol):
    """A loaded model; any number of threads may use it at once."""

    def embed_passage(self, text: str) -> Vector:
        """Return one vector of shape (dimension,) and any length; text beyond the model's window is not read."""

    def embed_query(self, text: str) -> Vector:
        """Return one vector for a question, as `embed_passage` does for a passage."""

    def holds(self, text: str) -> bool:
        """Return whether the model's window holds the whole text."""


class LocalEmbedder:
    """One model in this process as an Embedder.

    Texts are embedded one at a time, on as many threads as asked: a text's vector then depends on nothing else, and
    on CPUs this is as fast as any batch (docs/benchmarks.md), with neither padding nor a batch's memory.
    """

    def __init__(self, space: EmbeddingSpace, load: Callable[[], LocalModel], *, threads: int) -> None:
        """`load` is called at the first use, and again after `unload`; 0 `threads` are one for each processor."""
        self._space = space
        self._load_model = load
        self._threads = threads or os.cpu_count() or 1
        self._lock = threading.Lock()
        self._loaded: tuple[LocalModel, ThreadPoolExecutor] | None = None

    @property
    def space(self) -> EmbeddingSpace:
        """The space that all its vectors lie in."""
        return self._space

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Vector]:
        """Return one unit-length float32 vector per text, in order, each of shape (dimension,)."""
        _, pool = self._load()

        def embed(text: str) -> Vector:
            pause()
            return self._embed(self._space.passage_prefix + text)

        return list(pool.map(embed, texts))

    def embed_query(self, text: str) -> Vector:
        """Return one unit-length float32 vector for a question; what exceeds the model's window is not read."""
        model, _ = self._load()
        return self._unit(model.embed_query, self._space.query_prefix + text)

    def unload(self) -> None:
        """Give back the model's memory; texts that are being embedded keep it until they are done."""
        with self._lock:
            self._loaded = None

    def close(self) -> None:
        """Do as `unload` does: there is nothing else to give back."""
        self.unload()

    def _embed(self, text: str) -> Vector:
        """Embed a passage of any length: one that exceeds the window is the mean of its two halves."""
        import numpy as np

        model, _ = self._load()
        if len(text) < 2 or model.holds(text):
            return self._unit(model.embed_passage, text)
        middle = text.rfind(" ", 1, len(text) // 2 + 1)
        middle = middle if middle > 0 else len(text) // 2
        mean = np.mean([self._embed(half) for half in (text[:middle], text[middle:])], axis=0)
        unit: Vector = (mean / np.linalg.norm(mean)).astype(np.float32)
        return unit

    def _unit(self, embed: Callable[[str], Vector], text: str) -> Vector:
        """Return what `embed` gives for a text, brought to unit length; zeros stay zeros."""
        import numpy as np

        try:
            vector = embed(text)
        except Exception as error:
            raise EmbedderError(f"the model {self._space.model} failed: {error}") from error
        norm = float(np.linalg.norm(vector))
        return (vector / norm).astype(np.float32) if norm > 0 else vector

    def _load(self) -> tuple[LocalModel, ThreadPoolExecutor]:
        if self._loaded is not None:
            return self._loaded
        with self._lock:
            if self._loaded is None:
                model = self._load_model()
                self._loaded = (model, ThreadPoolExecutor(self._threads, thread_name_prefix="embed"))
            return self._loaded
