"""The daemon as a process: one a memory root, started, told apart from others, stopped."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from memsync import __version__
from memsync.client import wire
from memsync.client.connection import Client
from memsync.daemon.daemon_lock import DaemonLock, daemon_lock, running
from memsync.daemon.engine import Engine
from memsync.daemon.footprint import keep_few_arenas
from memsync.daemon.isolated import IsolatedEmbedder, IsolatedReranker
from memsync.daemon.methods import DaemonAbout, RunCommand, no_command
from memsync.daemon.server import Server, where
from memsync.daemon.watch import Watcher
from memsync.errors import DaemonError, DaemonOutdated, DaemonRunning, DaemonUnavailable, MemsyncError
from memsync.settings.load import Settings
from memsync.wiring import connect_here

log = logging.getLogger("memsync.daemon")

STOP_SECONDS = 10.0
SWITCH_SECONDS = 0.001
"""How soon a thread that waits for Python gets its turn: a search beside a long parse waits for it many times."""
POLL_SECONDS = 0.02
STDERR = 2
CARE_SECONDS = 5.0
"""How often the daemon looks whether others can still find it."""


# ---------------------------------------------------------------------------------------- the daemon


class Daemon:
    """One run of the daemon. `reload` gives the settings anew when it is told to read them again."""

    def __init__(
        self,
        settings: Settings,
        reload: Callable[[], Settings],
        lock: DaemonLock,
        run_command: RunCommand,
        *,
        until_idle: bool,
    ) -> None:
        self._until_idle = until_idle
        self._run_command = run_command
        self._settings = settings
        self._lock = lock
        self._reload = reload
        self._path = wire.socket_path(str(settings.index_dir))
        self._until = asyncio.Event()
        self._server: Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reloading: asyncio.Task[None] | None = None
        self._is_to_reread = False
        self._had_terminal = os.isatty(STDERR)

    async def run(self, ready: Callable[[], None]) -> bool:
        """Serve until told to stop; return whether everything ended in time."""
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._until.set)
        self._loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        engine = self._engine(self._settings)
        server = self._server = Server(self._path, DaemonAbout(self._settings, self._stop, self._run_command), engine)
        engine.start()
        log.info("memsync %s serves %s as process %d", __version__, self._settings.root, os.getpid())
        care = self._loop.create_task(self._look_after_itself(server))
        try:
            await server.serve(self._until, ready)
        finally:
            care.cancel()
            stopped = await asyncio.to_thread(server.engine.stop)
            log.info("stopped" if stopped else "stopped; a thread was left hanging")
        return stopped

    async def _look_after_itself(self, server: Server) -> None:
        """Put back the lock and the socket when somebody removed them, or end when another daemon came in between."""
        while True:
            await asyncio.sleep(CARE_SECONDS)
            if self._until_idle and server.idle_seconds() > 60.0 * self._settings["daemon.idle_exit_minutes"]:
                log.info("nobody has asked anything for %d minutes", self._settings["daemon.idle_exit_minutes"])
                self._until.set()
                return
            try:
                if not self._lock.is_in_place():
                    self._lock.take_again()
                    log.warning("the lock was removed or replaced; it is taken again")
                if not server.is_reachable():
                    await server.listen_again()
                    log.warning("the socket was removed or replaced; it is there again")
                server.engine.health.mended("socket")
            except DaemonRunning as error:
                log.error("%s: this one ends", error.message)
                self._until.set()
                return
            except MemsyncError as error:
                server.engine.health.fault("socket", error.message)

    def _engine(self, settings: Settings) -> Engine:
        memory = connect_here(settings, IsolatedEmbedder, IsolatedReranker)
        return Engine(
            memory, lambda on_path, on_lost: Watcher(settings.root, on_path, on_lost), self._path, self._changed
        )

    def _changed(self) -> None:
        if self._server is not None:
            self._server.changed()

    def _stop(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._until.set)

    def _hang_up(self) -> None:
        """Read config.toml again; but when the signal means that the terminal is gone, end, as what ran in it does."""
        if self._had_terminal and not os.isatty(STDERR):
            self._until.set()
        else:
            self._reread()

    def _reread(self) -> None:
        assert self._loop is not None
        self._is_to_reread = True
        if self._reloading is None or self._reloading.done():
            self._reloading = self._loop.create_task(self._reread_all())

    async def _reread_all(self) -> None:
        """Read config.toml as often as told to, one time after the other."""
        while self._is_to_reread:
            self._is_to_reread = False
            await self._exchange()

    async def _exchange(self) -> None:
        """Read config.toml again and go on with what it says; with the old settings if it cannot be used."""
        assert self._server is not None
        server = self._server
        try:
            settings = self._reload()
            if (settings.root, settings.index_dir) != (self._settings.root, self._settings.index_dir):
                raise DaemonError("the root or the index moved", hint="Run: memsync restart")
            engine = await asyncio.to_thread(self._engine, settings)
            engine.start()
        except MemsyncError as error:
            log.error("config.toml is not taken over: %s", error.sentences())
            server.engine.health.fault("settings", error.message)
            return
        except Exception as error:  # noqa: BLE001 (because what serves now must go on whatever is wrong with the new)
            log.error("config.toml is not taken over: %s", where(error))
            server.engine.health.fault("settings", f"config.toml is not taken over: {type(error).__name__}")
            return
        old, server.engine, server.daemon = server.engine, engine, DaemonAbout(settings, self._stop, self._run_command)
        self._settings = settings
        await asyncio.to_thread(old.stop)
        log.info("config.toml was read again")


def serve(
    settings: Settings,
    reload: Callable[[], Settings],
    ready: Callable[[], None] = lambda: None,
    run_command: RunCommand = no_command,
    *,
    until_idle: bool = False,
) -> None:
    """Run the daemon of a memory root until told to stop; `run_command` runs command lines for clients.

    With `until_idle` it also ends when nobody has asked anything for `daemon.idle_exit_minutes`. Raises DaemonRunning
    when there is one.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    keep_few_arenas()
    # watchdog warns of a folder that came while it was listed; stderr is for what a person can do something about
    warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"watchdog\.")
    threading.excepthook = _thread_died
    with daemon_lock(settings) as lock:
        try:
            stopped = asyncio.run(_run(settings, reload, ready, lock, run_command, until_idle))
        except MemsyncError:
            raise
        except Exception as error:
            log.error("died: %s", where(error))
            raise
    if not stopped:
        logging.shutdown()
        os._exit(0)  # a hanging thread would keep the process: the index is crash-safe, and its lock is let go of


