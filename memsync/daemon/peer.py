"""One client's connection to the daemon: it reads lines and writes lines, and never delays another client."""

from __future__ import annotations

import asyncio
import logging
import select
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from memsync.client import wire

log = logging.getLogger("memsync.daemon")

SLOW_SECONDS = 20.0
"""How long a peer may take to send a request or to read an answer."""
LINGER_SECONDS = 2.0
"""How long a connection stays open after its last error message; if it closed at once, the peer might not read it."""
READ_LIMIT = wire.MAX_REQUEST_BYTES - 1
"""The limit of a connection's StreamReader, which does not count the first byte of a request."""
_BLOCK_BYTES = 65_536

Respond = Callable[[dict[str, Any], "PeerConnection"], Awaitable[dict[str, Any] | None]]


class PeerConnection:
    """Answers one peer's requests in the order in which they arrive; `respond` returns the answer to a message."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, respond: Respond) -> None:
        self._reader = reader
        self._writer = writer
        self._respond = respond
        assert isinstance(writer.transport, asyncio.Transport)
        self._transport = writer.transport
        self._transport.set_write_buffer_limits(0)  # so that drain() waits until everything is sent
        self._descriptor: int = writer.get_extra_info("socket").fileno()
        self._takes_requests = True

    async def serve(self) -> None:
        """Answer requests until the peer stops sending, hangs up, breaks a limit or reads no answer."""
        try:
            while line := await self._line():
                answer = await self._answer(line) if line.strip() else None
                if answer is not None:
                    await self._deliver(answer)
        except _BrokenLimit as error:
            await self.refuse(str(error))
        except (ConnectionError, TimeoutError):
            self._transport.abort()
        finally:
            self._writer.close()

    async def refuse(self, reason: str) -> None:
        """Tell the peer why it gets no more answers; close the sending side first, so that it can read the reason."""
        with suppress(OSError, TimeoutError):
            await self._deliver({"id": None, **wire.failure(wire.INVALID_REQUEST, reason)})
            self._writer.write_eof()
            async with asyncio.timeout(LINGER_SECONDS):
                while await self._reader.read(_BLOCK_BYTES):
                    pass
        self._writer.close()

    def notify(self, message: dict[str, Any]) -> None:
        """Send a message that the peer may miss: it gets none while it does not read the earlier ones."""
        if not self._writer.is_closing() and not self._transport.get_write_buffer_size():
            self._writer.write(wire.encode(message))

    def take_no_more(self) -> None:
        """Read nothing more; `serve` returns once the requests that have arrived are answered."""
        self._takes_requests = False
        self._transport.pause_reading()
        self._reader.feed_eof()

    def close(self) -> None:
        """Hang up at once; any answer that the peer has not read is lost."""
        self._transport.abort()

    def is_gone(self) -> bool:
        """Return whether the client has hung up; any thread may ask. Only Linux can tell before an answer is sent."""
        if self._writer.is_closing() or sys.platform != "linux":
            return self._writer.is_closing()
        poll = select.poll()
        poll.register(self._descriptor, 0)
        return any(event & select.POLLHUP for _, event in poll.poll(0))

    async def _line(self) -> bytes:
        """Return the next request; empty once no more come. Raises _BrokenLimit if it is too long or too slow."""
        first = await self._reader.read(1)  # an open connection may be silent for as long as it likes
        try:
            async with asyncio.timeout(SLOW_SECONDS):
                return first if first in (b"", b"\n") else first + await self._reader.readuntil()
        except asyncio.LimitOverrunError:
            raise _BrokenLimit(f"the request is over {wire.MAX_REQUEST_BYTES:,} bytes") from None
        except TimeoutError:
            raise _BrokenLimit(f"the request did not arrive within {SLOW_SECONDS:g} s") from None
        except asyncio.IncompleteReadError as end:  # a last request without its newline
            return first + end.partial if self._takes_requests else b""

    async def _answer(self, line: bytes) -> dict[str, Any] | None:
        try:
            message = wire.decode(line)
        except ValueError as error:
            return {"id": None, **wire.failure(wire.PARSE_ERROR, f"the line is not JSON: {error}")}
        if not isinstance(message, dict):
            reason = "a request must be one JSON object per line; batches are not supported"
            return {"id": None, **wire.failure(wire.INVALID_REQUEST, reason)}
        return await self._respond(message, self)

    async def _deliver(self, message: dict[str, Any]) -> None:
        """Send a message and wait until the peer has taken it. Raises ConnectionError, TimeoutError."""
        self._writer.write(wire.encode(message))
        async with asyncio.timeout(SLOW_SECONDS):
            await self._writer.drain()


class _BrokenLimit(Exception):
    """A request is too long or too slow."""
