"""The process that runs a daemon's model. It reads texts from stdin and writes vectors or numbers to stdout.

    python -m memsync.daemon.model_process MODEL THREADS

A request is one line of JSON: `{"id", "kind": "space" | "query" | "passage" | "relevance", "text", "texts"}`.
An answer is one line of JSON with the request's id and one of: `error` (see client/wire.py), `space`, `relevance`
(one number for each of `texts`), or `bytes` (the length of the float32 vector that follows the line).
For `relevance`, MODEL names a reranking model; for the other kinds, an embedding model.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

from msgspec.structs import asdict

from memsync.client.wire import error_message
from memsync.errors import EmbedderError, MemsyncError
from memsync.wiring import make_embedder, make_reranker


class ModelProcess:
    """Answers requests to one model; several threads may call it at once."""

    def __init__(self, model: str, threads: int, output: BinaryIO) -> None:
        self._model = model
        self._threads = threads
        self._output = output
        self._guard = threading.Lock()
        self._loading = threading.Lock()
        self._loaded: Any = None

    def answer(self, request: dict[str, Any]) -> None:
        """Write the answer to one request."""
        try:
            kind, text = request["kind"], request["text"]
            with self._loading:
                if self._loaded is None:
                    make = make_reranker if kind == "relevance" else make_embedder
                    self._loaded = make(self._model, self._threads)
            model = self._loaded
            if kind == "relevance":
                self._write({"id": request["id"], "relevance": model.relevance(text, request["texts"])})
            elif kind == "space":
                self._write({"id": request["id"], "space": asdict(model.space)})
            else:
                vector = model.embed_query(text) if kind == "query" else model.embed_passages([text])[0]
                content = vector.tobytes()
                self._write({"id": request["id"], "bytes": len(content)}, content)
        except MemsyncError as error:
            self._write({"id": request["id"], "error": error_message(error)})
        except Exception as error:  # noqa: BLE001 (because a model may raise any error, and it must fail only this request)
            failure = EmbedderError(f"the model failed: {type(error).__name__}")
            self._write({"id": request["id"], "error": error_message(failure)})

    def _write(self, message: dict[str, Any], content: bytes = b"") -> None:
        with self._guard:
            self._output.write(json.dumps(message).encode() + b"\n" + content)
            self._output.flush()


def main() -> None:
    """Answer requests until the input ends. It ends when the daemon ends, even if the daemon was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the daemon handles Ctrl-C
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries that print to stdout would corrupt the answers
    model, threads = sys.argv[1], int(sys.argv[2])
    process = ModelProcess(model, threads, output)
    with ThreadPoolExecutor((threads or os.cpu_count() or 1) + 1) as pool:
        for line in sys.stdin.buffer:
            pool.submit(process.answer, json.loads(line))
        os._exit(0)  # nobody waits for the remaining answers


if __name__ == "__main__":
    main()
