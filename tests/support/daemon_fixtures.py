"""A daemon in the test's own process: the real engine and server over the fake model, and a watcher that tells nothing.

Every test may use its fixtures: tests/conftest.py loads it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from memsync.cli.main import run_command
from memsync.client import wire
from memsync.daemon.engine import Engine
from memsync.daemon.methods import Host
from memsync.daemon.server import DaemonServer
from memsync.memory import Memory, MemoryApi, RemoteMemory
from memsync.settings.load import Settings
from memsync.system.user_folders import socket_path
from tests.conftest import FakeEmbedder
from tests.support.daemon_process import until

PATIENCE_SECONDS = 120.0
wait_until = until


class Held:
    """Holds a model back at each text until `goes_on` is set; `begun` tells that it was asked."""

    def __init__(self, embedder: FakeEmbedder) -> None:
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self._embed = embedder.embed_passages

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Any]:
        self.begun.set()
        assert self.goes_on.wait(PATIENCE_SECONDS)
        return self._embed(texts, pause)


class FakeWatcher:
    """Watches nothing; a test reports what it likes through `on_path`."""

    def __init__(self, on_path: Callable[[str], None], on_lost: Callable[[str], None]) -> None:
        self.on_path = on_path
        self.on_lost = on_lost

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing to stop."""

    def fault(self) -> str:
        return ""

    def unwatched(self, folder_inodes: list[int]) -> int | None:
        return None


class Peer:
    """Whatever talks to the socket: what a client in another language would be."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE_SECONDS)
        self.socket.connect(path)
        self._lines = self.socket.makefile("rb")

    def send(self, data: bytes | str) -> None:
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def line(self) -> dict[str, Any]:
        """Return the next message. Fails when the daemon hung up."""
        line = self._lines.readline()
        assert line.endswith(b"\n"), f"hung up after {line!r}"
        found: dict[str, Any] = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        assert found["jsonrpc"] == "2.0"
        return found

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the reply to one request."""
        return self.ask_with(method, params)

    def ask_with(self, method: str, params: object) -> dict[str, Any]:
        """Return the reply to one request whose parameters may be anything."""
        self.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
        return self.line()

    def result(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of one request: an operation's answer with the freshness beside it."""
        found: dict[str, Any] = self.ask(method, **params)["result"]
        answer = found.get("answer")
        return {"freshness": found["freshness"], **answer} if isinstance(answer, dict) else found

    def is_hung_up_on(self) -> bool:
        """Wait for the end of what the daemon sends, which must be the next thing."""
        try:
            return self._lines.readline() == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._lines.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Served:
    """One memory, served on a thread."""

    def __init__(self, memory: Memory, settings: Settings) -> None:
        self.memory = memory
        self.settings = settings
        self.path = socket_path(str(settings.index_dir))
        self.engine = self.make_engine(memory)
        self.server: DaemonServer | None = None
        self.stopped_by_request = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._until: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="server")

    def make_engine(self, memory: Memory) -> Engine:
        return Engine(memory, self._make_watcher, self.path)

    def _make_watcher(self, on_path: Callable[[str], None], on_lost: Callable[[str], None]) -> FakeWatcher:
        self.watcher = FakeWatcher(on_path, on_lost)
        return self.watcher

    def start(self) -> None:
        """Begin to serve what is indexed and embedded already, and wait until the files have been compared once."""
        self.memory.sync()
        self.engine.start()
        self._thread.start()
        assert self._ready.wait(PATIENCE_SECONDS)
        wait_until(lambda: self.engine.keeper.due_at() > time.monotonic(), "the first comparison")

    async def _serve(self) -> None:
        self._loop, self._until = asyncio.get_running_loop(), asyncio.Event()
        self.server = DaemonServer(self.path, Host(self.engine, self._stop_requested, run_command))
        await self.server.serve(self._until, self._ready.set)

    def _stop_requested(self) -> None:
        self.stopped_by_request.set()
        self.end()

    def end(self) -> None:
        """Tell the server to stop serving."""
        assert self._loop is not None and self._until is not None
        with suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._until.set)

    def is_serving(self) -> bool:
        return self._thread.is_alive()

    def on_loop(self, work: Callable[[], None]) -> None:
        """Do something on the server's own thread, as the daemon does when it is told to read its settings again."""
        assert self._loop is not None
        done = threading.Event()
        self._loop.call_soon_threadsafe(work)
        self._loop.call_soon_threadsafe(done.set)
        assert done.wait(PATIENCE_SECONDS)

    def stop(self) -> None:
        if self._thread.is_alive():
            self.end()
            self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        assert self.engine.stop()

    def connect(self) -> RemoteMemory:
        return RemoteMemory(self.path, wire.settings_digest(self.settings))

    def peer(self) -> Peer:
        return Peer(self.path)

    def peers(self) -> int:
        """Return how many are connected."""
        assert self.server is not None
        return len(self.server._peers)


@pytest.fixture
def short_runtime_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a folder whose name is short enough for a socket; those of pytest are not always."""
    folder = Path(tempfile.mkdtemp(prefix="ms", dir="/tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def held(served: Served, embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """Hold the model of the served memory back."""
    found = Held(embedder)
    monkeypatch.setattr(embedder, "embed_passages", found.embed_passages)
    yield found
    found.goes_on.set()


@pytest.fixture
def served(
    make_memory: Callable[..., Memory],
    settings: Settings,
    write: Callable[[str, str], Path],
    short_runtime_folder: Path,
) -> Iterator[Served]:
    """Serve three notes."""
    write("birds.md", "# Birds\n\n## Heron\n\nThe heron nests in the alder.\n\n## Tern\n\nThe tern dives.\n")
    write("daily/2026-11-21.md", "- 10:02 saw a heron at the harbour #birds {emotion=joy}\n- 11:15 mended the rope\n")
    write("boats.md", "---\ntags: [boats]\n---\n# Boats\n\nThe ketch lies in the harbour.\n")
    found = Served(make_memory(), settings)
    found.start()
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture(params=["here", "daemon"])
def own(request: pytest.FixtureRequest) -> Iterator[MemoryApi]:
    """Yield a memory in this process, and the same one over the socket."""
    if request.param == "here":
        yield request.getfixturevalue("memory")
        return
    found: Served = request.getfixturevalue("served")
    with found.connect() as remote:
        yield remote
