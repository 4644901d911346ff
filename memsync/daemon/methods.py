"""What a request asks for -> what is answered: the methods of docs/protocol.md, over one engine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from memsync import __version__
from memsync.daemon import decode, wire
from memsync.daemon.engine import Engine
from memsync.errors import MemsyncError
from memsync.model import SearchResult, SyncReport
from memsync.model.plain import plain, plain_result
from memsync.settings import Settings

Notify = Callable[[str, dict[str, Any]], None]
Method = Callable[["Methods", Engine, dict[str, Any], Notify], dict[str, Any]]

PROGRESS_SECONDS = 0.1
WAIT_POLL_SECONDS = 0.02
LONGEST_WAIT_SECONDS = 600.0
SEARCH_PARAMS = frozenset({"query", "limit", "mode", "filters", "filter_pairs", "tokens", "fresh", "generation"})


class InvalidParams(MemsyncError):
    """A request's parameters are not those of its method."""

    exit_code = 2


class Methods:
    """Answers requests; `stop` is called when one asks the daemon to end."""

    def __init__(self, settings: Settings, stop: Callable[[], None]) -> None:
        self._digest = wire.settings_digest(settings)
        self._root = str(settings.root)
        self._stop = stop
        self._stopping = False

    def answer(self, engine: Engine, method: str, params: dict[str, Any], notify: Notify) -> dict[str, Any]:
        """Return the result of one request, freshness included. Raises MemsyncError."""
        with engine.in_use():
            result = METHODS[method](self, engine, params, notify)
            if "freshness" not in result:
                freshness = engine.freshness()
                result["freshness"] = {**plain(freshness), "stale": freshness.stale}
            return result

    def _hello(self, engine: Engine, params: dict[str, Any], notify: Notify) -> dict[str, Any]:
        del engine, notify
        _only(params, "protocol", "version")
        return {
            "protocol": wire.PROTOCOL,
            "version": __version__,
            "process": os.getpid(),
            "root": self._root,
            "settings": self._digest,
        }

    def _search(self, engine: Engine, params: dict[str, Any], notify: Notify) -> dict[str, Any]:
        del notify
        _only(params, *SEARCH_PARAMS)
        try:
            arguments = _search_arguments(params)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise InvalidParams(f"search cannot be asked so: {error}", hint="See docs/protocol.md.") from error
        result: SearchResult = engine.memory.search(**arguments)
        return plain_result(result)

    def _get(self, engine: Engine, params: dict[str, Any], notify: Notify) -> dict[str, Any]:
        del notify
        _only(params, "location")
        found: dict[str, Any] = plain(engine.memory.get(_text(params, "location")))
        return found

    def _status(self, engine: Engine, params: dict[str, Any], notify: Notify) -> dict[str, Any]:
        del notify
        _only(params)
        found: dict[str, Any] = plain(engine.status())
        return found

    def _sync(self, engine: Engine, params: dict[str, Any], notify: Notify) -> dict[str, Any]:
        _only(params, "accept_root", "wait_seconds", "progress")
        wait_seconds = _number(params, "wait_seconds", 600.0)
        told = 0.0

        def progress(what: str, done: int, total: int) -> None:
            nonlocal told
            if done == total or time.monotonic() - told >= PROGRESS_SECONDS:
                told = time.monotonic()
                notify("progress", {"what": what, "done": done, "total": total})

        report: SyncReport = engine.memory.sync(
            progress=progress if params.get("progress") is True else None,
            wait_seconds=wait_seconds,
            accept_root=params.get("accept_root") is True,
        )
        engine.keeper.notice()
        answer: dict[str, Any] = plain(report)
        return answer

    def _wait(self, engine: Engine, params: dict[str, Any], notify: Notify) -> dict[str, Any]:
        del notify
        _only(params, "generation", "vectors", "seconds")
        wanted = int(_number(params, "generation", 0))
        limit = time.monotonic() + min(_number(params, "seconds", 10.0), LONGEST_WAIT_SECONDS)
        while True:
            now = engine.freshness()
            embedded = params.get("vectors") is not True or (now.pending_vectors == 0 and now.pending_text == 0)
            reached = now.generation >= wanted and embedded
            if reached or time.monotonic() >= limit or self._stopping:
                return {"reached": reached, "freshness": {**plain(now), "stale": now.stale}}
            time.sleep(WAIT_POLL_SECONDS)

    def _shutdown(self, engine: Engine, params: dict[str, Any], notify: Notify) -> dict[str, Any]:
        del engine, notify
        _only(params)
        self._stop()
        return {"stopping": True}

    def close(self) -> None:
        """End every wait."""
        self._stopping = True


METHODS: dict[str, Method] = {
    "hello": Methods._hello,
    "search": Methods._search,
    "get": Methods._get,
    "status": Methods._status,
    "sync": Methods._sync,
    "wait": Methods._wait,
    "shutdown": Methods._shutdown,
}
LONG = frozenset({"sync", "wait"})
"""Methods that may take minutes; they have threads of their own, so that they hold nobody else up."""


def _search_arguments(params: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of Memory.search that a request names. Raises TypeError, KeyError, ValueError."""
    arguments = dict(params)
    for name, kind in (("limit", int), ("tokens", int), ("generation", int), ("mode", str), ("fresh", str)):
        if name in arguments and type(arguments[name]) is not kind:
            raise TypeError(f"{name} must be {'text' if kind is str else 'a whole number'}")
    query = arguments["query"]
    if isinstance(query, str):
        arguments["query"] = query.encode("utf-8", "replace").decode()  # half a surrogate pair is no text
    else:
        arguments["query"] = decode.query(query)
    if "filters" in arguments:
        arguments["filters"] = decode.filters(arguments["filters"])
    arguments["filter_pairs"] = [(str(name), str(value)) for name, value in arguments.get("filter_pairs", ())]
    return arguments


def _only(params: dict[str, Any], *known: str) -> None:
    unknown = sorted(params.keys() - set(known))
    if unknown:
        raise InvalidParams(
            f"no such parameter: {', '.join(unknown)}", hint=f"Known are: {', '.join(sorted(known)) or 'none'}."
        )


def _text(params: dict[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise InvalidParams(f"{name} must be text", hint="See docs/protocol.md.")
    return value


def _number(params: dict[str, Any], name: str, default: float) -> float:
    value = params.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or value < 0:
        raise InvalidParams(f"{name} must be a number from 0", hint="See docs/protocol.md.")
    return float(value)
