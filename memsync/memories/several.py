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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from msgspec.structs import replace

from memsync import features
from memsync.errors import MemsyncError, NoSuchNote, UsageError, own_error
from memsync.memories.merging import AnsweredMemory, merged
from memsync.memories.reopening import Opener, open_stored
from memsync.model.answer import Excerpt, SearchResult
from memsync.model.conversation import Neighbours
from memsync.model.query import EmbeddedQuestion, Query, SearchRequest
from memsync.model.vocabulary import Mode, NotePath, in_root
from memsync.operation import AT, Lazy, Operation, Several
from memsync.search.query_syntax import parse_request, without_roots
from memsync.settings.load import default_of, settings_of
from memsync.settings.roots import (
    RegisteredRoot,
    chosen_roots,
    is_root_name,
    named_roots,
    registered_roots,
    unknown_root,
)
from memsync.wiring import make_token_counter

if TYPE_CHECKING:
    from memsync.memory import MemoryApi
    from memsync.model.context import Context

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE_SECONDS = 10.0
"""How long an answer waits for the slowest memory; the other memories answer without it."""
EMBED_SECONDS = 2.0
"""How long all wait for a vector that they share, before each embeds the question itself; at most a quarter of their
patience."""
ALL_ROOTS = "*"
_OWN_COMMAND = re.compile(r"(?<=\brun )memsync (?=[a-z -]+$)|(?<=\brun: )memsync (?=[a-z -]+$)", re.IGNORECASE)
"""A command at the end of an advice, which works inside of the memory root that gives it."""
_OTHER_PATH = re.compile(r"(?<=^Did you mean )|(?<=^It was archived as )")
"""Where the hint of a missing note names another note."""


