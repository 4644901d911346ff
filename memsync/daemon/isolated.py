"""Run a model in its own process: its memory can be freed completely, and it can hang or crash alone."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from typing import TYPE_CHECKING, Any

from memsync.errors import EmbedderError
from memsync.model.query import EmbeddingSpace
from memsync.system.child import Child, ChildFailed
from memsync.wiring import make_embedder, make_reranker

if TYPE_CHECKING:
    from memsync.ports import Vector

LOAD_SECONDS = 900.0
"""How long a model may take for its first answer, which may include a download."""
ANSWER_SECONDS = 60.0
"""How long a model may take for a later answer. Then its process is killed; the next text starts a new one."""
_AGAIN = "memsync will try again."


class _Isolated:
    """A model's process, started at the first request and restarted if it has ended."""

    def __init__(self, make: Callable[[str], object], model: str) -> None:
        self._model = model
        self._make = partial(make, model)
        self._at_once = os.cpu_count() or 1
        self._guard = threading.Lock()
        self._child: Child | None = None
        self._is_loaded = False
        self._is_closed = False

    def unload(self) -> None:
        """End the process; the next request starts another."""
        with self._guard:
            child, self._child = self._child, None
        if child is not None:
            child.end()

    def close(self) -> None:
        """End the process and start no other."""
        with self._guard:
            self._is_closed = True
        self.unload()

    def _ask(self, name: str, *arguments: object) -> tuple[Child, Future[Any]]:
        """Ask the running process, or a new one, so that a question need not wait for texts. Raises EmbedderError."""
        with self._guard:
            if self._is_closed:
                raise EmbedderError("the model is closed", hint="Open the memory again.")
            if self._child is None or self._child.ended:
                try:
                    self._child = Child(self._model, self._make, self._at_once + 1)
                except ChildFailed as error:
                    raise EmbedderError(f"the model's process {error}", hint=_AGAIN) from error
                self._is_loaded = False
            return self._child, self._child.ask(name, *arguments)

    def _answered(self, child: Child, future: Future[Any], *, loads: bool = True) -> Any:
        """Wait for an answer and return it; kill a process that takes too long. Raises EmbedderError.

        `loads`: the answer needs the model.
        """
        seconds = ANSWER_SECONDS if self._is_loaded else LOAD_SECONDS
        try:
            answer = future.result(seconds)
        except FutureTimeout:
            child.end()
            raise EmbedderError(
                f"the model has not answered for {seconds:.0f} s and was stopped", hint=_AGAIN
            ) from None
        except ChildFailed as error:
            raise EmbedderError(f"the model's process {error}", hint=_AGAIN) from error
        self._is_loaded = self._is_loaded or loads
        return answer


class IsolatedEmbedder(_Isolated):
    """The model that `[embedder] model` names, as an Embedder that runs in another process."""

    def __init__(self, model: str) -> None:
        super().__init__(make_embedder, model)
        self._space: EmbeddingSpace | None = None

    @property
    def space(self) -> EmbeddingSpace:
        """The space of all its vectors. The process is asked once, and loads no model for it. Raises EmbedderError."""
        if self._space is None:
            self._space = self._answered(*self._ask("space"), loads=False)
        return self._space

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Vector]:
        """Return one unit-length float32 vector per text, in order, each of shape (dimension,).

        `pause` is called before each text and may raise to stop the work. Raises EmbedderError.
        """
        vectors: list[Vector] = []
        waiting: deque[tuple[Child, Future[Any]]] = deque()
        for text in texts:
            if len(waiting) >= self._at_once:
                vectors += self._answered(*waiting.popleft())
            pause()  # before a process is started, since the work may be over
            waiting.append(self._ask("embed_passages", [text]))
        for request in waiting:
            vectors += self._answered(*request)
        return vectors

    def embed_query(self, text: str) -> Vector:
        """Return one unit-length float32 vector for a question. Raises EmbedderError."""
        vector: Vector = self._answered(*self._ask("embed_query", text))
        return vector


class IsolatedReranker(_Isolated):
    """The model that `[search] rerank_model` names, as a Reranker.

    Its process is not the embedding model's, so a fault in one does not affect the other.
    """

    def __init__(self, model: str) -> None:
        super().__init__(make_reranker, model)

    def relevance(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return how relevant each text is to a question, from 0 to 1. Raises EmbedderError, UnknownModel."""
        relevance: list[float] = self._answered(*self._ask("relevance", question, texts))
        return relevance
