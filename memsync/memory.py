"""Memory: one memory root, searched and synced in this process. RemoteMemory: the same through its daemon."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, ParamSpec, Self, TypeVar, overload

from memsync import features
from memsync.client.connection import MAYBE_WRITTEN, Client
from memsync.errors import (
    ODD_ERRORS,
    AnswerLost,
    DaemonNotRunning,
    DaemonUnavailable,
    IndexDamaged,
    MemsyncError,
    WriteRefused,
)
from memsync.model.json import from_json, to_json
from memsync.operation import AT, Lazy, Operation
from memsync.ports import WRITES_FOR_AGENT, Embedder, Progress, Reranker, no_progress
from memsync.settings.load import Settings, load_settings
from memsync.wiring import (
    make_embedder,
    make_index,
    make_reranker,
    make_token_counter,
    make_vector_cache,
    model_of,
    recognise_root,
)
from memsync.workspace import Workspace

if TYPE_CHECKING:
    from memsync.features.conversations.importing import ImportReport
    from memsync.features.evaluation.evaluator import Evaluator
    from memsync.ports import VectorCache

P = ParamSpec("P")
R = TypeVar("R")
AnyPath = str | os.PathLike[str]

PATIENCE_SECONDS = 86_400.0
"""Timeout of a client for the answer to a slow operation."""


class MemoryApi(ABC):
    """The operations of a memory, the same in this process and through its daemon."""

    search = Lazy(lambda: features.search.search)
    get = Lazy(lambda: features.search.get)
    history = Lazy(lambda: features.history.history)
    blame = Lazy(lambda: features.history.blame)
    diff = Lazy(lambda: features.difference.diff)
    digest = Lazy(lambda: features.difference.digest)
    answer_request = Lazy(lambda: features.search.answer_request)
    embed_question = Lazy(lambda: features.search.embed_question)
    sync = Lazy(lambda: features.indexing.sync)
    status = Lazy(lambda: features.indexing.status)
    log = Lazy(lambda: features.log.log)
    logged = Lazy(lambda: features.log.logged)
    note_session = Lazy(lambda: features.log.note_session)
    remember = Lazy(lambda: features.log.remember)
    new_note = Lazy(lambda: features.log.new_note)
    overwritten = Lazy(lambda: features.overwritten.overwritten)
    recover = Lazy(lambda: features.overwritten.recover)
    dismiss = Lazy(lambda: features.overwritten.dismiss)
    preferences = Lazy(lambda: features.preferences.preferences)
    set_preference = Lazy(lambda: features.preferences.set_preference)
    patterns = Lazy(lambda: features.patterns.patterns)
    observe = Lazy(lambda: features.patterns.observe)
    read_note = Lazy(lambda: features.exact.read_note)
    write_note = Lazy(lambda: features.exact.write_note)
    delete_note = Lazy(lambda: features.exact.delete_note)
    read_thread = Lazy(lambda: features.exact.read_thread)
    append_messages = Lazy(lambda: features.exact.append_messages)
    truncate_thread = Lazy(lambda: features.exact.truncate_thread)
    new_thread = Lazy(lambda: features.threads.new_thread)
    append_message = Lazy(lambda: features.threads.append_message)
    set_thread_status = Lazy(lambda: features.threads.set_thread_status)
    thread = Lazy(lambda: features.threads.thread)
    threads = Lazy(lambda: features.threads.threads)
    sessions = Lazy(lambda: features.threads.sessions)
    costs = Lazy(lambda: features.threads.costs)
    messages = Lazy(lambda: features.threads.messages)
    neighbours = Lazy(lambda: features.threads.neighbours)
    context = Lazy(lambda: features.compose.context)
    prune = Lazy(lambda: features.pruning.prune)
    undo_prune = Lazy(lambda: features.pruning.undo_prune)
    curate = Lazy(lambda: features.proposals.curate)
    propose = Lazy(lambda: features.proposals.propose)
    proposals = Lazy(lambda: features.proposals.proposals)
    proposal = Lazy(lambda: features.proposals.proposal)
    accept = Lazy(lambda: features.proposals.accept)
    reject = Lazy(lambda: features.proposals.reject)
    edit_proposal = Lazy(lambda: features.proposals.edit_proposal)
    undo_accept = Lazy(lambda: features.proposals.undo_accept)
    contradictions = Lazy(lambda: features.contradictions.contradictions)
    move = Lazy(lambda: features.moving.move)
    undo_move = Lazy(lambda: features.moving.undo_move)
    links = Lazy(lambda: features.linking.links)
    check_text = Lazy(lambda: features.checking.check_text)
    names = Lazy(lambda: features.listing.names)
    duplicates = Lazy(lambda: features.duplicates.duplicates)
    check = Lazy(lambda: features.checking.check)
    share = Lazy(lambda: features.share.share)
    stale = Lazy(lambda: features.usage.stale)
    stats = Lazy(lambda: features.usage.stats)
    notes = Lazy(lambda: features.listing.notes)
    collections = Lazy(lambda: features.listing.collections)

    @abstractmethod
    def run(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an operation and return its result. Raises MemsyncError."""

    @abstractmethod
    def close(self) -> None:
        """Release everything. The memory cannot be used afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


class Memory(Workspace, MemoryApi):
    """One memory root. Safe to use from several threads, and while other processes write.

    with Memory.open("notes") as memory:
        for hit in memory.search("which store did we choose", limit=5).hits:
            print(hit.citation, hit.snippet)
    """

    rebuild = Lazy(lambda: features.indexing.rebuild)
    verify = Lazy(lambda: features.indexing.verify)
    forget = Lazy(lambda: features.forgetting.forget)
    undo_forget = Lazy(lambda: features.forgetting.undo_forget)
    purge_forgotten = Lazy(lambda: features.forgetting.purge_forgotten)

    @classmethod
    def open(cls, root: AnyPath | None = None, *, config: AnyPath | None = None) -> Memory:
        """Open the memory root at `root`, or the one that `config` (or the nearest config.toml) names.

        Raises ConfigError, RootError, IndexFailure.
        """
        return open_memory(load_settings(config=config, root=root), Through.HERE)

    @classmethod
    def connect(cls, root: AnyPath | None = None, *, config: AnyPath | None = None) -> RemoteMemory:
        """Connect to the daemon of the same memory root. This loads no index and no model, so the first search is fast.

        Raises DaemonUnavailable when no daemon serves this root with these settings, ConfigError, RootError.
        """
        return open_memory(load_settings(config=config, root=root), Through.DAEMON)

    def run(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an operation here; if the index was damaged, retry once on the new index that replaced it.

        With the argument `at`, run it on the memory as it was at that commit.
        """
        if self.is_closed:
            raise MemsyncError("this memory is closed", hint="Open it again: Memory.open(…)")
        if operation.name != "status":  # which tells what is wrong
            self.settings.require_current()
        arguments = operation.bind(args, kwargs)
        adds = operation.writes and operation.tool is not None
        if WRITES_FOR_AGENT.get() and operation.changes(arguments) and not adds:
            reason = f"{operation.name} could change the owner's words, or agent instructions"
            raise WriteRefused(f"an agent may only propose this: {reason}", hint="A person may do it.")
        function: Callable[..., R] = partial(operation.function, self)
        if revision := arguments.pop(AT, ""):
            from memsync.past import past_of

            function = partial(past_of(self).run, operation, revision)
        work: Callable[[], R] = partial(function, **arguments)
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

    def import_file(self, path: AnyPath, *, progress: Progress = no_progress) -> ImportReport:
        """Write the conversations of a file into threads (docs/agents.md). Raises UsageError."""
        from memsync.features.conversations.importing import import_file

        return import_file(self, path, progress=progress)

    def export_lines(
        self, threads: Sequence[str] = (), *, warn: Callable[[str], None] = lambda text: None
    ) -> Iterator[str]:
        """Yield threads (by path or name; default: all) as JSON Lines that `import_file` reads.

        Calls `warn` with a sentence about each thread that is in a merge conflict.
        """
        from memsync.features.conversations.importing import exported

        return exported(self, threads, warn)

    def evaluator(self) -> Evaluator:
        """Return an evaluator: it asks questions with known answers (docs/search.md) without counting them as use."""
        from memsync.features.evaluation.evaluator import Evaluator

        return Evaluator(self)


