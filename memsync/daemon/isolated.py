"""Run a model in its own process: its memory can be freed completely, and it can hang or crash alone."""

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
    from memsync.ports import Vector

LOAD_SECONDS = 900.0
"""How long a model may take for its first answer, which may include a download."""
ANSWER_SECONDS = 60.0
"""How long a model may take for a later answer. Then its process is killed; the next text starts a new one."""


class _Isolated:
    """A model's process, started at the first request and restarted if it has ended."""

    def __init__(self, model: str, threads: int) -> None:
        self._model = model
        self._threads = threads
        self._guard = threading.Lock()
        self._child: _Child | None = None
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

    def _running(self) -> _Child:
        with self._guard:
            if self._is_closed:
                raise EmbedderError("the model is closed", hint="Open the memory again.")
            if self._child is None or self._child.has_ended:
                self._child = _Child(self._model, self._threads)
            return self._child

    def _answered(self, child: _Child, future: Future[dict[str, Any]]) -> dict[str, Any]:
        """Wait for an answer and return it; kill a process that takes too long. Raises EmbedderError."""
        seconds = ANSWER_SECONDS if child.has_answered else LOAD_SECONDS
        try:
            answer = future.result(seconds)
        except FutureTimeout:
            child.end()
            raise EmbedderError(
                f"the model has not answered for {seconds:.0f} s and was stopped", hint="memsync will try again."
            ) from None
        if "error" in answer:
            raise error_of(answer["error"])
        return answer


class IsolatedEmbedder(_Isolated):
    """The model that `[embedder] model` names, as an Embedder that runs in another process."""

    def __init__(self, model: str, threads: int) -> None:
        super().__init__(model, threads)
        self._at_once = threads or os.cpu_count() or 1
        self._space: EmbeddingSpace | None = None

    @property
    def space(self) -> EmbeddingSpace:
        """The space of all its vectors. The process is asked once, and loads no model for it. Raises EmbedderError."""
        if self._space is None:
            child = self._running()
            self._space = EmbeddingSpace(**self._answered(child, child.ask("space", ""))["space"])
        return self._space

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Vector]:
        """Return one unit-length float32 vector per text, in order, each of shape (dimension,).

        `pause` is called before each text and may raise to stop the work. Raises EmbedderError.
        """
        vectors: list[Vector] = []
        waiting: deque[tuple[_Child, Future[dict[str, Any]]]] = deque()
        for text in texts:
            if len(waiting) >= self._at_once:
                vectors.append(self._answered(*waiting.popleft())["vector"])
            pause()  # before a process is started, since the work may be over
            child = self._running()
            waiting.append((child, child.ask("passage", text)))
        return [*vectors, *(self._answered(*request)["vector"] for request in waiting)]

    def embed_query(self, text: str) -> Vector:
        """Return one unit-length float32 vector for a question. Raises EmbedderError."""
        child = self._running()
        vector: Vector = self._answered(child, child.ask("query", text))["vector"]
        return vector


class IsolatedReranker(_Isolated):
    """The model that `[search] rerank_model` names, as a Reranker.

    Its process is not the embedding model's, so a fault in one does not affect the other.
    """

    def relevance(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return how relevant each text is to a question, from 0 to 1. Raises EmbedderError, UnknownModel."""
        child = self._running()
        relevance: list[float] = self._answered(child, child.ask("relevance", question, texts))["relevance"]
        return relevance


class _Child:
    """One run of a model's process. `has_answered` is True once the model has returned a vector or a relevance."""

    def __init__(self, model: str, threads: int) -> None:
        # -P: do not import modules from the current folder, which may contain other people's files.
        command = [sys.executable, "-P", "-m", "memsync.daemon.model_process", model, str(threads)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 (because this is the same program)
                command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            hint = "memsync will try again; free some memory or end some processes."
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
        """Send a request and return the future answer; its `vector` is a float32 array.

        `texts` are the texts to compare with the question `text`, for the kind `relevance`.
        """
        future: Future[dict[str, Any]] = Future()
        number = next(self._numbers)
        line = json.dumps({"id": number, "kind": kind, "text": text, "texts": texts}).encode() + b"\n"
        with self._guard:
            if self.has_ended:
                future.set_exception(EmbedderError("the model's process has ended", hint="memsync will try again."))
                return future
            self._asked[number] = future
        with contextlib.suppress(OSError, ValueError):  # the process has just ended; _finish sets the exception
            self._write(line)
        return future

    def _write(self, line: bytes) -> None:
        """Send a line; kill the process if it does not read it in time."""
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
        """Read answers until the output ends or an answer is incomplete."""
        import numpy as np

        try:
            while line := self._answers.readline():
                answer: dict[str, Any] = json.loads(line)
                if "bytes" in answer:
                    content = self._answers.read(answer["bytes"])
                    answer["vector"] = np.frombuffer(content, dtype=np.float32, count=answer["bytes"] // 4)
                self.has_answered = self.has_answered or "vector" in answer or "relevance" in answer
                with self._guard:
                    future = self._asked.pop(answer["id"])
                future.set_result(answer)
        except (ValueError, KeyError, OSError):
            pass
        finally:
            self._process.kill()
            self._finish()

    def _finish(self) -> None:
        """Close the pipes, and raise an error in everybody who still waits for an answer."""
        code = self._process.wait()
        with self._guard:
            self.has_ended = True
            waiting, self._asked = list(self._asked.values()), {}
        with self._writing, contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._answers.close()
        reason = f"signal {-code}" if code < 0 else f"exit code {code}"
        for future in waiting:
            future.set_exception(EmbedderError(f"the model's process ended ({reason})", hint="memsync will try again."))
