"""The `memsync` command on one root, in this process or in one of its own, and whatever daemons it left running."""

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
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from functools import cache
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import patch

from memsync.cli.entry import answer_plainly
from memsync.cli.main import main
from memsync.daemon.process import _in_background
from memsync.embed import minilm
from memsync.ports import Embedder
from memsync.settings.load import Settings, load_settings
from memsync.settings.settings_list import BUILT_IN_MODEL
from memsync.wiring import EMBEDDERS
from tests.support.cpu_time import shared_cost
from tests.support.fake_model import fastembed

FAKE_MODEL = os.path.dirname(fastembed.__file__)
"""The folder for PYTHONPATH with which a process loads no model; a command's children inherit it."""
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
    limit, pause = time.monotonic() + seconds, 0.005
    while not happened():
        assert time.monotonic() < limit, f"not within {seconds:g} s: {what}"
        time.sleep(pause)
        pause = min(2 * pause, 0.2)  # what is asked may cost more than a look


class _Stream(BytesIO):
    """A standard stream."""

    name = "<standard stream>"


class Cli:
    """Runs memsync with `--root`, or where `cwd` is given without; `close` leaves no process behind.

    A call runs in this process, as `memsync.cli.entry` would run it: that takes a tenth of the time. `process` is for
    what only a process of its own shows. No call loads the built-in model, but a fake in its place; nor does a process
    or a daemon, as long as `FAKE_MODEL` is on PYTHONPATH.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._begun: list[subprocess.Popen[str]] = []
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __call__(
        self, *arguments: str, cwd: Path | None = None, environ: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = self._command(arguments, cwd)
        out, err = (TextIOWrapper(_Stream(), "utf-8", "replace", write_through=True) for _ in range(2))
        with (
            patch.dict(os.environ, environ or {}),
            patch.dict(EMBEDDERS, {BUILT_IN_MODEL: f"{__name__}:loaded_model"}),
            patch("memsync.daemon.process._in_background", self._in_background),
            patch("sys.stdin", TextIOWrapper(_Stream())),
            chdir(cwd or "."),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            code = answer_plainly(command[3:])
            if code is None:
                try:
                    main(command[3:])
                except SystemExit as stop:
                    code = stop.code if isinstance(stop.code, int) else 1
        done = [stream.buffer.getvalue().decode() for stream in (out, err) if isinstance(stream.buffer, BytesIO)]
        return subprocess.CompletedProcess(command, code or 0, *done)

    def another(self, root: Path) -> Cli:
        """Return the same for another root, whose processes end with those of this one."""
        other = Cli(root)
        other._begun, other._daemons = self._begun, self._daemons
        return other

    def process(
        self, *arguments: str, cwd: Path | None = None, environ: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as a process of its own, as a user does."""
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
        done = self("daemon", "start", "--json")
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
        for daemon in self._daemons:
            daemon.kill()
            daemon.wait()
        for lock in Path(os.environ["XDG_STATE_HOME"]).glob("memsync/*/daemon.lock"):
            holder = _holder(lock)
            if holder > 0:
                with suppress(ProcessLookupError):
                    os.kill(holder, signal.SIGKILL)
                until(lambda: not _holder(lock), "the daemon has ended")  # noqa: B023 (because it is called at once)

    def _in_background(self, *given: Any) -> subprocess.Popen[bytes]:
        """Start a daemon, which has this process for its parent."""
        self._daemons.append(_in_background(*given))
        return self._daemons[-1]

    def _command(self, arguments: tuple[str, ...], cwd: Path | None) -> list[str]:
        return [sys.executable, "-m", "memsync", *(["--root", str(self.root)] if cwd is None else []), *arguments]


@cache
def loaded_model() -> Embedder:
    """Return the model of all commands that run in this process: a fake one under the name of the built-in one."""
    embedder = minilm.load()
    with shared_cost(), patch.dict(sys.modules, fastembed=fastembed):
        embedder._load()
    vars(embedder).update(unload=lambda: None, close=lambda: None)
    return embedder


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