class RemoteMemory(Client, MemoryApi):
    """One connection to a daemon. Safe to use from several threads; each waits until the others have their answers.

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
            params["agent"] = WRITES_FOR_AGENT.get()
        with self.lock, self.patient(PATIENCE_SECONDS if operation.is_slow or arguments.get(AT) else None):
            try:
                answer = self.call(operation.name, params, progress)["answer"]
            except AnswerLost as error:
                if operation.writes:
                    raise AnswerLost(error.message, hint=MAYBE_WRITTEN) from error
                raise
        result: R = from_json(operation.result, answer)
        return result


class Through(Enum):
    """Which process answers for a memory that is opened."""

    HERE = auto()
    DAEMON = auto()
    EITHER = auto()
    """The daemon if it serves the memory, otherwise this process."""


class Parts(NamedTuple):
    """Factories of the embedder and the reranker, by a model's name, and of the vector cache."""

    embedder: Callable[[str], Embedder] = make_embedder
    reranker: Callable[[str], Reranker] = make_reranker
    cache: Callable[[], VectorCache | None] = make_vector_cache


DEFAULT_PARTS = Parts()


@overload
def open_memory(settings: Settings, through: Literal[Through.HERE], *, parts: Parts = ...) -> Memory: ...
@overload
def open_memory(settings: Settings, through: Literal[Through.DAEMON]) -> RemoteMemory: ...
@overload
def open_memory(settings: Settings, *, notice: Callable[[str], None]) -> Memory | RemoteMemory: ...
def open_memory(
    settings: Settings,
    through: Through = Through.EITHER,
    *,
    notice: Callable[[str], None] = lambda text: None,
    parts: Parts = DEFAULT_PARTS,
) -> Memory | RemoteMemory:
    """Open the memory of these settings.

    Calls `notice` with the reason if a daemon is running but does not serve the memory. Raises DaemonUnavailable if
    only the daemon may answer, ConfigError, RootError, IndexFailure.
    """
    if through is Through.DAEMON:
        return RemoteMemory.serving(settings)
    if through is Through.EITHER and (remote := daemon_of(settings, notice)) is not None:
        return remote
    recognise_root(settings)
    return Memory(
        settings,
        make_index(settings),
        make_token_counter(),
        lambda: parts.embedder(settings["embedder.model"]),
        lambda space: parts.embedder(model_of(space)),
        make_reranker=lambda: parts.reranker(settings["search.rerank_model"]),
        cache=parts.cache(),
        processes=0,
    )


def daemon_of(settings: Settings, notice: Callable[[str], None]) -> RemoteMemory | None:
    """Return the memory of these settings through its daemon; None if none serves it, see `open_memory`."""
    if settings["daemon.use"]:
        try:
            return RemoteMemory.serving(settings)
        except DaemonNotRunning:
            pass
        except DaemonUnavailable as error:
            notice(f"{error.message}: working in this process ({error.hint})")
    return None
