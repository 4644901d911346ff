"""The daemon as a process: run it, start it in the background, stop it, and compare it with the settings."""

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
from functools import partial
from typing import Any

from memsync import __version__
from memsync.client import wire
from memsync.daemon.daemon_lock import DaemonLock, daemon_lock, running
from memsync.daemon.engine import Engine
from memsync.daemon.footprint import keep_few_arenas
from memsync.daemon.isolated import IsolatedEmbedder, IsolatedReranker
from memsync.daemon.methods import DaemonAbout, RunCommand
from memsync.daemon.server import Server, where
from memsync.daemon.watch import Watcher
from memsync.errors import DaemonError, DaemonOutdated, DaemonRunning, DaemonUnavailable, MemsyncError
from memsync.memory import connect_here
from memsync.model.text import printable
from memsync.settings.load import Settings
from memsync.wiring import connect_to_daemon

log = logging.getLogger("memsync.daemon")

STOP_SECONDS = 10.0
SWITCH_SECONDS = 0.001
"""Python's thread switch interval. A search that runs next to a long parse waits for many switches."""
POLL_SECONDS = 0.02
STDERR = 2
CARE_SECONDS = 5.0
"""How often the daemon checks that its lock and its socket are still in place."""


# ---------------------------------------------------------------------------------------- the daemon


class Daemon:
    """One run of the daemon. It calls `reload` to read the settings again."""

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
        self._path = wire.socket_path(settings.index_name)
        self._until = asyncio.Event()
        self._server: Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rereading: asyncio.Task[None] | None = None
        self._must_reread = False
        self._had_terminal = os.isatty(STDERR)

    async def run(self, ready: Callable[[], None]) -> bool:
        """Serve until a signal or a request ends the daemon; return whether all threads ended in time."""
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._until.set)
        self._loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        engine = self._engine(self._settings)
        server = self._server = Server(self._path, self._about(), engine)
        engine.start()
        log.info("memsync %s serves %s as process %d", __version__, self._settings.root, os.getpid())
        care = self._loop.create_task(self._look_after_itself(server))
        try:
            await server.serve(self._until, ready)
        finally:
            care.cancel()
            stopped = await asyncio.to_thread(server.engine.stop)
            log.info("stopped" if stopped else "stopped; a thread still hangs")
        return stopped

    async def _look_after_itself(self, server: Server) -> None:
        """Restore the lock and the socket if somebody removed them; end if another daemon has taken over."""
        while True:
            await asyncio.sleep(CARE_SECONDS)
            if self._until_idle and server.idle_seconds() > 60.0 * self._settings["daemon.idle_exit_minutes"]:
                log.info("no request came for %d minutes", self._settings["daemon.idle_exit_minutes"])
                self._until.set()
                return
            try:
                if not self._lock.is_in_place():
                    self._lock.take_again()
                    log.warning("the lock was removed or replaced; locked again")
                if not server.is_reachable():
                    await server.listen_again()
                    log.warning("the socket was removed or replaced; restored")
                server.engine.health.mended("socket")
            except DaemonRunning as error:
                log.error("%s; this daemon ends", error.message)
                self._until.set()
                return
            except MemsyncError as error:
                server.engine.health.fault("socket", error.message)

    def _engine(self, settings: Settings) -> Engine:
        memory = connect_here(settings, IsolatedEmbedder, IsolatedReranker)
        return Engine(memory, partial(Watcher, settings.root), self._path, self._changed)

    def _about(self) -> DaemonAbout:
        return DaemonAbout(self._settings, self._stop, self._run_command)

    def _changed(self) -> None:
        if self._server is not None:
            self._server.changed()

    def _stop(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._until.set)

    def _hang_up(self) -> None:
        """On SIGHUP, read config.toml again; but end if the signal came because the terminal was closed."""
        if self._had_terminal and not os.isatty(STDERR):
            self._until.set()
            return
        self._must_reread = True
        if self._rereading is None or self._rereading.done():
            self._rereading = asyncio.create_task(self._reread())

    async def _reread(self) -> None:
        """Read config.toml again until no further signal has come meanwhile."""
        while self._must_reread:
            self._must_reread = False
            await self._apply_config()

    async def _apply_config(self) -> None:
        """Read config.toml again and use it; keep the old settings if it has an error."""
        assert self._server is not None
        server = self._server
        try:
            settings = self._reload()
            if (settings.root, settings.index_dir) != (self._settings.root, self._settings.index_dir):
                raise DaemonError("the memory root or the index folder has changed", hint="Run: memsync restart")
            engine = await asyncio.to_thread(self._engine, settings)
            engine.start()
        except MemsyncError as error:
            log.error("config.toml was not applied: %s", error.sentences())
            server.engine.health.fault("settings", error.message)
            return
        except Exception as error:  # noqa: BLE001 (because no error in the new settings may end the daemon)
            log.error("config.toml was not applied: %s", where(error))
            server.engine.health.fault("settings", f"config.toml was not applied: {type(error).__name__}")
            return
        self._settings = settings
        old, server.engine, server.daemon = server.engine, engine, self._about()
        await asyncio.to_thread(old.stop)
        log.info("config.toml was read again")


