"""Memory: one memory root, searched and synced in this process. RemoteMemory: the same through its daemon."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

from memsync import features
from memsync.client.connection import Client
from memsync.errors import ODD_ERRORS, IndexDamaged
from memsync.model.json import from_json, to_json
from memsync.operation import Operation, lazily
from memsync.ports import WRITES_FOR_AGENT, Progress, no_progress
from memsync.workspace import Workspace

if TYPE_CHECKING:
    from memsync.features.conversations.importing import ImportReport
    from memsync.features.evaluation.evaluator import Evaluator

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE_SECONDS = 86_400.0
"""How long a client waits for the answer to a slow operation."""


class MemoryApi:
    """The operations of a memory, the same in this process and through its daemon."""

    search = lazily(lambda: features.search.search)
    get = lazily(lambda: features.search.get)
    sync = lazily(lambda: features.indexing.sync)
    status = lazily(lambda: features.indexing.status)
    log = lazily(lambda: features.log.log)
    remember = lazily(lambda: features.log.remember)
    new_note = lazily(lambda: features.log.new_note)
    overwritten = lazily(lambda: features.recovery.overwritten)
    recover = lazily(lambda: features.recovery.recover)
    dismiss = lazily(lambda: features.recovery.dismiss)
    preferences = lazily(lambda: features.preferences.preferences)
    set_preference = lazily(lambda: features.preferences.set_preference)
    patterns = lazily(lambda: features.patterns.patterns)
    observe = lazily(lambda: features.patterns.observe)
    new_thread = lazily(lambda: features.threads.new_thread)
    append_message = lazily(lambda: features.threads.append_message)
    set_thread_status = lazily(lambda: features.threads.set_thread_status)
    thread = lazily(lambda: features.threads.thread)
    threads = lazily(lambda: features.threads.threads)
    sessions = lazily(lambda: features.threads.sessions)
    costs = lazily(lambda: features.threads.costs)
    messages = lazily(lambda: features.threads.messages)
    neighbours = lazily(lambda: features.threads.neighbours)
    context = lazily(lambda: features.compose.context)
    prune = lazily(lambda: features.prune.prune)
    undo_prune = lazily(lambda: features.prune.undo_prune)
    duplicates = lazily(lambda: features.duplicates.duplicates)
    stale = lazily(lambda: features.usage.stale)
    stats = lazily(lambda: features.usage.stats)
    notes = lazily(lambda: features.listing.notes)
    collections = lazily(lambda: features.listing.collections)

    def run(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an operation and return its result. Raises MemsyncError."""
        raise NotImplementedError

    def close(self) -> None:
        """Release everything. The memory cannot be used afterwards."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Memory(Workspace, MemoryApi):
    """One memory root. Safe to use from several threads, and while other processes write.

    with Memory.open("notes") as memory:
        for hit in memory.search("which store did we choose", limit=5).hits:
            print(hit.citation, hit.snippet)
    """

    rebuild = lazily(lambda: features.indexing.rebuild)
    verify = lazily(lambda: features.indexing.verify)

    @classmethod
    def open(
        cls, root: str | os.PathLike[str] | None = None, *, config: str | os.PathLike[str] | None = None
    ) -> Memory:
        """Open the memory root at `root`, or the one that `config` (or the nearest config.toml) names.

        Raises ConfigError, RootError, IndexFailure.
        """
        from memsync.settings.load import load_settings
        from memsync.wiring import connect_here

        return connect_here(load_settings(config=config, root=root))

    @classmethod
    def connect(
        cls, root: str | os.PathLike[str] | None = None, *, config: str | os.PathLike[str] | None = None
    ) -> RemoteMemory:
        """Connect to the daemon of the same memory root: nothing is loaded here, so the first search is quick, too.

        Raises DaemonUnavailable when no daemon serves this root with these settings, ConfigError, RootError.
        """
        from memsync.settings.load import load_settings
        from memsync.wiring import connect_daemon

        return connect_daemon(load_settings(config=config, root=root))

    def run(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an operation here; if the index was damaged, retry once on the new index that replaced it."""
        arguments = operation.bind(args, kwargs)
        work: Callable[[], R] = partial(operation.function, self, **arguments)
        if operation.writes:  # never retried: it may have written something before it met the damage
            return work()
        try:
            return work()
        except IndexDamaged:
            return work()
        except ODD_ERRORS:
            try:
                self.index.check()
            except IndexDamaged:
                return work()
            raise

    def import_file(self, path: str | os.PathLike[str], *, progress: Progress = no_progress) -> ImportReport:
        """Write the conversations of a file into threads (docs/conversations.md). Raises UsageError."""
        from memsync.features.conversations.importing import import_file

        return import_file(self, path, progress=progress)

    def export_lines(self, threads: Sequence[str] = ()) -> Iterator[str]:
        """Yield threads (by path or name; default: all) as JSON Lines that `import_file` reads."""
        from memsync.features.conversations.importing import exported

        return exported(self, threads)

    def evaluator(self) -> Evaluator:
        """Return an evaluator, which asks questions with known answers (docs/search.md); they do not count as use."""
        from memsync.features.evaluation.evaluator import Evaluator

        return Evaluator(self.files, self.reader, self.answering, self.parse)


class RemoteMemory(Client, MemoryApi):
    """One connection to a daemon. Use it from one thread at a time; connections are cheap, so open one a thread.

    with Memory.connect("notes") as memory:
        print(memory.search("which store did we choose").hits[0].citation)
    """

    def run(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an operation in the daemon."""
        arguments = operation.bind(args, kwargs)
        progress = arguments.pop("progress", None)
        params = {name: to_json(arguments[name]) for name in operation.values if name in arguments}
        if progress is not None:
            params["progress"] = True
        if WRITES_FOR_AGENT.get():
            params["agent"] = True
        with self.patient(PATIENCE_SECONDS if operation.is_slow else None):
            answer = self.call(operation.name, params, progress)["answer"]
        result: R = from_json(operation.result, answer)
        return result
