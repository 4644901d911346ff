"""The daemon's socket server: it accepts connections, passes requests to an engine."""

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
from pathlib import Path
from typing import Any

from memsync.client import wire
from memsync.daemon.daemon_lock import is_in_place
from memsync.daemon.methods import Host, Request, RequestError, is_method, method_names, pool_of
from memsync.daemon.peer import READ_LIMIT, PeerConnection
from memsync.errors import DaemonError, MemsyncError, own_error
from memsync.sync.gate import Stopped
from memsync.system.user_folders import require_private

log = logging.getLogger("memsync.daemon")

MAX_CONNECTIONS = 256
WORKERS = 4
"""How many searches run at once. More are not faster on few processors, and each keeps a connection to the index."""
GREETERS = 2
STOP_SECONDS = 0.5


class DaemonServer:
    """Serves one engine on one socket."""

    def __init__(self, path: str, host: Host) -> None:
        self._path = path
        self._host = host
        self._peers: dict[PeerConnection, asyncio.Task[None]] = {}
        threads = {"quick": WORKERS, "greeting": GREETERS, "long": MAX_CONNECTIONS}
        self._pools = {name: ThreadPoolExecutor(number, name) for name, number in threads.items()}
        self._loop = asyncio.get_running_loop()
        self._stopping = False
        self._last_request = time.monotonic()
        self._inode = 0

    async def serve(self, until: asyncio.Event, ready: Callable[[], None]) -> None:
        """Answer requests until the event is set; call `ready` once clients can connect."""
        listening = bound(self._path)
        self._inode = os.lstat(self._path).st_ino
        listener = await asyncio.start_unix_server(self._connected, sock=listening, limit=READ_LIMIT)
        try:
            ready()
            await until.wait()
        finally:
            self._stopping = True
            self._host.engine.memory.syncer.gate.stop()  # a running sync ends, and its client gets an error
            listener.close()
            if self.is_reachable():
                with suppress(FileNotFoundError):
                    os.unlink(self._path)
            await self._hang_up()

    def is_reachable(self) -> bool:
        """Return whether the server's socket is still at the path where clients look for it."""
        return is_in_place(self._path, self._inode)

    def idle_seconds(self) -> float:
        """Return the seconds since the last request; 0 as long as a client is connected."""
        return 0.0 if self._peers else time.monotonic() - self._last_request

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a peer; refuse processes of other users, and more than MAX_CONNECTIONS peers."""
        peer = PeerConnection(reader, writer, self._respond)
        if not wire.is_own_user(writer.get_extra_info("socket")):
            log.warning("a process of another user was refused")
            peer.close()
            return
        is_one_too_many = len(self._peers) >= MAX_CONNECTIONS
        work = peer.refuse(f"more than {MAX_CONNECTIONS} connections at once") if is_one_too_many else peer.serve()
        self._peers[peer] = self._loop.create_task(work)
        self._peers[peer].add_done_callback(lambda _: self._peers.pop(peer))

    async def _hang_up(self) -> None:
        """Give running requests STOP_SECONDS to finish, then close every connection."""
        for peer in self._peers:
            peer.take_no_more()
        if self._peers:
            await asyncio.wait(self._peers.values(), timeout=STOP_SECONDS)
        for peer in self._peers:
            peer.close()
        await asyncio.sleep(0)
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    # ---------------------------------------------------------------------------------------- requests

    async def _respond(self, message: dict[str, Any], peer: PeerConnection) -> dict[str, Any] | None:
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

    async def _call(self, method: str, params: dict[str, Any], number: object, peer: PeerConnection) -> dict[str, Any]:
        def notify(name: str, values: dict[str, Any]) -> None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(peer.notify, {"method": name, "params": {"id": number, **values}})

        request = Request(self._host, method, params, notify, lambda: self._stopping or peer.is_gone())
        pool = self._pools[pool_of(method, params)]
        try:
            if self._stopping:
                raise Stopped
            return {"result": await self._loop.run_in_executor(pool, request.result)}
        except RequestError as error:
            return wire.failure(error.code, error.message, hint=error.hint)
        except MemsyncError as error:
            return {"error": wire.error_message(error)}
        except Stopped:
            return wire.failure(wire.STOPPING, "the daemon is stopping")
        except Exception as error:  # noqa: BLE001 (because one bad request must not end the daemon)
            log.error("%s failed: %s", method, where(error))
            failure = own_error(error, method)
            return wire.failure(wire.INTERNAL_ERROR, failure.message, hint="See memsync daemon logs.")


def bound(path: str) -> socket.socket:
    """Return a socket bound to `path`, with mode 0600 in a folder of mode 0700; replace a socket there.

    The caller must hold the daemon's lock. A daemon that has lost it notices that its socket was replaced, and ends.
    Raises DaemonError.
    """
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        require_private(folder)
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise DaemonError(f"{path} is in the way of the daemon's socket", hint="Move it away.")
            os.unlink(path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(path)
        Path(path).chmod(0o600)  # nobody can connect before listen()
        return listening
    except OSError as error:
        raise DaemonError(
            f"cannot create a socket at {path}: {error.strerror or error}", hint="Check that folder."
        ) from error


def where(error: BaseException) -> str:
    """Return the type and the place of an unexpected error, without its message, which may quote a note."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return " < ".join([type(error).__name__, *(f"{os.path.basename(f.filename)}:{f.lineno}" for f in reversed(frames))])
