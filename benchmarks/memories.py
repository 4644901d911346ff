"""Memories and daemons for benchmarks, each with its index under the benchmark's own state folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memsync.embed.cache.cache import SqliteVectorCache
from memsync.memory import Memory, Parts, RemoteMemory, Through, open_memory
from memsync.ports import Embedder, VectorCache
from memsync.settings import paths
from memsync.settings.load import Settings, load_settings, settings_of_root
from memsync.wiring import make_index, make_token_counter, vector_cache_path

FOLDERS = 100
_SCRIPT = Path(sys.executable).with_name("memsync")
MEMSYNC = [str(_SCRIPT)] if _SCRIPT.exists() else [sys.executable, "-m", "memsync"]


def index_dir(root: Path, state: Path) -> Path:
    """Return the folder of a root's index if `state` is the user's state folder."""
    return state.resolve() / "memsync" / Path(paths.index_dir(str(root.resolve()))).name


def _variables(settings: dict[str, str]) -> dict[str, str]:
    return {f"MEMSYNC_{name.upper()}": value for name, value in settings.items()}


def _settings(root: Path, state: Path, settings: dict[str, str]) -> tuple[Settings, dict[str, str]]:
    """Return settings that keep the index in `state`, and their variables."""
    environ = _variables(settings)
    loaded = load_settings(root=root, environ=environ, cwd=state)
    loaded.index_name = str(index_dir(root, state))
    return loaded, environ | {"XDG_STATE_HOME": str(state.resolve())}


def opened(root: Path, state: Path, *, cache_bytes: int = 0, **settings: str) -> Memory:
    """Open `root` with default settings and its index in `state`; `settings` are values of MEMSYNC_* variables.

    Without `cache_bytes` there is no vector cache.
    """

    def make_cache() -> VectorCache | None:
        return SqliteVectorCache(vector_cache_path(), cache_bytes) if cache_bytes else None

    return open_memory(_settings(root, state, settings)[0], Through.HERE, parts=Parts(cache=make_cache))


def connected(root: Path, state: Path, embedder: Embedder, **settings: str) -> Memory:
    """Open `root` with an embedder of the benchmark's own."""
    loaded, _ = _settings(root, state, settings)
    return Memory(loaded, make_index(loaded), make_token_counter(), lambda: embedder, lambda space: embedder)


def write_notes(root: Path, count: int) -> None:
    """Write small notes into FOLDERS folders."""
    for number in range(count):
        path = note_path(root, number)
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# Note {number}\n\nThe heron number {number} nests in alder {number % 97}.\n")


def note_path(root: Path, number: int) -> Path:
    """Return the path of one of the notes of `write_notes`."""
    return root / f"{number % FOLDERS:03d}" / f"note-{number:05d}.md"


class RunningDaemon:
    """One daemon, for requests from this process and from a command line."""

    def __init__(self, root: Path, state: Path, settings: dict[str, str] | None) -> None:
        """Take settings of the benchmark's own, or None for those that the user's commands would find."""
        own: dict[str, str] = {}
        if settings is None:
            self._settings = settings_of_root(root)[0]
        else:
            self._settings, own = _settings(root, state, settings)
        self.environ = {**os.environ, **own}
        self.command = [*MEMSYNC, "--root", str(root)]

    def connect(self) -> RemoteMemory:
        """Return a new connection."""
        return RemoteMemory.serving(self._settings)

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[bytes]:
        """Run a memsync command on the same root."""
        environ = self.environ | _variables(settings)
        return subprocess.run([*self.command, *arguments], env=environ, capture_output=True, check=False)

    def process(self) -> int:
        """Return its process id."""
        with self.connect() as memory:
            daemon = memory.status().daemon
        assert daemon is not None
        return daemon.process

    def settle(self) -> None:
        """Wait until it has indexed and embedded everything."""
        with self.connect() as memory:
            memory.sync()
            assert memory.wait(vectors=True, seconds=600.0)


@contextmanager
def own_user_folders(state: Path) -> Iterator[None]:
    """Keep all files of a user in `state`, also those of daemons: settings, the vector cache, sockets and indexes."""
    before = dict(os.environ)
    os.environ.update(XDG_STATE_HOME=str(state / "user"), XDG_CONFIG_HOME=str(state / "user" / "config"))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def running(root: Path, state: Path, **settings: str) -> Iterator[RunningDaemon]:
    """Start a daemon on `root`, and stop it at the end."""
    daemon = RunningDaemon(root, state, settings)
    with _started(daemon):
        yield daemon


@contextmanager
def serving(root: Path) -> Iterator[RunningDaemon]:
    """Start a daemon on `root` as its user does, with the index and the vector cache in the user's folders."""
    daemon = RunningDaemon(root, root, None)
    with _started(daemon):
        daemon.settle()
        yield daemon


@contextmanager
def _started(daemon: RunningDaemon) -> Iterator[None]:
    started = daemon.run("daemon", "start", "--wait", "60")
    assert started.returncode == 0, started.stderr.decode()
    try:
        yield
    finally:
        daemon.run("daemon", "stop")
