"""Runs `memsync http` as long as `memsync web` has turned it on: a process of its own, which ends with the daemon."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress

import msgspec
from msgspec import Struct

from memsync.daemon.health import DaemonFaults
from memsync.daemon.startup import reported
from memsync.daemon.worker import Worker
from memsync.errors import DaemonError, MemsyncError
from memsync.settings.load import Settings
from memsync.system.state_file import state_of_root
from memsync.system.user_folders import open_private

PORT = 8740
CHECK_SECONDS = 1.0
START_SECONDS = 30.0
STOP_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 60.0
_PAGE = "web"


class Page(Struct, frozen=True):
    """Where the pages are: the port of this machine, and the URL under which it is forwarded, if it is."""

    port: int = PORT
    public_url: str = ""


def turned_on(settings: Settings) -> Page | None:
    """Return where the pages of a memory should be; None if they are off. Raises MemsyncError."""
    written = state_of_root(settings.keep_dir).single(_PAGE)
    return msgspec.json.decode(written, type=Page) if written else None


def turn_on(settings: Settings, page: Page | None) -> None:
    """Record where the pages should be; None: they are off. Raises MemsyncError."""
    written = msgspec.json.encode(page) if page is not None else b""
    state_of_root(settings.keep_dir).keep_single(_PAGE, written, waits=True)


class WebServer(Worker):
    """Starts and ends the server on a thread of its own. `url` is where it serves; empty while it does not."""

    def __init__(self, settings: Settings, health: DaemonFaults) -> None:
        super().__init__("web", health, longest_retry=LONGEST_RETRY_SECONDS)
        self._settings = settings
        self._guard = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._page: Page | None = None
        self.url = ""

    @property
    def is_on(self) -> bool:
        """Whether the pages should be served; then the daemon is never idle."""
        with suppress(MemsyncError):
            return turned_on(self._settings) is not None
        return False

    def stop(self) -> None:
        """Make the server and the thread end."""
        super().stop()
        if (child := self._child) is not None:  # the thread may be waiting for its first line
            child.terminate()

    def _run(self) -> None:
        super()._run()
        with self._guard:
            self._end()

    def step(self) -> float:
        """Do as the record says, and look at it again in a moment."""
        self.apply()
        return CHECK_SECONDS

    def apply(self) -> str:
        """Start or end the server as the record says; return its URL, empty if it is off. Raises MemsyncError."""
        with self._guard:
            wanted = turned_on(self._settings)
            code = self._child.poll() if self._child is not None else None
            if wanted == self._page and code is None:
                self._health.mended("web")  # not when it begins: it must live for a while, so that the pauses grow
                return self.url
            self._end()
            if code is not None:
                raise DaemonError(f"the web server ended with exit code {code}", hint="See web.log beside the index.")
            if wanted is not None and not self._stopping:
                self._begin(wanted)
            return self.url

    def _begin(self, page: Page) -> None:
        options = ["--port", str(page.port), "--public-url", page.public_url, "--until-eof"]
        command = [sys.executable, "-P", "-m", "memsync", *self._settings.options, "http", *options]
        with open(self._settings.index_dir / "web.log", "wb", opener=open_private) as log:
            self._child = subprocess.Popen(  # noqa: S603 (because this is the same program)
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        self._page = page
        try:
            self.url = reported(self._child, START_SECONDS, "the web server", "web.log beside the index")["url"]
        finally:
            if not self.url:
                self._end()

    def _end(self) -> None:
        """End the server, if it runs, and wait until it has freed its port."""
        if (child := self._child) is not None:
            child.terminate()
            try:
                child.communicate(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:  # requests that it passed to the daemon go on there
                child.kill()
                child.communicate()
        self._child, self._page, self.url = None, None, ""
