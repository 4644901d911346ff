"""One client's connection to the daemon: it reads lines and writes lines, and never delays another client."""

from __future__ import annotations

import asyncio
import logging
import select
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from memsync.client import wire

log = logging.getLogger("memsync.daemon")

SLOW_SECONDS = 20.0
"""How long a peer may take to send a request or to read an answer."""
LINGER_SECONDS = 2.0
"""How long a connection stays open after its last error message; if it closed at once, the peer might not read it."""
HANGUP_SECONDS = 1.0
"""How often to check whether a peer that stopped sending is still there."""
QUEUED_REQUESTS = 16
MAX_ANSWER_BUFFER_BYTES = 8_000_000

Respond = Callable[[dict[str, Any], "Connection"], Awaitable[dict[str, Any] | None]]


class Connection(asyncio.Protocol):
    """Answers one peer's requests in the order in which they arrive; `respond` returns the answer to a message.

    `is_gone` is True once nobody reads the answers; any thread may read it.
    """

    def __init__(self, respond: Respond, peers: set[Connection], max_peers: int) -> None:
        self._respond = respond
        self._peers = peers
        self._max_peers = max_peers
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._lines: deque[bytes] = deque()
        self._task: asyncio.Task[None] | None = None
        self._slow: asyncio.TimerHandle | None = None
        self._ended = False
        self._peer_ended = False
        self._said_all = False
        self._last_words: dict[str, Any] | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._transport: asyncio.Transport | None = None
        self.is_gone = False

    # ----------------------------------------------------------------------------------- asyncio's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse processes of other users, and more than `max_peers` peers."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not wire.is_own_user(transport.get_extra_info("socket")):
            log.warning("a process of another user was refused")
            self._ended = True
            transport.abort()
            return
        self._peers.add(self)
        if len(self._peers) > self._max_peers:
            self.fail(wire.INVALID_REQUEST, f"more than {self._max_peers} connections at once")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (because asyncio fixes the name)
        """Forget the peer and drop its waiting requests."""
        self._peers.discard(self)
        self._stop_timer()
        self._can_write.set()
        self._transport = None
        self._lines.clear()
        self.is_gone = True

    def data_received(self, data: bytes) -> None:
        """Collect lines; a line that is too long or too slow ends the connection."""
        if self._ended:
            return
        self._buffer += data
        while (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._stop_timer()
            if len(line) > wire.MAX_REQUEST_BYTES:
                self._too_long()
                return
            if line.strip():
                self._lines.append(line)
        if len(self._buffer) > wire.MAX_REQUEST_BYTES:
            self._too_long()
            return
        self._work()
        self._start_timer()

    def eof_received(self) -> bool:
        """Answer the requests that the peer sent before it stopped sending, then hang up."""
        if self._buffer.strip() and not self._ended:
            self._lines.append(bytes(self._buffer))  # a last request without its newline
            self._buffer.clear()
        self._ended = self._peer_ended = True
        self._stop_timer()
        self._work()
        self._look_for_hangup()
        return True

    def pause_writing(self) -> None:
        """Hold the next answer until the peer has read the earlier ones."""
        self._can_write.clear()

    def resume_writing(self) -> None:
        """Go on answering."""
        self._can_write.set()

    # -------------------------------------------------------------------------------------------- work

    def send(self, message: dict[str, Any]) -> None:
        """Queue one message for the peer; cut the connection if too much is already waiting."""
        if self._transport is None or self._transport.is_closing() or self._said_all:
            return
        if self._transport.get_write_buffer_size() > MAX_ANSWER_BUFFER_BYTES:
            self._transport.abort()
            return
        self._transport.write(wire.encode(message))

    def fail(self, code: int, reason: str) -> None:
        """Take no more requests, answer the earlier ones, tell the peer the reason, and hang up."""
        self._ended = True
        self._buffer.clear()
        self._stop_timer()
        self._last_words = {"id": None, **wire.failure(code, reason)}
        self._work()

    def close(self) -> None:
        """Hang up once everything is sent, but after SLOW_SECONDS at the latest."""
        self._ended = True
        if self._transport is not None:
            self._transport.close()
            self._loop.call_later(SLOW_SECONDS, self._abort)

    async def finish(self) -> None:
        """Wait until all requests that have arrived are answered."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _work(self) -> None:
        """Answer the waiting requests; stop reading while too many wait."""
        if self._transport is not None and len(self._lines) >= QUEUED_REQUESTS and not self._ended:
            self._transport.pause_reading()
        if self._task is None and self._lines:
            self._task = self._loop.create_task(self._answer_all())
        elif self._task is None and self._ended:
            self._end()

    async def _answer_all(self) -> None:
        try:
            while self._lines:
                answer = await self._answer(self._lines.popleft())
                if answer is not None:
                    self.send(answer)
                if not self._can_write.is_set():
                    await asyncio.wait_for(self._can_write.wait(), SLOW_SECONDS)
        except TimeoutError:
            self._abort()
        finally:
            self._task = None
        if self._ended:
            self._end()
        elif self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self._start_timer()

    async def _answer(self, line: bytes) -> dict[str, Any] | None:
        try:
            message = wire.decode(line)
        except ValueError as error:
            return {"id": None, **wire.failure(wire.PARSE_ERROR, f"the line is not JSON: {error}")}
        if not isinstance(message, dict):
            reason = "a request must be one JSON object per line; batches are not supported"
            return {"id": None, **wire.failure(wire.INVALID_REQUEST, reason)}
        return await self._respond(message, self)

    def _end(self) -> None:
        """Hang up. After a last error message, close only the sending side first, so that the peer can read it."""
        if self._transport is None or self._last_words is None:
            self.close()
            return
        self.send(self._last_words)
        self._last_words, self._said_all = None, True
        if self._peer_ended:
            self.close()
            return
        with suppress(OSError):  # the peer has hung up
            self._transport.write_eof()
        self._transport.resume_reading()
        self._loop.call_later(LINGER_SECONDS, self.close)

    def _look_for_hangup(self) -> None:
        """Check whether a peer that stopped sending has closed the connection; only Linux can tell."""
        if sys.platform != "linux" or self._transport is None or self._transport.is_closing():
            return
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), 0)
        self.is_gone = any(event & select.POLLHUP for _, event in poll.poll(0))
        if not self.is_gone:
            self._loop.call_later(HANGUP_SECONDS, self._look_for_hangup)

    def _too_long(self) -> None:
        self.fail(wire.INVALID_REQUEST, f"the request is over {wire.MAX_REQUEST_BYTES:,} bytes")

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _start_timer(self) -> None:
        """Limit how long the rest of a request may take to arrive; do not count time in which nothing is read."""
        reads = self._transport is not None and not self._ended and self._transport.is_reading()
        if self._buffer and self._slow is None and reads:
            reason = f"the request did not arrive within {SLOW_SECONDS:g} s"
            self._slow = self._loop.call_later(SLOW_SECONDS, self.fail, wire.INVALID_REQUEST, reason)

    def _stop_timer(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None