def serve(
    settings: Settings,
    reload: Callable[[], Settings],
    ready: Callable[[], None] = lambda: None,
    run_command: RunCommand = lambda memory, params: {},
    *,
    until_idle: bool = False,
) -> None:
    """Run the daemon of a memory root until it is stopped; `run_command` runs command lines for clients.

    With `until_idle` it also ends after `daemon.idle_exit_minutes` without a request. Raises DaemonRunning if this root
    already has a daemon.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    keep_few_arenas()
    # watchdog warns about folders created while it lists their parent; a person can do nothing about that
    warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"watchdog\.")
    threading.excepthook = _thread_died
    with daemon_lock(settings) as lock:
        try:
            stopped = asyncio.run(Daemon(settings, reload, lock, run_command, until_idle=until_idle).run(ready))
        except MemsyncError:
            raise
        except Exception as error:
            log.error("died: %s", where(error))
            raise
    if not stopped:
        logging.shutdown()
        os._exit(0)  # a hanging thread would keep the process alive; ending it is safe, since the index is crash-safe


def _thread_died(failure: threading.ExceptHookArgs) -> None:
    """Log the error that ended a thread, without its message, which may quote a note."""
    if failure.exc_value is not None:
        log.error("a thread died of %s", where(failure.exc_value))


# ------------------------------------------------------------------------------------ start and stop


def start(arguments: Sequence[str], wait_seconds: float) -> dict[str, Any]:
    """Start `memsync ARGUMENTS watch` in the background and wait until it is ready; return its description.

    Raises the error that the new process reports, or DaemonError if it ends early or is not ready in time.
    """
    reading, writing = os.pipe()
    try:
        child = _in_background(arguments, writing)
    finally:
        os.close(writing)
    try:
        return _await_ready(reading, child, wait_seconds)
    finally:
        os.close(reading)


def start_unasked(arguments: Sequence[str]) -> None:
    """Start `memsync ARGUMENTS watch` in the background, and do not wait for it. It ends when it is idle."""
    with open(os.devnull, "wb") as nowhere:
        _in_background(arguments, nowhere.fileno(), "--until-idle")


def _in_background(arguments: Sequence[str], report_to: int, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "memsync", *arguments, "watch", "--background", str(report_to), *options]
    return subprocess.Popen(  # noqa: S603 (because this is the same program)
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(report_to,),
        start_new_session=True,
    )


def _await_ready(reading: int, child: subprocess.Popen[bytes], wait_seconds: float) -> dict[str, Any]:
    os.set_blocking(reading, False)
    limit = time.monotonic() + wait_seconds
    output = b""
    while time.monotonic() < limit:
        with suppress(BlockingIOError):
            block = os.read(reading, 10_000)
            output += block
            if not block:
                break
        if output.endswith(b"\n"):
            break
        time.sleep(POLL_SECONDS)
    else:
        child.kill()
        raise DaemonError(f"the daemon did not answer within {wait_seconds:g} s", hint="See: memsync logs")
    message: dict[str, Any] = json.loads(output) if output.strip() else {}
    if "error" in message:
        child.wait()
        raise wire.error_of(message["error"])
    if "process" not in message:
        raise DaemonError("the daemon ended before it was ready", hint="See: memsync logs")
    return message


def outdated(settings: Settings) -> str:
    """Return why the running daemon does not fit these settings and this version; empty text if it fits."""
    try:
        with connect_to_daemon(settings) as client:
            is_same = client.daemon_settings == wire.daemon_settings_digest(settings)
            return "" if is_same else "the daemon runs with other settings under [daemon]"
    except DaemonOutdated as error:
        return error.message
    except DaemonUnavailable:  # it may only be busy, which is no reason to replace it
        return ""


def why_not_served(settings: Settings) -> str:
    """Return whether a daemon runs, and why it did not answer."""
    daemon = running(settings)
    if daemon is None:
        return "not running"
    if daemon.get("version", __version__) != __version__:
        state = f"running as memsync {printable(str(daemon['version']))}"
    elif not settings["daemon.use"]:
        state = "running, daemon.use is false"
    else:
        state = "running with other settings" if outdated(settings) else "running, does not answer"
    return f"{state} (process {daemon.get('process', '?')})"


def stop(settings: Settings) -> dict[str, Any] | None:
    """Stop the daemon of this index and wait until it has ended; return its description, None if none ran.

    Raises DaemonError if its process is not known yet or does not end.
    """
    daemon = running(settings)
    if daemon is None:
        return None
    process = daemon.get("process")
    if not isinstance(process, int):
        raise DaemonError(
            "a daemon is running, but its process is not known yet",
            hint=f"Try again in a moment; otherwise end the process that has {settings.index_dir}/daemon.lock open.",
        )
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)
    limit = time.monotonic() + STOP_SECONDS
    while time.monotonic() < limit:
        if running(settings) is None:
            return daemon
        time.sleep(POLL_SECONDS)
    raise DaemonError(f"process {process} does not end", hint=f"End it with: kill -9 {process}")
