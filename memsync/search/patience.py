"""Wait for a model for a limited time, so that one that hangs does not hold up search after search."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from memsync.errors import EmbedderError

T = TypeVar("T")


class Patience:
    """Asks one model, on the threads of a pool. Safe to call from several threads.

    The model is silent while a question has timed out and is still unanswered.
    """

    def __init__(self, model: str, pool: ThreadPoolExecutor, advice: str = "") -> None:
        self._model = model
        self._pool = pool
        self._advice = advice
        self._unanswered: Future[Any] | None = None

    def is_silent(self) -> bool:
        """Tell whether the model has not answered an earlier question in time, and still has not."""
        return self._unanswered is not None and not self._unanswered.done()

    def ask(self, question: Callable[[], T], seconds: float | None) -> Callable[[], T]:
        """Begin to ask, and return what waits for the answer, for so many seconds (None: without a limit).

        That raises EmbedderError after the timeout, and at once if the model is silent.
        """
        answer = None if self.is_silent() else self._pool.submit(question)

        def wait() -> T:
            try:
                if answer is not None:
                    return answer.result(seconds)
            except FutureTimeout:
                self._unanswered = answer
            raise EmbedderError(f"the {self._model} does not answer", hint=self._advice)

        return wait
