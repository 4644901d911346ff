"""Serve one MCP client on standard input and output: one message per line, and calls on threads of their own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, BinaryIO, Protocol

from memsync.mcp_server.messages import MAX_MESSAGE_BYTES, Refused, line_of, parsed, reply
from memsync.mcp_server.protocol import McpServer, Peer

MAX_CALLS = 16
"""How many calls run at once; others wait for them."""
LAST_SECONDS = 10.0
"""How long calls may go on after the client's last message."""


class Answers(Protocol):
    """What answers the messages of a client; `peer` is the same for all of them."""

    def is_quick(self, message: Any) -> bool:
        """Return whether a message is answered at once, before the next one is read."""

    def answer(self, message: Any, peer: Peer) -> Any:
        """Return the answer to a message; None if it needs none."""


def own_streams() -> tuple[BinaryIO, Callable[[bytes], None]]:
    """Return standard input, and what writes to standard output; a client that has gone gets nothing.

    Nothing else can use the two streams, because a stray byte would end it all.
    """
    incoming, outgoing, sending = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"), threading.Lock()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)

    def send(message: bytes) -> None:
        with sending, suppress(OSError, ValueError):
            outgoing.write(message)
            outgoing.flush()

    return incoming, send


def serve_stdio(server: McpServer) -> None:
    """Serve until standard input ends."""
    incoming, send = own_streams()
    conversation = Conversation(server, lambda answer: send(line_of(answer)))
    while line := incoming.readline(MAX_MESSAGE_BYTES + 1):
        rest = line
        while len(rest) > MAX_MESSAGE_BYTES and not rest.endswith(b"\n"):  # the end of a line that is too long
            rest = incoming.readline(MAX_MESSAGE_BYTES + 1)
        if line.strip():
            conversation.take(line)
    conversation.end()


class Conversation:
    """Answers the messages of one client. What is quick is answered at once, even while calls run."""

    def __init__(self, server: Answers, send: Callable[[Any], object]) -> None:
        self._server = server
        self._send_message = send
        self._peer = Peer()
        self._waiting: SimpleQueue[Any] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def take(self, line: bytes) -> None:
        """Answer a message, or let a thread answer it."""
        try:
            message = parsed(line)
        except Refused as refused:
            self._send(reply(None, error=refused.error))
            return
        if self._server.is_quick(message):
            self._send(self._server.answer(message, self._peer))
            return
        self._waiting.put(message)
        if len(self._threads) < MAX_CALLS:
            self._threads.append(threading.Thread(target=self._work, daemon=True))
            self._threads[-1].start()

    def end(self) -> None:
        """Wait for the calls that run."""
        limit = time.monotonic() + LAST_SECONDS
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join(max(0.0, limit - time.monotonic()))

    def _work(self) -> None:
        while (message := self._waiting.get()) is not None:
            self._send(self._server.answer(message, self._peer))

    def _send(self, answer: Any) -> None:
        if answer is not None:
            self._send_message(answer)
