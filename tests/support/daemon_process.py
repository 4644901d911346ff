"""The `memsync` command on one root, each call a process of its own, and whatever daemons it left running."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from memsync.settings.load import Settings, load_settings

DEADLINE_SECONDS = 120.0
SHEBANG = f"#!/bin/sh\n''''exec {shlex.quote(sys.executable)} \"$0\" \"$@\" #'''\n"
"""Begins a Python program of a test; unlike `#!` it lets the path of Python have blanks."""


def launcher(folder: Path, *arguments: str) -> Path:
    """Make a program `memsync` in a new folder, which runs memsync with these arguments before its own."""
    folder.mkdir()
    path = folder / "memsync"
    path.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-P", "-m", "memsync", *arguments])} "$@"\n')
    path.chmod(0o755)
    return path


def until(happened: Callable[[], object], what: str, seconds: float = DEADLINE_SECONDS) -> None:
    """Wait until something is so, and fail if that takes too long."""
    limit = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < limit, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)


class Cli:
    """Runs memsync with `--root`, or where `cwd` is given without; `close` leaves no process behind."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._begun: list[subprocess.Popen[str]] = []

    def __call__(
        self, *arguments: str, cwd: Path | None = None, environ: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(arguments, cwd),
            capture_output=True,
            text=True,
            cwd=cwd,
            env={**os.environ, **(environ or {})},
            timeout=60,
            check=False,
        )

    def begin(
        self, *arguments: str, stdout: int | TextIO = subprocess.PIPE, stderr: int | TextIO = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        """Begin a command that goes on until it is told to end."""
        command = self._command(arguments, None)
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr, text=True)
        self._begun.append(process)
        return process

    def start(self) -> int:
        """Start the daemon and return its process id."""
        done = self("start", "--json")
        assert done.returncode == 0, done.stderr
        return int(json.loads(done.stdout)["process"])

    @property
    def settings(self) -> Settings:
        """The settings that a call without further environment has."""
        return load_settings(root=self.root)

    @property
    def log(self) -> str:
        """What the daemon has logged."""
        path = self.settings.index_dir / "daemon.log"
        return path.read_text() if path.exists() else ""

    def processes(self) -> list[int]:
        """Return the ids of all processes that are a daemon of this root."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (place / "cmdline").read_bytes().split(b"\0")
                if b"watch" in words and os.fsencode(self.root) in words:
                    found.append(int(place.name))
        return found

    def close(self) -> None:
        """End every process that was begun, and every daemon with a lock in this test's state folder."""
        for process in self._begun:
            process.kill()
            process.communicate()
        for lock in Path(os.environ["XDG_STATE_HOME"]).glob("memsync/*/daemon.lock"):
            holder = _holder(lock)
            if holder > 0:
                with suppress(ProcessLookupError):
                    os.kill(holder, signal.SIGKILL)
                until(lambda: not _holder(lock), "the daemon has ended")  # noqa: B023 (because it is called at once)

    def _command(self, arguments: tuple[str, ...], cwd: Path | None) -> list[str]:
        return [sys.executable, "-m", "memsync", *(["--root", str(self.root)] if cwd is None else []), *arguments]


def is_locked(settings: Settings) -> bool:
    """Tell whether a process holds the daemon's lock."""
    return _holder(settings.index_dir / "daemon.lock") != 0


def _holder(lock: Path) -> int:
    """Return the process that holds a lock file; 0 when none does."""
    with lock.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            with suppress(ValueError, IndexError):
                return int(file.read().split()[1])
            return -1
    return 0
