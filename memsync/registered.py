"""The registered memories: one search covers several, each through its daemon if one runs, otherwise in this process.

What they answer is data, as every quotation is. What a memory tells agents to do holds in that memory alone: a context
takes instructions from the current memory, and only hits from the others.
"""

from __future__ import annotations

import os
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Self, TypeVar

from msgspec.structs import replace

from memsync import features
from memsync.client.wire import settings_digest
from memsync.errors import DaemonNotRunning, DaemonUnavailable, MemsyncError, NoSuchNote, UsageError
from memsync.model.answer import EmbeddedQuestion, Excerpt, SearchResult
from memsync.model.conversation import Neighbours
from memsync.model.filters import FILTERS, Filters
from memsync.model.query import BUDGET_HITS, Query
from memsync.model.vocabulary import Mode, NotePath, in_root
from memsync.operation import Lazy, Operation
from memsync.search.query_syntax import parse_query, without_roots
from memsync.search.several import Answered, merged
from memsync.settings.load import Settings, default_of
from memsync.settings.roots import (
    RegisteredRoot,
    chosen_roots,
    fault_of,
    is_root_name,
    registered_roots,
    settings_of,
    unknown_root,
)
from memsync.wiring import connect_daemon, connect_here, connect_stored, make_token_counter

if TYPE_CHECKING:
    from memsync.memory import Memory, MemoryApi
    from memsync.model.context import Context
    from memsync.stored import StoredMemory

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE_SECONDS = 10.0
"""How long an answer waits for the slowest memory; the other memories answer without it."""
EMBED_SECONDS = 2.0
"""How long a memory waits for the vector that another one computes, before it embeds the question itself; at most a
quarter of its patience."""
ALL_ROOTS = "*"
_OWN_COMMAND = re.compile(r"(?<=\brun )memsync (?=[a-z -]+$)|(?<=\brun: )memsync (?=[a-z -]+$)", re.IGNORECASE)
"""A command at the end of an advice, which works inside of the memory root that gives it."""
_OTHER_PATH = re.compile(r"(?<=^Did you mean )|(?<=^It was archived as )")
"""Where the hint of a missing note names another note."""
_FILTER_OF = {"folder": "in"}
"""Parameters of `search` whose filter has another name."""


class MemoryOpener:
    """Opens a memory for each call, since its daemon and its config.toml may change meanwhile.

    It is the daemon's memory if one serves this root now, otherwise one in this process, which answers one call at a
    time. `settings` returns the memory's settings as they are now; it raises ConfigError, RootError.
    """

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._here: Memory | None = None
        self._settings = ""

    @contextmanager
    def memory(self, notice: Callable[[str], None] = lambda text: None) -> Iterator[MemoryApi]:
        """Yield the memory for one call. Raises MemsyncError.

        Calls `notice` with the reason if a daemon is running but does not serve the memory.
        """
        settings = self.settings()
        if settings["daemon.use"]:
            try:
                remote = connect_daemon(settings)
            except DaemonNotRunning:
                pass
            except DaemonUnavailable as error:
                notice(f"{error.message}: working in this process ({error.hint})")
            else:
                self.close()  # the daemon has the model, so this process no longer needs one
                with remote:
                    yield remote
                return
        with self._lock:
            yield self._opened(settings)

    def model(self) -> str:
        """Return the model that the memory's settings name. Raises ConfigError, RootError."""
        return str(self.settings()["embedder.model"])

    def _opened(self, settings: Settings) -> Memory:
        digest = settings_digest(settings)
        if self._here is None or digest != self._settings:
            if self._here is not None:
                self._here.close()
                self._here = None  # otherwise the next call would use it if the new one cannot be opened
            self._here, self._settings = connect_here(settings), digest
        return self._here

    def close(self) -> None:
        """Close the memory in this process, unless a call is using it."""
        if self._here is not None and self._lock.acquire(blocking=False):
            try:
                if self._here is not None:
                    self._here.close()
                    self._here = None
            finally:
                self._lock.release()


