"""Serve MCP over HTTP, on loopback only and with a token, for clients that cannot start a process.

Web pages in the user's browser can reach loopback, too. So each request needs the token, which no page knows. The Host
header must be 127.0.0.1 or localhost, so that other names that resolve here are refused. An Origin header, which
browsers send, must name this server. The server sends no header that lets a page read an answer.

Each POST is answered on its own, as JSON: there are no sessions and no streams.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from memsync.client.wire import INVALID_REQUEST, METHOD_NOT_FOUND
from memsync.mcp_server.messages import MAX_MESSAGE_BYTES, Refused, id_of, line_of, parsed, reply
from memsync.mcp_server.protocol import BATCHES, HANDSHAKES, STATELESS, VERSION_KEY, McpServer, Peer, require_stateless
from memsync.mcp_server.stdio import MAX_CALLS
from memsync.web.serving import HOST, Receive, Scope, Send, serve

PATH = "/mcp"
TOKEN = "mcp-token"  # noqa: S105 (because it is the name of the file)
HEADER_MISMATCH = -32020
ACCEPTED = {"application/json", "application/*", "*/*"}
NO_TOKEN = "A token is needed: memsync mcp install --http"  # noqa: S105 (because it is none)
_NAMED_BY = {"tools/call": "name", "resources/read": "uri"}
"""The methods whose requests repeat a parameter in the header Mcp-Name."""
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


def serve_http(server: McpServer, bound: socket.socket, token: str) -> None:
    """Serve clients on a socket until SIGINT or SIGTERM."""
    serve(_App(server, token, bound.getsockname()[1]), bound)


class _Status(Exception):
    """A request that is refused before its message is read."""


class _App:
    """The ASGI application."""

    def __init__(self, server: McpServer, token: str, port: int) -> None:
        self._server = server
        self._expected = f"Bearer {token}"
        self._hosts = [f"{name}:{port}" for name in (HOST, "localhost")]
        self._threads = ThreadPoolExecutor(MAX_CALLS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:  # a header that is sent twice fits no check
            key = name.decode("latin-1")
            headers[key] = f"{headers[key]},{value.decode('latin-1')}" if key in headers else value.decode("latin-1")
        more, content = [(b"content-type", b"application/json")], b""
        try:
            self._check(scope, headers)
            status, answer = await self._answer(await _body(receive), headers)
            content = line_of(answer) if answer is not None else b""
        except _Status as refused:
            status, text, *more = refused.args
            content, more = f"{text}\n".encode(), [(b"content-type", b"text/plain"), *more]
        await send({"type": "http.response.start", "status": status, "headers": more if content else []})
        await send({"type": "http.response.body", "body": content})

    def _check(self, scope: Scope, headers: dict[str, str]) -> None:
        """Raise _Status unless this is a POST with a message, of the user or of one of their programs."""
        accepted = {one.partition(";")[0].strip().lower() for one in headers.get("accept", "").split(",")}
        content = headers.get("content-type", "").partition(";")[0].strip().lower()
        origins = [f"http://{host}" for host in self._hosts]
        token = headers.get("authorization", "").encode()
        for is_wrong, *refusal in (
            (not hmac.compare_digest(token, self._expected.encode()), 401, NO_TOKEN, (b"www-authenticate", b"Bearer")),
            (headers.get("host", "").lower() not in self._hosts, 421, "This server has another name."),
            (headers.get("origin", origins[0]) not in origins, 403, "A page of another site asks."),
            (scope["path"] != PATH, 404, f"Only {PATH} is here."),
            (scope["method"] != "POST", 405, "Only POST is possible.", (b"allow", b"POST")),
            (not accepted & ACCEPTED, 406, "The answer is application/json."),
            (content != "application/json", 415, "The message must be application/json."),
        ):
            if is_wrong:
                raise _Status(*refusal)

    async def _answer(self, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
        """Return the status and the answer to a message; None for an empty answer."""
        number, version = None, headers.get("mcp-protocol-version", BATCHES)  # as clients that send no header mean it
        try:
            message = parsed(body)
            number = id_of(message)
            if version not in HANDSHAKES:
                require_stateless(version)
            if number is not None:
                _require_same(message, headers, is_stateless=version == STATELESS)
        except Refused as refused:
            return 400, reply(number, error=refused.error)
        peer = Peer("" if version == STATELESS else version)
        if self._server.is_quick(message):
            answer = self._server.answer(message, peer)
        else:
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, self._server.answer, message, peer)
        error = answer.get("error") if isinstance(answer, dict) else None
        if error and (version == STATELESS or error["code"] == INVALID_REQUEST):
            return 404 if error["code"] == METHOD_NOT_FOUND else 400, answer
        return 200 if answer is not None else 202, answer


def _require_same(message: dict[str, Any], headers: dict[str, str], *, is_stateless: bool) -> None:
    """Raise Refused unless the headers of a request that has its version with it say what its message says."""
    method, params = message.get("method"), message.get("params")
    params = params if isinstance(params, dict) else {}
    meta = params.get("_meta")
    said = {"mcp-method": method}
    if isinstance(meta, dict) and VERSION_KEY in meta:
        said["mcp-protocol-version"] = meta[VERSION_KEY]
    elif not is_stateless:
        return
    if name := _NAMED_BY.get(str(method)):
        said["mcp-name"] = params.get(name)
    for header, value in said.items():
        if _decoded(headers.get(header)) != value:
            raise Refused(HEADER_MISMATCH, f"the header {header} does not say what the message says")


def _decoded(value: str | None) -> str | None:
    """Return the value of a header, which may be encoded if it is no plain ASCII."""
    if value is None or not (encoded := _ENCODED.fullmatch(value)):
        return value
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except ValueError:
        return None


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        part = await receive()
        body += part.get("body", b"")
        if len(body) > MAX_MESSAGE_BYTES:
            raise _Status(413, f"A message may have {MAX_MESSAGE_BYTES:,} bytes.")
        if not part.get("more_body"):
            return bytes(body)
