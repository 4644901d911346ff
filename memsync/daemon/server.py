"""The daemon's socket server: it accepts connections, passes requests to an engine and sends notifications."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memsync.client import wire
from memsync.daemon.engine import Engine
from memsync.daemon.methods import DaemonAbout, Request, RequestError, freshness_of, is_method, method_names, takes_long
from memsync.daemon.peer import Connection
from memsync.errors import DaemonError, DaemonRunning, MemsyncError
from memsync.sync.gate import Stopped

log = logging.getLogger("memsync.daemon")

MAX_CONNECTIONS = 256
WORKERS = 4
"""How many searches run at once. More are not faster on few processors, and each keeps a connection to the index."""
CHEAP_WORKERS = 2
"""Threads for quick requests, which must not wait for searches: a client that gets no greeting soon gives up."""
STOP_SECONDS = 0.5
ACCEPT_TURNS = 3
"""Turns of the event loop after which a connection that was just accepted is in the set of peers."""
TELL_SECONDS = 0.5
"""How often to check, for subscribers, whether the freshness has changed without a commit of text."""


class Server:
    """Serves one engine on one socket. The engine can be replaced while the server runs."""

    def __init__(self, path: str, daemon: DaemonAbout, engine: Engine) -> None:
        self._path = path
        self.daemon = daemon
        self.engine = engine
        self._peers: set[Connection] = set()
        self._subscribers: dict[Connection, _Subscription] = {}
        self._telling: asyncio.Task[None] | None = None
        self._change = asyncio.Event()
        self._quick = ThreadPoolExecutor(WORKERS, thread_name_prefix="request")
        self._cheap = ThreadPoolExecutor(CHEAP_WORKERS, thread_name_prefix="cheap")
        self._long = ThreadPoolExecutor(MAX_CONNECTIONS, thread_name_prefix="long")
        self._loop = asyncio.get_running_loop()
        self._stopping = False
        self._last_request = time.monotonic()
        self._listener: asyncio.Server | None = None
        self._inode = 0

    async def serve(self, until: asyncio.Event, ready: Callable[[], None]) -> None:
        """Answer requests until the event is set; call `ready` once clients can connect."""
        await self._listen()
        try:
            ready()
            await until.wait()
        finally:
            self._stopping = True
            self.engine.memory.syncer.gate.stop()  # a running sync ends, and its client gets an error
            reachable = self.is_reachable()
            if self._listener is not None:
                self._listener.close()
            if reachable:
                with suppress(FileNotFoundError):
                    os.unlink(self._path)
            await self._hang_up()

    def is_reachable(self) -> bool:
        """Return whether the server's socket is still at the path where clients look for it."""
        try:
            return os.lstat(self._path).st_ino == self._inode
        except OSError:
            return False

    def idle_seconds(self) -> float:
        """Return the seconds since the last request; 0 as long as a client is connected."""
        return 0.0 if self._peers else time.monotonic() - self._last_request

    async def listen_again(self) -> None:
        """Create the socket again. Raises DaemonError if something else is at its path."""
        old = self._listener
        await self._listen()
        if old is not None:
            old.close()

    async def _listen(self) -> None:
        listening = bound(self._path)
        self._inode = os.lstat(self._path).st_ino
        self._listener = await self._loop.create_unix_server(
            lambda: Connection(self._respond, self._peers, MAX_CONNECTIONS), sock=listening
        )

    async def _hang_up(self) -> None:
        """Give running requests STOP_SECONDS to finish, then close every connection."""
        for _ in range(ACCEPT_TURNS):
            await asyncio.sleep(0)
        peers = list(self._peers)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(peer.finish() for peer in peers)), STOP_SECONDS)
        for peer in peers:
            peer.close()
        await asyncio.sleep(0)
        for pool in (self._quick, self._cheap, self._long):
            pool.shutdown(wait=False, cancel_futures=True)

    # ---------------------------------------------------------------------------------------- requests

    async def _respond(self, message: dict[str, Any], peer: Connection) -> dict[str, Any] | None:
        """Return the response to one request; None for a notification, which gets no response."""
        self._last_request = time.monotonic()
        number, method, params = message.get("id"), message.get("method"), message.get("params")
        has_invalid_id = isinstance(number, (dict, list, bool))
        if has_invalid_id or not isinstance(method, str):
            reason = "a request needs a method, which is text, and an id, which is text, a number or null"
            return {"id": None if has_invalid_id else number, **wire.failure(wire.INVALID_REQUEST, reason)}
        if not is_method(method):
            answer = wire.failure(
                wire.METHOD_NOT_FOUND,
                f"no such method: {method[:100]}",
                hint=f"Known methods: {', '.join(method_names())}.",
            )
        elif params is not None and not isinstance(params, dict):
            answer = wire.failure(wire.INVALID_PARAMS, "params must be an object with parameters by name")
        else:
            answer = await self._call(method, params or {}, number, peer)
        return {"id": number, **answer} if "id" in message else None

    async def _call(self, method: str, params: dict[str, Any], number: object, peer: Connection) -> dict[str, Any]:
        while not self._stopping:
            engine = self.engine
            try:
                # On the loop's thread, which also replaces engines: no engine is closed before its request begins.
                with engine.in_use():
                    result = await self._work(engine, method, params, number, peer)
            except RequestError as error:
                return wire.failure(error.code, error.message, hint=error.hint)
            except MemsyncError as error:
                return {"error": wire.error_message(error)}
            except Stopped:
                if self.engine is engine:
                    break  # otherwise new settings replaced the engine: ask the new one
            except Exception as error:  # noqa: BLE001 (because one bad request must not end the daemon)
                log.error("%s failed: %s", method, where(error))
                reason = f"{method} failed: {type(error).__name__}"
                return wire.failure(wire.INTERNAL_ERROR, reason, hint="See memsync logs.")
            else:
                if method == "subscribe":
                    self._subscribe(peer, _Subscription(number, result["freshness"]))
                return {"result": result}
        return wire.failure(wire.STOPPING, "the daemon is stopping")

    async def _work(
        self, engine: Engine, method: str, params: dict[str, Any], number: object, peer: Connection
    ) -> dict[str, Any]:
        def notify(name: str, values: dict[str, Any]) -> None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(peer.send, {"method": name, "params": {"id": number, **values}})

        def is_over() -> bool:
            return peer.is_gone or self._stopping or self.engine is not engine

        request = Request(self.daemon, engine, method, params, notify, is_over)
        long, quick = takes_long(method, params), method in ("search", "answer_request", "embed_question", "command")
        pool = self._long if long else self._quick if quick else self._cheap
        return await self._loop.run_in_executor(pool, request.result)

    # ------------------------------------------------------------------------------------ subscriptions

    def changed(self) -> None:
        """Notify subscribers soon if the freshness has changed. Any thread may call this."""
        if self._subscribers:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._change.set)

    def _subscribe(self, peer: Connection, subscription: _Subscription) -> None:
        self._subscribers[peer] = subscription
        if self._telling is None or self._telling.done():
            self._telling = self._loop.create_task(self._tell())

    async def _tell(self) -> None:
        """Send each change of freshness to all subscribers, until there are none."""
        while not self._stopping:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._change.wait(), TELL_SECONDS)
            self._change.clear()
            self._subscribers = {peer: sent for peer, sent in self._subscribers.items() if peer in self._peers}
            if not self._subscribers:
                return
            engine = self.engine
            with engine.in_use():
                freshness = await self._loop.run_in_executor(self._cheap, freshness_of, engine)
            for peer, subscription in self._subscribers.items():
                if subscription.differs(freshness):
                    subscription.freshness = freshness
                    peer.send({"method": "changed", "params": {"id": subscription.number, "freshness": freshness}})


