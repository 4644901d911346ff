"""Serve MCP over HTTP, on loopback only and with a token, for clients that cannot start a process.

Web pages in the user's browser can reach loopback, too. So each request needs the token, which no page knows. The Host
header must be 127.0.0.1 or localhost, so that other names that resolve here are refused. An Origin header, which
browsers send, must name this server. The server sends no header that lets a page read an answer.
"""

from __future__ import annotations

import hmac
import socket

from mcp.server.transport_security import TransportSecuritySettings

from memsync.mcp_server.memories import ServedMemories
from memsync.mcp_server.protocol import make_server
from memsync.web.serving import HOST, App, Receive, Scope, Send, serve

PATH = "/mcp"
TOKEN = "mcp-token"  # noqa: S105 (because it is the name of the file)


def serve_http(memories: ServedMemories, bound: socket.socket, token: str, *, read_only: bool) -> None:
    """Serve clients on a socket until SIGINT or SIGTERM."""
    port = bound.getsockname()[1]
    names = [f"{name}:{port}" for name in (HOST, "localhost")]
    app = make_server(memories, read_only=read_only).streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        transport_security=TransportSecuritySettings(
            allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names]
        ),
    )
    serve(_Guarded(app, token), bound)


class _Guarded:
    """Refuses every HTTP request without the token, with status 401."""

    def __init__(self, app: App, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (scope["type"] == "http" and self._is_allowed(scope)):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"A token is needed: memsync mcp install --http\n"})

    def _is_allowed(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._expected)