class StoredOpener:
    """Opens a memory of a database, once: it is only read."""

    def __init__(self, root: RegisteredRoot) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._memory: StoredMemory | None = None

    @contextmanager
    def memory(self, notice: Callable[[str], None] = lambda text: None) -> Iterator[MemoryApi]:  # noqa: ARG002 (because MemoryOpener has it)
        """Yield the memory for one call. Raises MemsyncError."""
        with self._lock:
            if self._memory is None:
                self._memory = _stored(self._root)
        yield self._memory

    def model(self) -> str:
        """Return the model of the user's own settings: no other one embeds a question for a database."""
        return str(default_of("embedder.model"))

    def close(self) -> None:
        """Close the connections to the database, unless a call waits for it."""
        if self._lock.acquire(blocking=False):
            try:
                if self._memory is not None:
                    self._memory.close()
                    self._memory = None
            finally:
                self._lock.release()


def _stored(root: RegisteredRoot) -> StoredMemory:
    return connect_stored(root.dsn, root.memory or root.name, root.source)


class _Asked(NamedTuple):
    """What one memory answered; `failure` is the error that it raised."""

    name: str
    value: Any
    failure: MemsyncError | None
    milliseconds: float
    notices: tuple[str, ...] = ()


class Openers:
    """The openers of registered memories, kept as long as a process asks them; each is made at its first use."""

    def __init__(self) -> None:
        self._by_root: dict[RegisteredRoot, MemoryOpener | StoredOpener] = {}

    def of(self, root: RegisteredRoot) -> MemoryOpener | StoredOpener:
        """Return the opener of a memory."""
        if root not in self._by_root:
            stored = StoredOpener(root) if root.dsn else None
            self._by_root.setdefault(root, stored or MemoryOpener(lambda: settings_of(root)))
        return self._by_root[root]

    def close(self) -> None:
        """Close every memory in this process."""
        for opener in list(self._by_root.values()):
            opener.close()