@dataclass(slots=True)
class _Subscription:
    """A subscription: the id of its request, and the freshness that was sent last."""

    number: object
    freshness: dict[str, Any] | None

    def differs(self, freshness: dict[str, Any] | None) -> bool:
        """Return whether anything but the time of the last comparison has changed."""
        return {**(self.freshness or {}), "scanned_at": ""} != {**(freshness or {}), "scanned_at": ""}


def bound(path: str) -> socket.socket:
    """Return a socket bound to `path`, with mode 0600 in a folder of mode 0700; replace a dead socket there.

    The caller must hold the daemon's lock. Raises DaemonRunning if something answers at `path`, and DaemonError.
    """
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        wire.require_private(folder)
        _remove_dead(path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(path)
        Path(path).chmod(0o600)  # nobody can connect before listen()
        return listening
    except OSError as error:
        raise DaemonError(
            f"cannot create a socket at {path}: {error.strerror or error}", hint="Check that folder."
        ) from error


def _remove_dead(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise DaemonError(f"{path} is in the way of the daemon's socket", hint="Move it away.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except FileNotFoundError:
            return
    raise DaemonRunning(f"another process already answers at {path}", hint="Stop it first.")


def where(error: BaseException) -> str:
    """Return the type and the place of an unexpected error, without its message, which may quote a note."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return " < ".join([type(error).__name__, *(f"{os.path.basename(f.filename)}:{f.lineno}" for f in reversed(frames))])
