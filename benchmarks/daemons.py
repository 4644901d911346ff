"""Daemons for benchmarks: a real process on a root, with its index under the benchmark's own state folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.indexes import own_variables
from memsync.memory import RemoteMemory
from memsync.settings.load import load_settings
from memsync.wiring import connect_daemon

_SCRIPT = Path(sys.executable).with_name("memsync")
MEMSYNC = [str(_SCRIPT)] if _SCRIPT.exists() else [sys.executable, "-m", "memsync"]


class RunningDaemon:
    """One daemon: how to ask it from this process, and from a command line."""

    def __init__(self, root: Path, state: Path, settings: dict[str, str]) -> None:
        own = {f"MEMSYNC_{name.upper()}": value for name, value in settings.items()}
        own.update(own_variables(root, state))
        self.environ = {**os.environ, **own}
        self.command = [*MEMSYNC, "--root", str(root)]
        self._settings = load_settings(root=root, environ=own, cwd=state)

    def connect(self) -> RemoteMemory:
        """Return a connection of one's own."""
        return connect_daemon(self._settings)

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[bytes]:
        """Run a memsync command on the same root."""
        environ = {**self.environ, **{f"MEMSYNC_{name.upper()}": value for name, value in settings.items()}}
        return subprocess.run([*self.command, *arguments], env=environ, capture_output=True, check=False)

    def process(self) -> int:
        """Return its process id."""
        with self.connect() as memory:
            daemon = memory.status().daemon
        assert daemon is not None
        return daemon.process


@contextmanager
def running(root: Path, state: Path, **settings: str) -> Iterator[RunningDaemon]:
    """Start a daemon on `root`, wait until nothing is left to embed, and stop it in the end."""
    daemon = RunningDaemon(root, state, settings)
    started = daemon.run("start", "--wait", "60")
    assert started.returncode == 0, started.stderr.decode()
    try:
        yield daemon
    finally:
        daemon.run("stop")


def settle(daemon: RunningDaemon, seconds: float = 3_600.0) -> None:
    """Wait until the daemon has indexed and embedded everything."""
    with daemon.connect() as memory:
        memory.sync()
        assert memory.wait(vectors=True, seconds=min(seconds, 600.0))