class Memories:
    """Several registered memories, asked at the same time. Safe to use from several threads.

    with Memories.open(["work", "home"]) as memories:
        for hit in memories.search("which store did we choose").hits:
            print(hit.citation, hit.snippet)

    A context takes instructions, logs and threads from the current memory, which `opener` has, if there is one.
    """

    search = Lazy(lambda: features.search.search)
    get = Lazy(lambda: features.search.get)
    context = Lazy(lambda: features.compose.context)
    neighbours = Lazy(lambda: features.threads.neighbours)

    def __init__(
        self,
        roots: Mapping[str, RegisteredRoot],
        *,
        opener: Opener | None = None,
        patience: float = PATIENCE_SECONDS,
        filters: Mapping[str, Sequence[tuple[str, str]]] = MappingProxyType({}),
    ) -> None:
        """Take the entries of the list; `patience` is in seconds.

        `filters` has the filters that each memory gets besides those of a search, by its name.
        """
        self.roots = roots
        self._opener = opener or Opener()
        self._patience = patience
        self._filters = filters

    @classmethod
    def open(cls, names: Iterable[str] = (), *, patience: float = PATIENCE_SECONDS) -> Memories:
        """Return the registered memories with these names (default: all).

        Each is opened when it is first asked. Raises UsageError for an unknown name, ConfigError if none is registered.
        """
        return cls(chosen_roots(tuple(names)), patience=patience)

    def close(self) -> None:
        """Release everything, the memories of the opener included."""
        self._opener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def run(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an operation that several memories answer. Raises MemsyncError, UsageError for any other operation."""
        if not operation.several:
            raise UsageError(f"{operation.name} works on one memory", hint="Name it with --root.")
        arguments = operation.bind(args, kwargs)
        answers: dict[str, Callable[..., Any]] = {
            "search": self._search, "get": self._get, "context": self._context, "neighbours": self._neighbours
        }  # fmt: skip
        result: R = answers[operation.name](**arguments)
        return result

    def folders(self) -> dict[str, str]:
        """Return the folder of each memory, by name; empty for a memory of a database."""
        return {name: root.path for name, root in self.roots.items()}

    # ------------------------------------------------------------------------------------------- operations

    def answer(self, request: SearchRequest, at: str = "") -> SearchResult:
        """Answer a search with the hits of all memories, or of those that its `root:` filters name; `at` is a commit.

        A wrong filter is one error. Only folders are checked by each memory: one may have a folder that another lacks.
        """
        names, typed = without_roots(request.query)
        roots = named_roots(names, self.roots)
        if request.generation:
            hint = "Leave out --generation, or search one memory alone."
            raise UsageError("a generation belongs to one memory", hint=hint)
        query = parse_request(replace(request, query=typed), default_of)
        asked = replace(request, query=typed, limit=query.limit, tokens=None)
        vectors = self._vectors(roots, query, typed)
        answers = self._ask_all(
            roots,
            lambda memory, name: memory.answer_request(
                replace(asked, question=vectors.get(name), filters=(*asked.filters, *self._filters.get(name, ()))),
                at=at,
            ),
        )
        if not any(answer.failure is None for answer in answers):
            raise _all_failed(answers)
        return merged(query, answers, lambda texts: make_token_counter().count(texts))

    def _vectors(self, roots: Mapping[str, RegisteredRoot], query: Query, typed: str) -> dict[str, EmbeddedQuestion]:
        """Return the question's vector by memory, for each model of several memories: its first memory embeds it.

        Where that fails or takes too long, each memory embeds the question itself, and says what is wrong.
        """
        if not query.text or query.mode is Mode.KEYWORD:
            return {}
        by_model: dict[str, list[str]] = {}
        for name, root in roots.items():
            with suppress(MemsyncError):  # the search says why
                by_model.setdefault(self._opener.model(root), []).append(name)
        sharing = {names[0]: names for names in by_model.values() if len(names) > 1}
        answers = self._ask_all(
            {name: roots[name] for name in sharing},
            lambda memory, _: memory.embed_question(typed),
            min(EMBED_SECONDS, self._patience / 4),
        )
        return {name: answer.value for answer in answers if answer.failure is None for name in sharing[answer.name]}

    def _search(self, at: str = "", **arguments: Any) -> SearchResult:
        return features.search.search.function(SimpleNamespace(answer=partial(self.answer, at=at)), **arguments)

    def _get(self, location: str) -> Excerpt:
        name, place = self._named_place(location)
        try:
            excerpt: Excerpt = self._ask_one(name, lambda memory: memory.get(place))
        except NoSuchNote as error:
            error.hint = _OTHER_PATH.sub(f"{name}:", error.hint)
            raise
        return replace(excerpt, root=name)

    def _neighbours(self, path: str, **arguments: Any) -> Neighbours:
        name, note = self._named_place(path)
        found: Neighbours = self._ask_one(name, lambda memory: memory.neighbours(note, **arguments))
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

    def _context(self, query: str = "", budget: int = 0, thread: str = "", **arguments: Any) -> Context:
        """Compose the context of the current memory with the hits of these memories; without one, of the hits alone."""
        if not self._opener.has_own and not query.strip():
            raise UsageError("a context of registered memories needs a query", hint="Say what the work is about.")
        if not self._opener.has_own and thread:
            hint = "Run this in the memory root of the thread, or name that with --root."
            raise UsageError("a thread belongs to one memory", hint=hint)
        if arguments.get(AT):
            raise UsageError("context --at works on one memory", hint="Leave out --at, or the other memories.")
        from memsync.features.context.compose import DEFAULT_TOKENS, context, context_of_hits, hits_for

        budget = budget or DEFAULT_TOKENS
        found = self.answer(SearchRequest(query, hits_for(budget))) if query.strip() else None
        hits = found.hits if found else ()
        if not self._opener.has_own:
            composed = context_of_hits(hits, budget, make_token_counter().count)
        else:
            own_name = next((name for name, root in self.roots.items() if self._opener.is_own(root)), None)
            hits = tuple(replace(hit, root="") if hit.root == own_name else hit for hit in hits)
            with self._opener.memory() as memory:
                composed = memory.run(context, budget=budget, thread=thread, found=hits, **arguments)
        if found is None:
            return composed
        pending = composed.pending_text + found.freshness.pending_text
        return replace(composed, warnings=(*found.warnings, *composed.warnings), pending_text=pending)

    # ------------------------------------------------------------------------------------------- the memories

    def _ask_one(self, name: str, ask: Callable[[MemoryApi], Any]) -> Any:
        """Ask one memory and return its answer. Raises the error that it raised, with the memory's name."""
        (asked,) = self._ask_all({name: self.roots[name]}, lambda memory, _: ask(memory))
        if asked.failure is not None:
            raise type(asked.failure)(f"{name}: {asked.failure.message}", hint=asked.failure.hint)
        return asked.value

    def _ask_all(
        self, roots: Mapping[str, RegisteredRoot], ask: Callable[[MemoryApi, str], Any], patience: float = 0.0
    ) -> list[AnsweredMemory]:
        """Ask each memory on a thread of its own, and return the answers in the order of `roots`.

        `ask` also gets the memory's name. A memory that does not answer in time counts as failed; its thread ends
        whenever it can.
        """
        patience = patience or self._patience
        late = MemsyncError(f"no answer within {patience:g} s", hint="See memsync status in that memory root.")
        answers = _at_once(roots, lambda root: self._ask(root, ask), patience)
        return [answers.get(name) or AnsweredMemory(name, failure=late, milliseconds=patience * 1000) for name in roots]

    def _ask(self, root: RegisteredRoot, ask: Callable[[MemoryApi, str], Any]) -> AnsweredMemory:
        """Open one memory and ask it; return its answer or its error."""
        started = time.perf_counter()
        value, failure, notices = None, None, list[str]()
        try:
            with self._opener.memory(root, notices.append) as memory:
                value = ask(memory, root.name)
        except Exception as error:  # noqa: BLE001 (because a fault in one memory must not hide the answers of the others)
            failure = own_error(error)
        milliseconds = (time.perf_counter() - started) * 1000
        return _for_anywhere(AnsweredMemory(root.name, value, failure, milliseconds, tuple(notices)), root.path)


def _at_once(roots: Mapping[str, RegisteredRoot], work: Callable[[RegisteredRoot], R], patience: float) -> dict[str, R]:
    """Work on each memory on a thread of its own; return the results that came within `patience` seconds, by name."""
    finished: SimpleQueue[tuple[str, R]] = SimpleQueue()

    def run(name: str) -> None:
        finished.put((name, work(roots[name])))

    for name in roots:
        threading.Thread(target=copy_context().run, args=(run, name), name=f"memsync {name}", daemon=True).start()
    limit, results = time.monotonic() + patience, dict[str, R]()
    with suppress(Empty):
        while len(results) < len(roots):
            name, result = finished.get(timeout=max(0.0, limit - time.monotonic()))
            results[name] = result
    return results


def _for_anywhere(asked: AnsweredMemory, folder: str) -> AnsweredMemory:
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


def _all_failed(asked: Sequence[AnsweredMemory]) -> MemsyncError:
    """Return the error of a search in which no memory answered; its exit code is that of the first one's error."""
    failures = [(answer.name, answer.failure) for answer in asked if answer.failure is not None]
    first = failures[0][1]
    if len({(failure.message, failure.hint) for _, failure in failures}) == 1:
        where = "" if isinstance(first, UsageError) else f"{', '.join(name for name, _ in failures)}: "
        return type(first)(f"{where}{first.message}", hint=first.hint)
    reasons = "\n".join(f"{name}: {failure.sentences()}" for name, failure in failures)
    return type(first)("no memory could be searched", hint=reasons)


def unreachable(roots: Mapping[str, RegisteredRoot], patience: float = PATIENCE_SECONDS) -> dict[str, str]:
    """Return why each of these memories cannot be searched now, empty text if it can; asks all at the same time."""

    def look(root: RegisteredRoot) -> str:
        try:
            if root.dsn:
                with open_stored(root) as memory:
                    memory.require_text()
            else:
                settings_of(root)
                os.scandir(root.path).close()
        except OSError as error:
            return f"{root.path}: {error.strerror or error}"
        except Exception as error:  # noqa: BLE001 (because a fault of one memory must not hide the others)
            return own_error(error).sentences()
        return ""

    return dict.fromkeys(roots, f"no answer within {patience:g} s") | _at_once(roots, look, patience)


# ------------------------------------------------------------------------------------- what a request covers


def covered(
    operation: Operation[Any, Any], arguments: Mapping[str, Any], names: Iterable[str] = ()
) -> tuple[dict[str, RegisteredRoot], dict[str, Any]]:
    """Return the registered memories that a request names, and its arguments without their names.

    There are none if it names none: neither in `names`, nor by `root:` in a query, nor at the beginning of a citation
    `NAME:PATH…`, which keeps its name. ALL_ROOTS in `names` stands for all if nothing else is named. A note of the
    current memory may begin like a citation, too: it has to be written `./NAME:PATH`. If it came first, a clone could
    answer for another memory. Raises UsageError for an unknown name, ConfigError if none is registered.
    """
    given = dict(arguments)
    text = str(given.get(operation.several, ""))
    if operation.several is Several.QUERY:
        in_query, rest = without_roots(text)
        if named := (*names, *in_query):
            given["query"] = rest
            return chosen_roots(tuple(name for name in named if name != ALL_ROOTS)), given
    elif operation.several:
        name, _, place = text.partition(":")
        roots = registered_roots() if place and is_root_name(name) else {}
        if name in roots:
            return {name: roots[name]}, given
    return {}, given
