"""The daemon's methods: every operation, and the methods that only a daemon has (docs/programs.md)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, ParamSpec

from msgspec import Meta

from memsync import __version__, features
from memsync.client import wire
from memsync.daemon.engine import Engine
from memsync.errors import DaemonOutdated, MemsyncError, UsageError
from memsync.model.json import to_json
from memsync.model.query import LATEST_GENERATION
from memsync.operation import OPERATIONS, Operation
from memsync.ports import for_agent
from memsync.sync.gate import Stopped

P = ParamSpec("P")

features.load()  # every operation is a method

PROGRESS_SECONDS = 0.1
WAIT_POLL_SECONDS = 0.02
WAIT_SECONDS = 10.0
LONGEST_WAIT_SECONDS = 600.0
DAEMON_METHODS: dict[str, Operation[Any, dict[str, Any]]] = {}
"""The daemon's own methods, which are not operations of a memory, by name."""


RunCommand = Callable[..., dict[str, Any]]
"""Runs a command line on a memory and returns its output; an empty result declines, and the client runs it itself."""


class RequestError(MemsyncError):
    """The request breaks the protocol; `code` is the JSON-RPC error code."""

    exit_code = 2
    code = wire.INVALID_PARAMS


class OtherProtocol(RequestError):
    """The client speaks another version of the protocol."""

    code = wire.OTHER_PROTOCOL


