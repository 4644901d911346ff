"""Serve one editor on standard input and output: messages of JSON-RPC after headers with their length."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, BinaryIO

from memsync.lsp.server import Server
from memsync.mcp_server.messages import MAX_MESSAGE_BYTES
from memsync.mcp_server.stdio import Conversation, own_streams

_BLOCK_BYTES = 1_000_000


def serve_stdio(make: Callable[[Callable[[Any], None]], Server]) -> int:
    """Serve until the editor says `exit`, or standard input ends; return the exit code. `make` gets what sends."""
    incoming, write = own_streams()

    def send(message: Any) -> None:
        body = json.dumps(message).encode()
        write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    server = make(send)
    conversation = Conversation(server, send)
    while not server.has_ended and (body := _next_body(incoming)) is not None:
        conversation.take(body)
    return 0 if server.is_shut_down else 1


def _next_body(incoming: BinaryIO) -> bytes | None:
    """Return the next message, None after the last one; of one that is too long only its beginning."""
    length = 0
    while (header := incoming.readline(_BLOCK_BYTES)) not in (b"\r\n", b"\n"):
        if not header:
            return None
        name, _, value = header.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            length = int(value)
    body = incoming.read(min(length, MAX_MESSAGE_BYTES))
    while (left := length - MAX_MESSAGE_BYTES) > 0 and (block := incoming.read(min(left, _BLOCK_BYTES))):
        length -= len(block)
    return body
