"""A model in a process of its own: its memory can be given back whole, and it can hang or die alone."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Any

from memsync.client.wire import error_of
from memsync.errors import EmbedderError
from memsync.model.query import EmbeddingSpace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

LOAD_SECONDS = 900.0
"""How long a model may take for its first answer: it may have to be downloaded."""
ANSWER_SECONDS = 60.0
"""How long it may take for a later one, before its process is ended and a new one begun with the next text."""


class _Isolated:
    """A model's process: begun when it is first asked, begun anew after it has ended."""

    def __init__(self, model: str, threads: int) -> None:
        self._model = model
        self._threads = threads
        self._guard = threading.Lock()
        self._child: _Child | None = None
        self._is_closed = False

    def unload(self) -> None:
        """End the process; the next text begins another."""
        with self._guard:
            child, self._child = self._child, None
        if child is not None:
            child.end()

    def close(self) -> None:
        """End the process, and begin no other."""
        with self._guard:
            self._is_closed = True
        self.unload()

    def _running(self) -> _Child:
        with self._guard:
            if self._is_closed:
                raise EmbedderError("the model is closed", hint="Open the memory again.")
            if self._child is None or self._child.has_ended:
                self._child = _Child(self._model, self._threads)
            return self._child

    def _answered(self, child: _Child, asked: Future[dict[str, Any]]) -> dict[str, Any]:
        """Return an answer; a process that gives none for too long is ended. Raises EmbedderError."""
        seconds = ANSWER_SECONDS if child.has_answered else LOAD_SECONDS
        try:
            answer = asked.result(seconds)
        except FutureTimeout:
            child.end()
            raise EmbedderError(
                f"the model has not answered for {seconds:.0f} s and was ended", hint="It is tried again."
            ) from None
        if "error" in answer:
            raise error_of(answer["error"])
        return answer


class IsolatedEmbedder(_Isolated):
    """The model that `[embedder] model` names, as an Embedder, with the model itself elsewhere."""

    def __init__(self, model: str, threads: int) -> None:
        super().__init__(model, threads)
        self._at_once = threads or os.cpu_count() or 1
        self._space: EmbeddingSpace | None = None

    @property
    def space(self) -> EmbeddingSpace:
        """The space that all its vectors lie in; asked once, without loading the model. Raises EmbedderError."""
        if self._space is None:
            child = self._running()
            self._space = EmbeddingSpace(**self._answered(child, child.ask("space", ""))["space"])
        return self._space

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Vector]:
        """Return one unit-length float32 vector per text, in order, each of shape (dimension,).

        `pause` is called before each text, and may raise to end the work. Raises EmbedderError.
        """
        vectors: list[Vector] = []
        asked: deque[tuple[_Child, Future[dict[str, Any]]]] = deque()
        for text in texts:
            if len(asked) >= self._at_once:
                vectors.append(self._answered(*asked.popleft())["vector"])
            pause()  # before a process is begun: the work may be over
            child = self._running()
            asked.append((child, child.ask("passage", text)))
        return [*vectors, *(self._answered(*one)["vector"] for one in asked)]

    def embed_query(self, text: str) -> Vector:
        """Return one unit-length float32 vector for a question. Raises EmbedderError."""
        child = self._running()
        vector: Vector = self._answered(child, child.ask("query", text))["vector"]
        return vector


class IsolatedReranker(_Isolated):
    """The model that `[search] rerank_model` names, as a Reranker, in a process apart from the embedding model's.

    So whatever becomes of it, questions are embedded as before.
    """

    def relevance(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return how relevant each text is to a question, from 0 to 1. Raises EmbedderError, UnknownModel."""
        child = self._running()
        relevance: list[float] = self._answered(child, child.ask("relevance", question, texts))["relevance"]
        return relevance


class _Child:
    """One run of a model's process. `has_answered` is True once the model itself has answered."""

    def __init__(self, model: str, threads: int) -> None:
        # -P: nothing of the folder it is started in, which may be a stranger's, is taken for a module.
        command = [sys.executable, "-P", "-m", "memsync.daemon.model_process", model, str(threads)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 (because it is this same program)
                command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            hint = "It is tried again; free memory or processes."
            raise EmbedderError(f"the model's process cannot be started: {error.strerror}", hint=hint) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._answers = os.fdopen(os.dup(self._process.stdout.fileno()), "rb")  # buffered, unlike the input
        self._process.stdout.close()
        self._writing = threading.Lock()
        self._numbers = itertools.count(1)
        self._guard = threading.Lock()
        self._asked: dict[int, Future[dict[str, Any]]] = {}
        self.has_answered = False
        self.has_ended = False
        self._thread = threading.Thread(target=self._read, name="model-answers", daemon=True)
        self._thread.start()

    def ask(self, kind: str, text: str, texts: Sequence[str] = ()) -> Future[dict[str, Any]]:
        """Send a request and return what will be its answer; `vector` in it is a float32 array.

        `texts` are those that a question is to be read with.
        """
        asked: Future[dict[str, Any]] = Future()
        number = next(self._numbers)
        line = json.dumps({"id": number, "kind": kind, "text": text, "texts": texts}).encode() + b"\n"
        with self._guard:
            if self.has_ended:
                asked.set_exception(EmbedderError("the model's process has ended", hint="It is tried again."))
                return asked
            self._asked[number] = asked
        with contextlib.suppress(OSError, ValueError):  # it has just ended: the reader says so
            self._write(line)
        return asked

    def _write(self, line: bytes) -> None:
        """Send a line; a process that does not take it is ended."""
        assert self._process.stdin is not None
        if not self._writing.acquire(timeout=ANSWER_SECONDS):
            self._process.kill()
            return
        try:
            stdin, rest = self._process.stdin.fileno(), memoryview(line)
            limit = time.monotonic() + ANSWER_SECONDS
            while rest:
                if not select.select([], [stdin], [], max(0.0, limit - time.monotonic()))[1]:
                    self._process.kill()
                    return
                rest = rest[os.write(stdin, rest) :]
        finally:
            self._writing.release()

    def end(self) -> None:
        """End the process and wait until it has ended."""
        self._process.kill()
        self._thread.join()

    def _read(self) -> None:
        """Pass answers on until there are no more; half an answer is the end, too."""
        import numpy as np

        try:
            while line := self._answers.readline():
                answer: dict[str, Any] = json.loads(line)
                if "bytes" in answer:
                    content = self._answers.read(answer["bytes"])
                    answer["vector"] = np.frombuffer(content, dtype=np.float32, count=answer["bytes"] // 4)
                self.has_answered = self.has_answered or "vector" in answer or "relevance" in answer
                with self._guard:
                    asked = self._asked.pop(answer["id"])
                asked.set_result(answer)
        except (ValueError, KeyError, OSError):
            pass
        finally:
            self._process.kill()
            self._finish()

    def _finish(self) -> None:
        """Let go of the process, and tell whoever still waits."""
        code = self._process.wait()
        with self._guard:
            self.has_ended = True
            waiting, self._asked = list(self._asked.values()), {}
        with self._writing, contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._answers.close()
        for asked in waiting:
            asked.set_exception(EmbedderError(f"the model's process ended ({_told(code)})", hint="It is tried again."))


def _told(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