@dataclass(frozen=True, slots=True)
class Host:
    """What requests work with: the engine, and functions that stop the daemon and run a command line for a client."""

    engine: Engine
    stop: Callable[[], object]
    run_command: RunCommand


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a daemon; `notify` sends its client a notification, `is_over` tells that the client has gone."""

    host: Host
    method: str
    params: Mapping[str, Any]
    notify: Callable[[str, dict[str, Any]], None]
    is_over: Callable[[], bool]

    @property
    def engine(self) -> Engine:
        """The engine that answers."""
        return self.host.engine

    def result(self) -> dict[str, Any]:
        """Return the result, freshness included. Raises MemsyncError."""
        with self.engine.in_use():
            try:
                if self.method not in ("hello", "status", "shutdown"):
                    self.engine.memory.settings.require_current()
            except MemsyncError as error:  # the client then does the work itself
                raise DaemonOutdated(error.message, hint="Run: memsync daemon restart") from error
            if (method := DAEMON_METHODS.get(self.method)) is not None:
                result = method.function(self, **_arguments(method, self.params))
            else:
                result = {"answer": self._answer(OPERATIONS[self.method])}
            if "freshness" not in result:
                result["freshness"] = freshness_of(self.engine)
            return result

    def _answer(self, operation: Operation[Any, Any]) -> Any:
        """Run an operation. Each also takes `progress` (send progress reports) and `agent` (an agent is asking)."""
        params = dict(self.params)
        options = {name: params.pop(name, None) for name in ("agent", "progress") if name not in operation.values}
        for name, value in options.items():
            if value is not None and not isinstance(value, (bool, str) if name == "agent" else bool):
                raise RequestError(f"{name} must be true or false", hint="See docs/programs.md.")
        arguments = _arguments(operation, params)
        if options.get("progress") and "progress" in operation.parameters:
            arguments["progress"] = self._progress()
        agent = options.get("agent")
        with for_agent(agent if isinstance(agent, str) else "") if agent else nullcontext():
            answer = to_json(self.engine.memory.run(operation, **arguments))
        if operation.name == "sync":
            self.engine.keeper.notice()  # so that the keeper compares all files and embeds what is missing
        return answer

    def _progress(self) -> Callable[[str, int, int], None]:
        reported_at = 0.0

        def progress(what: str, done: int, total: int) -> None:
            nonlocal reported_at
            if done == total or time.monotonic() - reported_at >= PROGRESS_SECONDS:
                reported_at = time.monotonic()
                self.notify("progress", {"what": what, "done": done, "total": total})

        return progress


def is_method(name: str) -> bool:
    """Return whether the daemon has a method of this name."""
    return name in DAEMON_METHODS or (name in OPERATIONS and not OPERATIONS[name].is_local)


def method_names() -> list[str]:
    """Return the names of all methods."""
    return [*DAEMON_METHODS, *(name for name in OPERATIONS if is_method(name))]


def pool_of(name: str, params: Mapping[str, Any]) -> str:
    """Return the pool of threads that a method runs in: `long` if it may take minutes, `quick`, or `greeting`.

    A greeting must not even wait for searches: a client that gets none soon gives up.
    """
    method = DAEMON_METHODS.get(name) or OPERATIONS[name]
    if method.is_quick:
        request = params.get("request")
        asked = {**params, **request} if isinstance(request, dict) else params
        may_wait = any(asked.get(name) for name in ("generation", "rerank", "at")) or "@" in str(asked.get("location"))
        return "long" if may_wait else "quick"
    return "greeting" if name in DAEMON_METHODS and not method.is_slow else "long"


def freshness_of(engine: Engine) -> dict[str, Any] | None:
    """Return how current the index is; None if it cannot be read, since that need not fail the request."""
    try:
        freshness: dict[str, Any] = to_json(engine.freshness())
    except MemsyncError:
        return None
    return freshness


def _arguments(operation: Operation[Any, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return operation.arguments_from(params)
    except UsageError as error:
        raise RequestError(error.message, hint=error.hint) from error


def _method(
    *, is_slow: bool = False, is_quick: bool = False
) -> Callable[[Callable[Concatenate[Request, P], dict[str, Any]]], Operation[P, dict[str, Any]]]:
    def declare(function: Callable[Concatenate[Request, P], dict[str, Any]]) -> Operation[P, dict[str, Any]]:
        declared: Operation[P, dict[str, Any]] = Operation(function, is_slow=is_slow, is_quick=is_quick)
        DAEMON_METHODS[declared.name] = declared
        return declared

    return declare


@_method()
def hello(
    request: Request,
    *,
    protocol: Annotated[int | None, Meta(ge=0, le=2**31, description="The protocol's version.")] = None,
    version: Annotated[str, Meta(description="The client's own version.")] = "",  # noqa: ARG001 (because clients send it)
) -> dict[str, Any]:
    """Return which daemon this is; refuse a client that speaks another version of the protocol."""
    if protocol not in (None, wire.PROTOCOL):
        raise OtherProtocol(
            f"the daemon (memsync {__version__}) speaks protocol {wire.PROTOCOL}, not {protocol}",
            hint="Run: memsync daemon restart",
        )
    settings = request.engine.memory.settings
    return {
        "protocol": wire.PROTOCOL,
        "version": __version__,
        "process": os.getpid(),
        "root": str(settings.root),
        "settings": wire.settings_digest(settings),
        "daemon_settings": wire.daemon_settings_digest(settings),
    }


@_method(is_slow=True)
def wait(
    request: Request,
    *,
    generation: Annotated[int, Meta(ge=0, le=LATEST_GENERATION, description="The generation to wait for.")] = 0,
    vectors: Annotated[bool, Meta(description="Also wait until nothing is left to embed.")] = False,
    model: Annotated[bool, Meta(description="Also wait until the model is loaded or has failed.")] = False,
    seconds: Annotated[float, Meta(ge=0, description="How long to wait at most, up to 600.")] = WAIT_SECONDS,
) -> dict[str, Any]:
    """Wait until the index has reached a generation and, if asked, until all is embedded and the model is loaded."""
    limit = time.monotonic() + min(seconds, LONGEST_WAIT_SECONDS)
    keeper = request.engine.keeper
    turn = keeper.hasten() if vectors else 0
    while True:
        indexed = keeper.has_finished(turn)  # read this before the freshness, which must include it
        now = request.engine.freshness()
        embedded = not vectors or (indexed and now.pending_vectors == 0 and now.pending_text == 0)
        warm = not model or request.engine.vectors.has_warmed
        reached = now.generation >= generation and embedded and warm
        if reached or time.monotonic() >= limit:
            return {"reached": reached, "freshness": to_json(now)}
        if request.is_over():
            raise Stopped
        time.sleep(WAIT_POLL_SECONDS)


@_method(is_quick=True)
def command(
    request: Request,
    *,
    arguments: Annotated[tuple[str, ...], Meta(description="The command line, after `memsync`.")],
    folder: Annotated[str, Meta(description="The current folder.")] = "",
    is_terminal: Annotated[bool, Meta(description="Whether standard output is a terminal.")] = False,
    has_colour: Annotated[bool, Meta(description="Whether to colour the output.")] = False,
    width: Annotated[int, Meta(ge=0, le=10_000, description="The columns of the terminal; 0: no limit.")] = 0,
    open_with: Annotated[str, Meta(description="Where links lead: the setting cli.open_with.")] = "",
) -> dict[str, Any]:
    """Run a command line and return its output. The memsync command uses this to start faster."""
    terminal = {"is_terminal": is_terminal, "has_colour": has_colour, "width": width}
    return request.host.run_command(request.engine.memory, arguments, folder, open_with, **terminal)


@_method(is_quick=True)
def hook(
    request: Request,
    *,
    event: Annotated[str, Meta(description="session-start, prompt, compaction or session-end.")],
    agent: Annotated[str, Meta(description="The agent's name: claude-code, codex, …")],
    payload: Annotated[str, Meta(description="The JSON that the agent gave to its hook.")] = "",
    folder: Annotated[str, Meta(description="The hook's current folder.")] = "",
) -> dict[str, Any]:
    """Return what an agent's hook prints, so that the agent recalls something; empty for nothing."""
    request.engine.notes.heard(event, payload)
    request.engine.transcripts.hooked(agent)
    try:
        out, receipt = request.engine.recaller.answer(agent, event, payload, folder)
        return {"out": out, "receipt": receipt}
    except (ValueError, OSError, RecursionError) as error:
        raise RequestError(f"the event of {agent} cannot be answered: {error}", hint="See memsync recall.") from error


@_method()
def delivered(
    request: Request, *, receipt: Annotated[str, Meta(description="What the answer to the hook contained.")]
) -> dict[str, Any]:
    """Record that a hook has printed what it was answered. Without this, the answer does not count as recalled."""
    request.engine.recaller.delivered(receipt)
    return {}


@_method(is_slow=True)
def web(request: Request) -> dict[str, Any]:
    """Start or end the web server as `memsync web` has recorded; return its URL, empty if it is off."""
    return {"url": request.engine.web.apply()}


@_method()
def shutdown(request: Request) -> dict[str, Any]:
    """End the daemon."""
    request.host.stop()
    return {"stopping": True}
