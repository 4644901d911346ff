"""The real memory, keeper and vector keeper over the simulated world, without threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from unittest import mock

from memsync.daemon.engine import Engine
from memsync.daemon.keeper import Keeper
from memsync.daemon.worker import Worker as DaemonWorker
from memsync.embed.cache.cache import SqliteVectorCache
from memsync.memory import Memory
from memsync.model.vocabulary import WatcherState
from memsync.settings.load import Settings
from memsync.sync.gate import LONGEST_PAUSE_SECONDS, Gate
from tests.conftest import COUNTER, FakeEmbedder
from tests.convergence.clock import SimulatedClock, Worker
from tests.convergence.watcher import SimulatedWatcher
from tests.support.backends import opener


class InlineExecutor(Executor):
    """Runs what is submitted at once, on the caller's thread."""

    def __init__(self, max_workers: int = 1, thread_name_prefix: str = "") -> None:
        pass

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments, **options))
        except Exception as error:  # noqa: BLE001 (because a future keeps whatever was raised)
            done.set_exception(error)
        return done


CACHE_BYTES = 100_000
"""Little enough that the vector cache is trimmed now and then."""


BACKEND = ContextVar("backend", default="sqlite")
"""The backend of the index that the world's memory has; the index that it is compared with is always in SQLite."""


@contextmanager
def on_backend(name: str) -> Iterator[None]:
    """Run the block's worlds with an index of this backend."""
    mark = BACKEND.set(name)
    try:
        yield
    finally:
        BACKEND.reset(mark)


def open_memory(
    settings: Settings, folder: Path, embedder: FakeEmbedder, clock: SimulatedClock, backend: str = "sqlite"
) -> Memory:
    """Open an index as a process would that has one thread."""
    cache = SqliteVectorCache(folder.with_name("vectors") / "vectors.db", CACHE_BYTES)
    with mock.patch("memsync.workspace.ThreadPoolExecutor", InlineExecutor):
        return Memory(
            settings,
            opener(backend)(folder),
            COUNTER,
            lambda: embedder,
            lambda space: embedder,
            clock=clock,
            cache=cache,
        )


@contextmanager
def pausing_by(clock: SimulatedClock) -> Iterator[None]:
    """Let background work that stands aside for a search pass the world's time."""
    pause = Gate.pause

    def pause_by_clock(gate: Gate) -> None:
        if gate._searches or gate._stopped:
            clock.sleep(LONGEST_PAUSE_SECONDS)
        pause(gate)

    with mock.patch("memsync.sync.gate.LONGEST_PAUSE_SECONDS", 0.0), mock.patch.object(Gate, "pause", pause_by_clock):
        yield


class DueWork:
    """The work of a daemon's thread."""

    def __init__(self, thread: DaemonWorker) -> None:
        self._thread = thread

    def due_at(self) -> float:
        return self._thread.due_at()

    def work(self) -> None:
        if self._thread.is_due():
            self._thread.attempt()


class InlineLive:
    """What a search asks of the keeper, whose thread works while the search waits."""

    def __init__(self, gate: Gate, keeper: Keeper, work: DueWork, clock: SimulatedClock) -> None:
        self._gate = gate
        self._keeper = keeper
        self._work = work
        self._clock = clock

    @property
    def pending_text(self) -> int:
        return self._keeper.pending_text

    @pending_text.setter
    def pending_text(self, changes: int) -> None:
        self._keeper.pending_text = changes

    def watching(self) -> tuple[WatcherState, str]:
        return self._keeper.watching()

    def notice(self) -> None:
        self._keeper.notice()

    def catch_up(self, seconds: float) -> bool:
        turn = self._keeper.hasten()
        until = self._clock.monotonic() + seconds
        with self._gate.awaiting():
            while not self._keeper.has_finished(turn) and self._clock.monotonic() < until:
                with self._clock.without(self._work):
                    self._work.work()
                self._clock.sleep(0.001)
            return self._keeper.has_finished(turn)


class LiveMemory:
    """One daemon's worth of memsync. Restarting it leaves the index where it is."""

    def __init__(
        self, settings: Settings, folder: Path, embedder: FakeEmbedder, clock: SimulatedClock, watcher: SimulatedWatcher
    ) -> None:
        self._clock = clock
        self.memory = open_memory(settings, folder, embedder, clock, BACKEND.get())
        self.engine = Engine(self.memory, watcher.attach, "", clock=clock)
        self._vector_work = DueWork(self.engine.vectors)
        keeper_work = DueWork(self.engine.keeper)
        self.memory.fresh_search.live = InlineLive(self.memory.syncer.gate, self.engine.keeper, keeper_work, clock)
        self._workers: list[Worker] = [keeper_work, self._vector_work]
        clock.workers += self._workers

    @contextmanager
    def asked(self) -> Iterator[Memory]:
        """Yield the memory for a sync on request; the vector keeper waits for the model meanwhile."""
        with self._clock.without(self._vector_work):
            yield self.memory

    def close(self) -> None:
        """End as a daemon does that is told to."""
        for worker in self._workers:
            self._clock.workers.remove(worker)
        self.memory.close()
