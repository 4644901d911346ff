"""Serve one editor on standard input and output: messages of JSON-RPC with headers, and requests on threads."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, BinaryIO, Protocol

from memsync.client.wire import INTERNAL_ERROR, PARSE_ERROR, decode
from memsync.errors import MemsyncError, own_error
from memsync.model.text import printable

THREADS = 4
MAX_MESSAGE_BYTES = 128_000_000
CANCELLED, FAILED = -32800, -32803
_BLOCK_BYTES = 1_000_000
Message = dict[str, Any]


class Refused(Exception):
    """A request that gets an error of JSON-RPC."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Handles(Protocol):
    """What answers an editor."""

    def take(self, method: str, params: Message) -> Callable[[], Any] | None:
        """Read a message in the order of arrival, and return what computes its answer. Raises Refused."""


class Editor:
    """The editor at the other end. Any thread may send to it."""

    def __init__(self, outgoing: BinaryIO) -> None:
        self._outgoing = outgoing
        self._sending = threading.Lock()
        self._asked = 0

    def tell(self, method: str, params: Message) -> None:
        """Send a notification."""
        self.send({"method": method, "params": params})

    def ask(self, method: str, params: Message) -> None:
        """Send a request whose answer does not matter."""
        with self._sending:
            self._asked += 1
            number = f"memsync-{self._asked}"
        self.send({"id": number, "method": method, "params": params})

    def send(self, message: Message) -> None:
        """Send a message; an editor that has gone gets none."""
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        with self._sending, suppress(OSError, ValueError):
            self._outgoing.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            self._outgoing.flush()


def serve_stdio(make: Callable[[Editor], Handles]) -> int:
    """Serve until the editor says `exit` or standard input ends; return the exit code.

    Nothing else can use the two streams, because a stray byte would end it all.
    """
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return _Conversation(Editor(outgoing), make).run(incoming)


class _Conversation:
    """The messages of one editor. Each is read in order; what takes time is then answered by a thread."""

    def __init__(self, editor: Editor, make: Callable[[Editor], Handles]) -> None:
        self._editor, self._server = editor, make(editor)
        self._waiting: SimpleQueue[tuple[Any, Callable[[], Any]]] = SimpleQueue()
        self._cancelled: set[Any] = set()
        self._threads = 0
        self._is_shut_down = False

    def run(self, incoming: BinaryIO) -> int:
        """Take messages until there are no more."""
        while (body := _next_body(incoming)) is not None:
            try:
                message = decode(body)
            except ValueError as error:
                self._fail(None, PARSE_ERROR, f"not JSON: {error}")
                continue
            if isinstance(message, dict) and isinstance(message.get("method"), str):
                if message["method"] == "exit":
                    return 0 if self._is_shut_down else 1
                self._take(message.get("id"), message["method"], message.get("params"))
        return 0

    def _take(self, number: Any, method: str, params: Any) -> None:
        params = params if isinstance(params, dict) else {}
        if method == "$/cancelRequest":
            self._cancelled.add(params.get("id"))
            return
        self._is_shut_down = self._is_shut_down or method == "shutdown"
        try:
            work = self._server.take(method, params)
        except Exception as error:  # noqa: BLE001 (because one bad message must not end the conversation)
            self._failed(number, error)
            return
        if number is None or work is None:
            if number is not None:
                self._editor.send({"id": number, "result": None})
            return
        self._waiting.put((number, work))
        if self._threads < THREADS:
            self._threads += 1
            threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            number, work = self._waiting.get()
            try:
                if number in self._cancelled:
                    raise Refused(CANCELLED, "cancelled")
                result = work()
                self._editor.send({"id": number, "result": result})
            except Exception as error:  # noqa: BLE001 (as above)
                self._failed(number, error)
            self._cancelled.discard(number)

    def _failed(self, number: Any, error: Exception) -> None:
        if isinstance(error, Refused):
            self._fail(number, error.code, str(error))
        elif isinstance(error, MemsyncError):
            self._fail(number, FAILED, error.sentences())
        else:
            self._fail(number, INTERNAL_ERROR, own_error(error).message)

    def _fail(self, number: Any, code: int, text: str) -> None:
        if number is None:
            self._editor.tell("window/logMessage", {"type": 1, "message": printable(text)})
        else:
            self._editor.send({"id": number, "error": {"code": code, "message": printable(text)}})


def _next_body(incoming: BinaryIO) -> bytes | None:
    """Return the next message, None after the last one; one that is too long is left out."""
    while True:
        length = -1
        while (header := incoming.readline(1_000)) not in (b"\r\n", b"\n"):
            if not header:
                return None
            name, _, value = header.partition(b":")
            if name.strip().lower() == b"content-length" and value.strip().isdigit():
                length = int(value)
        if 0 <= length <= MAX_MESSAGE_BYTES:
            body = incoming.read(length)
            return body if len(body) == length else None
        while length > 0 and (block := incoming.read(min(length, _BLOCK_BYTES))):
            length -= len(block)
