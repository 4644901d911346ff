"""The daemon's socket: connections in, requests to an engine, progress out."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from memsync.daemon import wire
from memsync.daemon.connection import Connection
from memsync.daemon.engine import Engine
from memsync.daemon.methods import LONG, METHODS, InvalidParams, Methods
from memsync.errors import DaemonError, DaemonRunning, MemsyncError
from memsync.sync.gate import Stopped

log = logging.getLogger("memsync.daemon")

MOST_CONNECTIONS = 256
WORKERS = 4
"""Requests answered at once. More would not be quicker on few processors, and each keeps a connection to the index."""
STOP_SECONDS = 0.5


class Server:
    """Serves one engine on one socket. The engine can be exchanged while it runs."""

    def __init__(self, path: str, methods: Methods, engine: Engine) -> None:
        self._path = path
        self.methods = methods
        self.engine = engine
        self._peers: set[Connection] = set()
        self._subscribers: dict[Connection, Any] = {}
        self._quick = ThreadPoolExecutor(WORKERS, thread_name_prefix="request")
        self._long = ThreadPoolExecutor(MOST_CONNECTIONS, thread_name_prefix="long")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told_change = False
        self._stopping = False

    async def serve(self, until: asyncio.Event, ready: Callable[[], None]) -> None:
        """Answer until the event is set; `ready` is called once clients can connect."""
        self._loop = asyncio.get_running_loop()
        listening = bound(self._path)
        server = await self._loop.create_unix_server(
            lambda: Connection(self._respond, self._peers, MOST_CONNECTIONS), sock=listening
        )
        try:
            ready()
            await until.wait()
        finally:
            self._stopping = True
            self.methods.close()
            server.close()
            with suppress(FileNotFoundError):
                os.unlink(self._path)
            await self._hang_up()

    async def _hang_up(self) -> None:
        """Let requests that are nearly answered be, then close every connection."""
        peers = list(self._peers)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(peer.finish() for peer in peers)), STOP_SECONDS)
        for peer in peers:
            peer.close()
        await asyncio.sleep(0)
        self._quick.shutdown(wait=False, cancel_futures=True)
        self._long.shutdown(wait=False, cancel_futures=True)

    # ---------------------------------------------------------------------------------------- requests

    async def _respond(self, message: dict[str, Any], peer: Connection) -> dict[str, Any] | None:
        """Return the response to one request; None to a notification, which gets none."""
        number, method, params = message.get("id"), message.get("method"), message.get("params", {})
        answer: dict[str, Any]
        if isinstance(number, (dict, list, bool)) or not isinstance(method, str) or not isinstance(params, dict):
            answer = _error(wire.INVALID_REQUEST, "a request has a method, an id, and its params as an object")
            return {"id": None, **answer}
        if method == "subscribe":
            self._subscribers[peer] = number
            answer = {"result": {"subscribed": True}}
        elif method not in METHODS:
            known = ", ".join([*METHODS, "subscribe"])
            answer = _error(wire.METHOD_NOT_FOUND, f"no such method: {method[:100]}", hint=f"Known are {known}.")
        elif self._stopping:
            answer = _error(wire.STOPPING, "the daemon is stopping")
        else:
            answer = await self._call(method, params, number, peer)
        return {"id": number, **answer} if "id" in message else None

    async def _call(self, method: str, params: dict[str, Any], number: object, peer: Connection) -> dict[str, Any]:
        assert self._loop is not None
        loop = self._loop

        def notify(name: str, about: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(peer.send, {"method": name, "params": {"id": number, **about}})

        work = partial(self.methods.answer, self.engine, method, params, notify)
        try:
            return {"result": await loop.run_in_executor(self._long if method in LONG else self._quick, work)}
        except InvalidParams as error:
            return _error(wire.INVALID_PARAMS, error.message, hint=error.hint)
        except MemsyncError as error:
            return {"error": wire.error_message(error)}
        except Stopped:
            return _error(wire.STOPPING, "the daemon is stopping")
        except Exception as error:  # noqa: BLE001 (because one bad request must not end the daemon)
            log.error("%s failed: %s", method, where(error))
            return _error(wire.INTERNAL_ERROR, f"{method} failed: {type(error).__name__}", hint="See memsync logs.")

    # ---------------------------------------------------------------------------------------- progress

    def changed(self) -> None:
        """Tell whoever subscribed that the index may have changed. Called on any thread."""
        if self._loop is not None and self._subscribers and not self._told_change:
            self._told_change = True
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        assert self._loop is not None
        self._told_change = False
        self._subscribers = {peer: number for peer, number in self._subscribers.items() if peer in self._peers}
        peers = dict(self._subscribers)

        def tell() -> None:
            from memsync.model.plain import plain

            freshness = plain(self.engine.freshness())
            for peer, number in peers.items():
                message = {"method": "progress", "params": {"id": number, "freshness": freshness}}
                assert self._loop is not None
                self._loop.call_soon_threadsafe(peer.send, message)

        with suppress(RuntimeError):
            self._quick.submit(tell)


def bound(path: str) -> socket.socket:
    """Return a socket listening at `path`, 0600 in a folder of 0700; a dead one that stands there is replaced.

    The caller holds the daemon's lock. Raises DaemonRunning when something answers there, DaemonError.
    """
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        wire.require_private(folder)
        _remove_dead(path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            listening.bind(path)
        finally:
            os.umask(mask)
        return listening
    except OSError as error:
        raise DaemonError(
            f"no socket can be made at {path}: {error.strerror or error}", hint="Check that folder."
        ) from error


def _remove_dead(path: str) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
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
    raise DaemonRunning(f"something answers at {path} already", hint="Stop it first.")


def where(error: BaseException) -> str:
    """Return an unexpected error's type and place, and not its message, which may quote a note."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return " < ".join([type(error).__name__, *(f"{os.path.basename(f.filename)}:{f.lineno}" for f in reversed(frames))])


def _error(code: int, message: str, *, hint: str = "") -> dict[str, Any]:
    return {"error": {"code": code, "message": message, **({"data": {"hint": hint}} if hint else {})}}
