"""The daemon as a process: run it, start it in the background, stop it, and compare it with the settings."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from memsync import __version__
from memsync.client import wire
from memsync.client.connection import Client
from memsync.daemon.daemon_lock import daemon_lock, running, serving
from memsync.daemon.engine import Engine
from memsync.daemon.footprint import keep_few_arenas
from memsync.daemon.isolated import IsolatedEmbedder, IsolatedReranker
from memsync.daemon.methods import Host, RunCommand
from memsync.daemon.server import DaemonServer, where
from memsync.daemon.startup import reported
from memsync.daemon.watch import Watcher
from memsync.errors import DaemonError, DaemonOutdated, DaemonUnavailable, MemsyncError
from memsync.memory import Parts, Through, open_memory
from memsync.model.text import printable
from memsync.settings.load import Settings
from memsync.sync.without_daemon import WAIT_SECONDS, without_daemon
from memsync.system.user_folders import socket_path, stamp_of

log = logging.getLogger("memsync.daemon")

SWITCH_SECONDS = 0.001
"""Python's thread switch interval. A search that runs next to a long parse waits for many switches."""
STDERR = 2
IDLE_EXIT_MINUTES = 120
"""Minutes without a request after which a daemon that a command started by itself ends."""
CHECK_SECONDS = 1.0
"""How often the daemon checks its lock, its socket and its settings."""


# ---------------------------------------------------------------------------------------- the daemon


class Daemon:
    """One run of the daemon. Lock, socket and settings are fixed for one run.

    If its lock or its socket is not in place any more, a thread has died, or its settings have changed, the run ends
    and `begins_anew` is True: `serve` then begins another run with what holds now, or ends if another daemon has taken
    the place.
    """

    def __init__(
        self, settings: Settings, run_command: RunCommand, has_lock: Callable[[], bool], *, until_idle: bool
    ) -> None:
        self._settings = settings
        self._run_command = run_command
        self._has_lock = has_lock
        self._until_idle = until_idle
        self._until = asyncio.Event()
        self._stamps = settings.stamps
        self._had_terminal = os.isatty(STDERR)
        self.begins_anew = False

    async def run(self, ready: Callable[[], None]) -> bool:
        """Serve until a signal, a request or a lost place ends the run; return whether all threads ended in time."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        path = socket_path(self._settings.index_name)
        memory = open_memory(self._settings, Through.HERE, parts=Parts(IsolatedEmbedder, IsolatedReranker))
        engine = Engine(memory, partial(Watcher, self._settings.root), path)
        server = DaemonServer(path, Host(engine, lambda: loop.call_soon_threadsafe(self._stop), self._run_command))
        engine.start()
        log.info("memsync %s serves %s as process %d", __version__, self._settings.root, os.getpid())
        checks = loop.create_task(self._check(server, engine))
        try:
            await server.serve(self._until, ready)
        finally:
            checks.cancel()
            stopped = await asyncio.to_thread(engine.stop)
            log.info("stopped" if stopped else "stopped; a thread still hangs")
        return stopped

    async def _check(self, server: DaemonServer, engine: Engine) -> None:
        """End the run once it is idle for too long, or if its place is lost or its settings have changed."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if self._until.is_set():  # the server has removed its socket itself
                return
            is_needed = engine.web.is_on or engine.sharer.is_on
            if self._until_idle and server.idle_seconds() > 60 * IDLE_EXIT_MINUTES and not is_needed:
                log.info("no request came for %d minutes", IDLE_EXIT_MINUTES)
                self._until.set()
            elif reason := self._why_anew(server, engine):
                log.warning("%s; the daemon begins anew", reason)
                self.begins_anew = True
                self._until.set()

    def _why_anew(self, server: DaemonServer, engine: Engine) -> str:
        """Return why the daemon has to begin anew; empty text if it need not."""
        if not self._has_lock():
            return "the lock was removed or replaced"
        if not server.is_reachable():
            return "the socket was removed or replaced"
        if engine.has_died():
            return "a thread has died"
        stamps = {path: stamp_of(path) for path in self._stamps}
        if stamps == self._stamps:
            return ""
        self._stamps = stamps
        try:
            settings = self._settings.load_again()
        except MemsyncError as error:  # every request is refused until they are mended
            engine.health.fault("settings", error)
            return ""
        engine.health.mended("settings")
        has_changed = (settings.values, settings.decisive()) != (self._settings.values, self._settings.decisive())
        return "the settings have changed" if has_changed else ""

    def _stop(self) -> None:
        self.begins_anew = False
        self._until.set()

    def _hang_up(self) -> None:
        """On SIGHUP, end if the signal came because the terminal was closed."""
        if self._had_terminal and not os.isatty(STDERR):
            self._until.set()