class Memories:
    """Several registered memories, asked at the same time. Safe to use from several threads.

    with Memories.open(["work", "home"]) as memories:
        for hit in memories.search("which store did we choose").hits:
            print(hit.citation, hit.snippet)

    `own` is the memory that the caller stands in, if any: a context takes instructions, logs and threads from it.
    """

    search = Lazy(lambda: features.search.search)
    get = Lazy(lambda: features.search.get)
    context = Lazy(lambda: features.compose.context)
    neighbours = Lazy(lambda: features.threads.neighbours)

    def __init__(
        self,
        roots: Mapping[str, RegisteredRoot],
        *,
        own: MemoryOpener | None = None,
        openers: Openers | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """Take the entries of the list. With `openers` nothing is closed here; `patience` is in seconds."""
        self.roots = roots
        self._own = own
        self._is_shared = openers is not None
        self._openers = openers or Openers()
        self._patience = patience

    @classmethod
    def open(cls, names: Iterable[str] = (), *, patience: float = PATIENCE_SECONDS) -> Memories:
        """Return the registered memories with these names (default: all).

        Each is opened when it is first asked. Raises UsageError for an unknown name, ConfigError if none is registered.
        """
        return cls(chosen_roots(tuple(names)), patience=patience)

    def close(self) -> None:
        """Release everything."""
        if self._is_shared:
            return
        self._openers.close()
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def run(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run `search`, `get`, `context` or `neighbours` on these memories.

        Raises MemsyncError, UsageError for any other operation.
        """
        answer: Callable[[dict[str, Any]], Any] | None = {
            "search": self._search,
            "get": self._get,
            "context": self._context,
            "neighbours": self._neighbours,
        }.get(operation.name)
        if answer is None:
            raise UsageError(f"{operation.name} works on one memory", hint="Name it with --root.")
        result: R = answer(operation.bind(args, kwargs))
        return result

    def folders(self) -> dict[str, str]:
        """Return the folder of each memory, by name; empty for a memory of a database."""
        return {name: root.path for name, root in self.roots.items()}

    # ------------------------------------------------------------------------------------------- operations

    def _search(self, arguments: dict[str, Any]) -> SearchResult:
        names, typed = without_roots(arguments["query"])
        roots = self._named(names)
        query = _checked_query({**arguments, "query": typed})
        tokens = arguments.pop("tokens", None)
        arguments = {**arguments, "query": typed, "limit": query.limit}
        is_shared = len(roots) > 1 and query.text and query.mode is not Mode.KEYWORD
        question = SharedQuestion(min(EMBED_SECONDS, self._patience / 4)) if is_shared else None

        def ask(memory: MemoryApi, model: str) -> SearchResult:
            embedded = question.embedded(model, partial(memory.embed_question, typed)) if question else None
            given = {"vector": embedded.vector, "space": embedded.space} if embedded else {}
            return memory.search(**{**arguments, **given})

        asked = self._ask_all(roots, ask)
        if not any(answer.failure is None for answer in asked):
            raise _all_failed(asked)
        answers = [
            Answered(
                answer.name,
                answer.value,
                answer.failure.sentences() if answer.failure else "",
                answer.milliseconds,
                answer.notices,
            )
            for answer in asked
        ]
        if tokens is None:
            return merged(query, answers)
        return merged(query, answers, tokens, lambda texts: make_token_counter().count(texts))

    def _get(self, arguments: dict[str, Any]) -> Excerpt:
        name, location = self._named_place(arguments["location"])
        try:
            excerpt: Excerpt = self._ask_one(name, lambda memory: memory.get(location))
        except NoSuchNote as error:
            error.hint = _OTHER_PATH.sub(f"{name}:", error.hint)
            raise
        return replace(excerpt, root=name)

    def _neighbours(self, arguments: dict[str, Any]) -> Neighbours:
        name, path = self._named_place(arguments.pop("path"))
        found: Neighbours = self._ask_one(name, lambda memory: memory.neighbours(path, **arguments))
        sides = (
            tuple(replace(message, path=NotePath(in_root(name, message.path))) for message in side)
            for side in (found.before, found.after)
        )
        return Neighbours(*sides)

    def _named_place(self, place: str) -> tuple[str, str]:
        """Split `NAME:PATH…`. Raises UsageError unless these memories have the name."""
        name, _, location = place.partition(":")
        if name in self.roots and location:
            return name, location
        if is_root_name(name) and location:
            raise unknown_root(name, self.roots)
        if name in self.roots:
            hint = f"Write {name}:PATH or {name}:PATH:LINE. To find citations, run: memsync search --roots {name} WORDS"
            raise UsageError(f"{name} is a registered memory, and no note", hint=hint)
        hint = f"Write NAME:PATH or NAME:PATH:LINE. Registered: {', '.join(self.roots)}."
        raise UsageError(f"{place[:200]!r} does not name a memory", hint=hint)

    def _context(self, arguments: dict[str, Any]) -> Context:
        """Compose the context of the current memory with the hits of these memories; without one, of the hits alone."""
        typed = arguments.pop("query", "")
        if self._own is None and not typed.strip():
            raise UsageError("a context of registered memories needs a query", hint="Say what the work is about.")
        if self._own is None and arguments.get("thread"):
            hint = "Run this in the memory root of the thread, or name that with --root."
            raise UsageError("a thread belongs to one memory", hint=hint)
        from memsync.features.context.compose import context, context_of_hits, hits_for

        budget = arguments.get("budget") or default_of("context.budget")
        found = self._search({"query": typed, "limit": hits_for(budget)}) if typed.strip() else None
        hits = found.hits if found else ()
        if self._own is None:
            composed = context_of_hits(hits, budget, make_token_counter().count)
        else:
            own_name = self._name_of(self._own.settings().root_name)
            hits = tuple(replace(hit, root="") if hit.root == own_name else hit for hit in hits)
            with self._own.memory() as memory:
                composed = memory.run(context, **{**arguments, "found": hits})
        if found is None:
            return composed
        pending = composed.pending_text + found.freshness.pending_text
        return replace(composed, warnings=(*found.warnings, *composed.warnings), pending_text=pending)

    def _name_of(self, root: str) -> str:
        """Return the name under which a memory root is registered; empty if it is not among these memories."""
        return next(
            (name for name, entry in self.roots.items() if entry.path and os.path.normpath(entry.path) == root), ""
        )

    # ------------------------------------------------------------------------------------------- the memories

    def _named(self, names: Iterable[str]) -> Mapping[str, RegisteredRoot]:
        for name in names:
            if name not in self.roots:
                raise unknown_root(name, self.roots)
        return {name: root for name, root in self.roots.items() if not names or name in names}

    def _ask_one(self, name: str, ask: Callable[[MemoryApi], Any]) -> Any:
        """Ask one memory and return its answer. Raises the error that it raised, with the memory's name."""
        (asked,) = self._ask_all({name: self.roots[name]}, lambda memory, _: ask(memory))
        if asked.failure is not None:
            raise type(asked.failure)(f"{name}: {asked.failure.message}", hint=asked.failure.hint)
        return asked.value

    def _ask_all(self, roots: Mapping[str, RegisteredRoot], ask: Callable[[MemoryApi, str], Any]) -> list[_Asked]:
        """Ask each memory on a thread of its own, and return the answers in the order of `roots`.

        `ask` also gets the memory's model. A memory that does not answer in time counts as failed; its thread ends
        whenever it can.
        """
        finished: SimpleQueue[_Asked] = SimpleQueue()
        for name, root in roots.items():
            work = partial(copy_context().run, _ask, name, self._openers.of(root), ask, finished)
            threading.Thread(target=work, name=f"memsync {name}", daemon=True).start()
        by_name: dict[str, _Asked] = {}
        limit = time.monotonic() + self._patience
        with suppress(Empty):
            while len(by_name) < len(roots):
                asked = finished.get(timeout=max(0.0, limit - time.monotonic()))
                by_name[asked.name] = _for_anywhere(asked, roots[asked.name].path)
        late = MemsyncError(f"no answer within {self._patience:g} s", hint="See memsync status in that memory root.")
        return [by_name.get(name) or _Asked(name, None, late, self._patience * 1000) for name in roots]


def _ask(
    name: str, opener: MemoryOpener | StoredOpener, ask: Callable[[MemoryApi, str], Any], finished: SimpleQueue[_Asked]
) -> None:
    """Open one memory and ask it; put its answer or its error into `finished`."""
    started = time.perf_counter()
    value, failure, notices = None, None, list[str]()
    try:
        with opener.memory(notices.append) as memory:
            value = ask(memory, opener.model())
    except MemsyncError as error:
        failure = error
    except Exception as error:  # noqa: BLE001 (because a fault in one memory must not hide the answers of the others)
        # The text of an error may have words of a database, which an agent could take for an instruction.
        detail = "" if isinstance(opener, StoredOpener) else f": {error}"
        failure = MemsyncError(f"memsync failed ({type(error).__name__}{detail})")
    milliseconds = (time.perf_counter() - started) * 1000
    finished.put(_Asked(name, value, failure, milliseconds, tuple(notices)))


def _for_anywhere(asked: _Asked, folder: str) -> _Asked:
    """Return an answer whose advice works in any folder: its commands name the memory root `folder`, if there is one.

    Otherwise a command would be about the current memory, or fail because there is none.
    """
    if not folder:
        return asked

    def named(text: str) -> str:
        return _OWN_COMMAND.sub(lambda _: f"memsync --root {shlex.quote(folder)} ", text)

    if asked.failure is not None:
        return asked._replace(failure=type(asked.failure)(asked.failure.message, hint=named(asked.failure.hint)))
    if isinstance(asked.value, SearchResult):
        return asked._replace(value=replace(asked.value, warnings=tuple(map(named, asked.value.warnings))))
    return asked


def _all_failed(asked: list[_Asked]) -> MemsyncError:
    """Return the error of a search in which no memory answered; its exit code is that of the first one's error."""
    failures = [(answer.name, answer.failure) for answer in asked if answer.failure is not None]
    first = failures[0][1]
    if len({(failure.message, failure.hint) for _, failure in failures}) == 1:
        where = "" if isinstance(first, UsageError) else f"{', '.join(name for name, _ in failures)}: "
        return type(first)(f"{where}{first.message}", hint=first.hint)
    reasons = "\n".join(f"{name}: {failure.sentences()}" for name, failure in failures)
    return type(first)("no memory could be searched", hint=reasons)


def _checked_query(arguments: Mapping[str, Any]) -> Query:
    """Return the query that all memories are asked, so that a wrong filter is an error once. Raises UsageError.

    Only folders are checked by each memory: one may have a folder that another has not.
    """
    from datetime import datetime

    if arguments.get("generation"):
        raise UsageError("a generation belongs to one memory", hint="Search that memory alone, without --generation.")
    pairs = [
        (_FILTER_OF.get(name, name), value)
        for name, values in arguments.items()
        if _FILTER_OF.get(name, name) in FILTERS
        for value in values
    ]
    pairs += [("is", "archived")] * bool(arguments.get("archived"))
    limit = arguments.get("limit") or (BUDGET_HITS if arguments.get("tokens") else default_of("search.limit"))
    return parse_query(
        arguments["query"],
        now=datetime.now(),
        limit=limit,
        mode=Mode(arguments.get("mode") or Mode.HYBRID),
        filters=Filters(),
        filter_pairs=pairs,
    )


class SharedQuestion:
    """A question that is embedded once for each model: by the first memory that is open. Safe for several threads."""

    def __init__(self, patience: float = EMBED_SECONDS) -> None:
        self._lock = threading.Lock()
        self._by_model: dict[str, Future[EmbeddedQuestion | None]] = {}
        self._patience = patience

    def embedded(self, model: str, embed: Callable[[], EmbeddedQuestion]) -> EmbeddedQuestion | None:
        """Return the question's vector: computed by `embed`, or by another memory with this model.

        Returns None if `embed` fails, or if the other memory takes too long. If the other memory fails, this one tries.
        """
        limit = time.monotonic() + self._patience
        while True:
            with self._lock:
                is_first = model not in self._by_model
                answer = self._by_model.setdefault(model, Future())
            if is_first:
                return self._computed(model, embed, answer)
            try:
                embedded = answer.result(max(0.0, limit - time.monotonic()))
            except FutureTimeout:
                return None
            if embedded is not None:
                return embedded

    def _computed(
        self, model: str, embed: Callable[[], EmbeddedQuestion], answer: Future[EmbeddedQuestion | None]
    ) -> EmbeddedQuestion | None:
        embedded = None
        try:
            with suppress(MemsyncError):  # the search says why: it then embeds the question itself
                embedded = embed()
        finally:
            if embedded is None:
                with self._lock:
                    del self._by_model[model]
            answer.set_result(embedded)
        return embedded


def unreachable(roots: Sequence[RegisteredRoot], patience: float = PATIENCE_SECONDS) -> dict[str, str]:
    """Return why each of these memories cannot be searched now, empty text if it can; asks all at the same time."""
    finished: SimpleQueue[tuple[str, str]] = SimpleQueue()

    def look(root: RegisteredRoot) -> None:
        try:
            if root.dsn:
                with _stored(root) as memory:
                    memory.require_text()
            finished.put((root.name, "" if root.dsn else fault_of(root)))
        except MemsyncError as error:
            finished.put((root.name, error.sentences()))
        except Exception as error:  # noqa: BLE001 (because a fault of one memory must not hide the others)
            finished.put((root.name, f"memsync failed ({type(error).__name__})"))

    faults = {root.name: f"no answer within {patience:g} s" for root in roots}
    for root in roots:
        threading.Thread(target=look, args=(root,), name=f"memsync {root.name}", daemon=True).start()
    limit = time.monotonic() + patience
    with suppress(Empty):
        for _ in range(len(faults)):
            name, fault = finished.get(timeout=max(0.0, limit - time.monotonic()))
            faults[name] = fault
    return faults


# ------------------------------------------------------------------------------------- what a request covers


def roots_in(names: Iterable[str], query: str) -> tuple[dict[str, RegisteredRoot], str]:
    """Return the registered memories that a request names, and the query without its `root:` filters.

    There are none if the request names none, neither in `names` nor by `root:`. ALL_ROOTS in `names` stands for all if
    nothing else is named. Raises UsageError for an unknown name, ConfigError if none is registered.
    """
    in_query, query = without_roots(query)
    named = (*names, *in_query)
    if not named:
        return {}, query
    return chosen_roots(tuple(name for name in named if name != ALL_ROOTS)), query


def root_of(location: str) -> dict[str, RegisteredRoot]:
    """Return the registered memory that a location `NAME:PATH…` names; empty if it does not name one.

    A note of the current memory may begin like that, too: it has to be written `./NAME:PATH`. If it came first, a clone
    could answer for another memory.
    """
    name, colon, rest = location.partition(":")
    if not (colon and rest and is_root_name(name)):
        return {}
    roots = registered_roots()
    return {name: roots[name]} if name in roots else {}