async def _run(
    settings: Settings,
    reload: Callable[[], Settings],
    ready: Callable[[], None],
    lock: DaemonLock,
    run_command: RunCommand,
    until_idle: bool,
) -> bool:
    return await Daemon(settings, reload, lock, run_command, until_idle=until_idle).run(ready)


def _thread_died(about: threading.ExceptHookArgs) -> None:
    """Log of what a thread died, without the message, which may quote a note; who needs the thread misses it."""
    if about.exc_value is not None:
        log.error("a thread died of %s", where(about.exc_value))


# ------------------------------------------------------------------------------------ start and stop


def start(arguments: Sequence[str], wait_seconds: float) -> dict[str, Any]:
    """Start `memsync ARGUMENTS watch` in the background and wait until it answers; return what it says of itself.

    Raises DaemonError with what it said when it did not come up.
    """
    reading, writing = os.pipe()
    command = [sys.executable, "-P", "-m", "memsync", *arguments, "watch", "--background", str(writing)]
    try:
        child = subprocess.Popen(  # noqa: S603 (because it is this same program)
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(writing,),
            start_new_session=True,
        )
    finally:
        os.close(writing)
    try:
        return _await_ready(reading, child, wait_seconds)
    finally:
        os.close(reading)


def start_unasked(arguments: Sequence[str]) -> None:
    """Start `memsync ARGUMENTS watch` in the background, and do not wait for it. It ends when it is idle."""
    with open(os.devnull, "wb") as nowhere:
        subprocess.Popen(  # noqa: S603 (because it is this same program)
            [
                *(sys.executable, "-P", "-m", "memsync", *arguments),
                *("watch", "--background", str(nowhere.fileno()), "--until-idle"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(nowhere.fileno(),),
            start_new_session=True,
        )


def _await_ready(reading: int, child: subprocess.Popen[bytes], wait_seconds: float) -> dict[str, Any]:
    os.set_blocking(reading, False)
    limit = time.monotonic() + wait_seconds
    said = b""
    while time.monotonic() < limit:
        with suppress(BlockingIOError):
            block = os.read(reading, 10_000)
            said += block
            if not block:
                break
        if said.endswith(b"\n"):
            break
        time.sleep(POLL_SECONDS)
    else:
        child.kill()
        raise DaemonError(f"the daemon did not answer within {wait_seconds:g} s", hint="See: memsync logs")
    message = json.loads(said) if said.strip() else {}
    if "error" in message:
        child.wait()
        raise wire.error_of(message["error"])
    if "process" not in message:
        raise DaemonError("the daemon ended before it was ready", hint="See: memsync logs")
    found: dict[str, Any] = message
    return found


def outdated(settings: Settings) -> str:
    """Return why the daemon that runs is not what these settings and this version ask for; empty if it is."""
    try:
        with Client(wire.socket_path(str(settings.index_dir)), wire.settings_digest(settings)) as client:
            is_same = client.daemon_settings == wire.daemon_settings_digest(settings)
            return "" if is_same else "the daemon runs with other settings under [daemon]"
    except DaemonOutdated as error:
        return error.message
    except DaemonUnavailable:  # it is busy, or hangs: no reason to end what it does
        return ""


def stop(settings: Settings) -> dict[str, Any] | None:
    """Stop the daemon of this index and wait until it has ended; return what it was, None when there was none.

    Raises DaemonError when it does not end.
    """
    found = running(settings)
    if found is None:
        return None
    process = found.get("process")
    if not isinstance(process, int):
        raise DaemonError(
            "a daemon runs, and its process cannot be told yet",
            hint=f"Try again in a moment; otherwise end the process that has {settings.index_dir}/daemon.lock open.",
        )
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)
    limit = time.monotonic() + STOP_SECONDS
    while time.monotonic() < limit:
        if running(settings) is None:
            return found
        time.sleep(POLL_SECONDS)
    raise DaemonError(f"process {process} does not end", hint=f"End it with: kill -9 {process}")