def serve(
    settings: Settings,
    ready: Callable[[], None] = lambda: None,
    run_command: RunCommand = lambda *command, **look: {},
    *,
    until_idle: bool = False,
) -> None:
    """Run the daemon of a memory root until it is stopped; `run_command` runs command lines for clients.

    With `until_idle` it also ends after IDLE_EXIT_MINUTES without a request. Raises DaemonRunning if this root
    already has a daemon.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    keep_few_arenas()
    # watchdog warns about folders created while it lists their parent; a person can do nothing about that
    warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"watchdog\.")
    threading.excepthook = _thread_died
    while True:
        with daemon_lock(settings) as has_lock:
            folder = settings.index_dir
            # The lock is kept from one run to the next: a command that looks for the daemon meanwhile must find one.
            while settings.index_dir == folder and has_lock():
                if not _run_once(Daemon(settings, run_command, has_lock, until_idle=until_idle), ready):
                    return
                settings, ready = settings.load_again(), lambda: None


def _run_once(daemon: Daemon, ready: Callable[[], None]) -> bool:
    """Return whether another run is to follow; end the process if a thread of this one hangs."""
    try:
        stopped = asyncio.run(daemon.run(ready))
    except MemsyncError:
        raise
    except Exception as error:
        log.error("died: %s", where(error))
        raise
    if not stopped:
        logging.shutdown()
        os._exit(daemon.begins_anew)  # a thread that hangs keeps the process alive, and the index is crash-safe
    return daemon.begins_anew


def _thread_died(failure: threading.ExceptHookArgs) -> None:
    """Log the error that ended a thread, without its message, which may quote a note."""
    if failure.exc_value is not None:
        log.error("a thread died of %s", where(failure.exc_value))


# ------------------------------------------------------------------------------------ start and stop


def start(arguments: Sequence[str], wait_seconds: float) -> dict[str, Any]:
    """Start `memsync ARGUMENTS watch` in the background and wait until it is ready; return its description.

    Raises the error that the new process reports, or DaemonError if it ends early or is not ready in time.
    """
    child = _in_background(arguments, subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout:
        return reported(child, wait_seconds, "the daemon", "memsync daemon logs")


def start_unasked(settings: Settings) -> bool:
    """Start the daemon in the background unless one runs, and do not wait for it; return whether it was started.

    It ends when it is idle.
    """
    if running(settings) is not None:
        return False
    _in_background(settings.options, subprocess.DEVNULL, "--until-idle")
    return True


def _in_background(arguments: Sequence[str], reports: int, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "memsync", *arguments, "daemon", "watch", "--background", *options]
    return subprocess.Popen(  # noqa: S603 (because this is the same program)
        command, stdin=subprocess.DEVNULL, stdout=reports, stderr=subprocess.DEVNULL, start_new_session=True, cwd="/"
    )


def outdated(settings: Settings) -> str:
    """Return why the running daemon does not fit these settings and this version; empty text if it fits."""
    try:
        with Client.serving(settings) as client:
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
    """Ask the daemon of this index to end and wait until it has; return its description, None if none ran.

    Raises DaemonError if it does not end.
    """
    if (daemon := serving(settings, WAIT_SECONDS)) is None:
        return None
    process = daemon["process"]

    def busy() -> DaemonError:
        return DaemonError(f"process {process} does not end", hint=f"End it with: kill -9 {process}")

    with without_daemon(settings.index_name, busy):
        return daemon
