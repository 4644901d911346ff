"""Serve an application on loopback: the token's file, the socket, and limits for slow and idle connections."""

from __future__ import annotations

import asyncio
import errno
import re
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from memsync.errors import FilesystemError, UsageError
from memsync.system.file_lock import file_lock
from memsync.system.listener import listener
from memsync.system.user_folders import filesystem_errors, own_folder, replace_file

HOST = "127.0.0.1"
STOP_SECONDS = 2
LOCK_SECONDS = 5.0
REQUEST_SECONDS = 20.0
"""How long a client may take to send a whole request or to read an answer."""
IDLE_SECONDS = 5
"""How long a connection stays open without a request."""
MAX_CONNECTIONS = 128
ACCEPTED_AT_ONCE = 32
"""How many connections are accepted at once, before MAX_CONNECTIONS is checked."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def token_of(keep: Path, name: str) -> str:
    """Return the token that clients must send, from the file `name` in the folder `keep`; create it at the first use.

    Only its owner can read the file. Raises FilesystemError.
    """
    path = keep / name
    with filesystem_errors(f"{path} cannot be written"):
        own_folder(keep)
        if not path.exists():
            with file_lock(keep / f"{name}.lock", LOCK_SECONDS, _busy):
                if not path.exists():  # another process may have just made one
                    replace_file(str(path), secrets.token_urlsafe(32).encode())
        token = path.read_text(errors="replace").strip()
    if not re.fullmatch(r"[\w-]{32,200}", token, re.ASCII):
        raise FilesystemError(f"{path} does not contain a valid token", hint="Remove it; memsync makes a new one.")
    return token


def _busy(holder: str) -> FilesystemError:
    return FilesystemError(f"{holder} is creating the token", hint="Try again.")


def listening(port: int) -> socket.socket:
    """Return a socket that listens on loopback. Raises UsageError, which names who has the port if that is known."""
    # asyncio switches off Nagle's algorithm only for this protocol; with it each answer takes 40 ms longer.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((HOST, port))
        bound.listen()
    except OSError as error:
        bound.close()
        owner = listener(port) if error.errno == errno.EADDRINUSE else ""
        reason = f"{error.strerror}, by {owner}" if owner else error.strerror
        raise UsageError(f"port {port} cannot be used: {reason}", hint="Set another with --port.") from error
    return bound


def serve(app: App, bound: socket.socket) -> None:
    """Serve an ASGI application on a socket until SIGINT or SIGTERM."""
    config = uvicorn.Config(
        app,
        http=_Patient,
        ws="none",
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=IDLE_SECONDS,
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    _Server(config).run(sockets=[bound])


class _Server(uvicorn.Server):
    """Ends at a signal, but does not raise it again afterwards: memsync still writes its usage counts."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM while the server runs."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _Patient(H11Protocol):
    """A connection that is closed if its client is too slow, or to make room for a newer connection.

    Every process on this machine can connect, even without a token, and file descriptors are few, so idle connections
    must not lock others out. A connection whose request is being answered stays open, however long that takes.
    """

    _waits_since = 0.0
    _unsent_bytes = 0
    _watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # because asyncio's stub names the base of all transports
        """Start the client's time limit; if there are too many connections, close the one that has waited longest."""
        super().connection_made(transport)
        self._waits_since = self.loop.time()
        self._watch = self.loop.call_later(REQUEST_SECONDS, self._look)
        if len(self.connections) > MAX_CONNECTIONS:
            waiting = [other for other in self.connections if isinstance(other, _Patient) and other._is_waiting()]
            min(waiting, key=lambda other: other._waits_since).close_now()  # never empty: this one waits, too

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limit."""
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Restart the client's time limit for its next request."""
        self._waits_since = self.loop.time()
        super().on_response_complete()

    def close_now(self) -> None:
        """Close the connection and drop what is still unsent."""
        self.connections.discard(self)
        self.transport.abort()

    def _is_waiting(self) -> bool:
        """Return whether the connection waits for its client: no whole request is unanswered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body

    def _look(self) -> None:
        """Close the connection if its client took too long; otherwise check again later."""
        unsent_bytes = self.transport.get_write_buffer_size()
        takes_nothing = unsent_bytes > 0 and unsent_bytes == self._unsent_bytes
        self._unsent_bytes = unsent_bytes
        seconds_left = REQUEST_SECONDS
        if self._is_waiting():
            seconds_left += self._waits_since - self.loop.time()
        if takes_nothing or seconds_left <= 0:
            self.close_now()
        else:
            self._watch = self.loop.call_later(seconds_left, self._look)
