"""What a request asks for -> what is answered: the methods of docs/protocol.md, over one engine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from memsync import __version__
from memsync.daemon import wire
from memsync.daemon.call_arguments import CALLS, call_arguments
from memsync.daemon.engine import Engine
from memsync.daemon.params import LATEST_GENERATION, Params, RequestError, search_arguments
from memsync.errors import MemsyncError
from memsync.model import SearchResult, SyncReport
from memsync.model.plain import plain, plain_result
from memsync.settings import Settings
from memsync.sync.gate import Stopped

PROGRESS_SECONDS = 0.1
WAIT_POLL_SECONDS = 0.02
WAIT_SECONDS = 10.0
LONGEST_WAIT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of which engine: `notify` sends a notification meanwhile, `is_over` tells that nobody waits."""

    engine: Engine
    params: Params
    notify: Callable[[str, dict[str, Any]], None]
    is_over: Callable[[], bool]


Method = Callable[["Methods", Request], dict[str, Any]]


class OtherProtocol(RequestError):
    """The client speaks another version of the protocol."""

    code = wire.OTHER_PROTOCOL


class Methods:
    """Answers requests; `stop` is called when one asks the daemon to end."""

    def __init__(self, settings: Settings, stop: Callable[[], None]) -> None:
        self._digest = wire.settings_digest(settings)
        self._daemon_digest = wire.daemon_settings_digest(settings)
        self._root = str(settings.root)
        self._stop = stop

    def answer(self, method: str, request: Request) -> dict[str, Any]:
        """Return the result of one request, freshness included. Raises MemsyncError."""
        with request.engine.in_use():
            result = METHODS[method](self, request)
            if "freshness" not in result:
                result["freshness"] = plain_freshness(request.engine)
            return result

    def _hello(self, request: Request) -> dict[str, Any]:
        with request.params as params:
            protocol = params.whole("protocol", 0, 2**31)
            params.text("version")
        if protocol not in (None, wire.PROTOCOL):
            raise OtherProtocol(
                f"the daemon (memsync {__version__}) speaks protocol {wire.PROTOCOL}, not {protocol}",
                hint="Run: memsync restart",
            )
        return {
            "protocol": wire.PROTOCOL,
            "version": __version__,
            "process": os.getpid(),
            "root": self._root,
            "settings": self._digest,
            "daemon_settings": self._daemon_digest,
        }

    def _search(self, request: Request) -> dict[str, Any]:
        with request.params as params:
            arguments = search_arguments(params)
        result: SearchResult = request.engine.memory.search(**arguments)
        return plain_result(result)

    def _get(self, request: Request) -> dict[str, Any]:
        with request.params as params:
            params.needed("location")
            location = params.text("location")
        found: dict[str, Any] = plain(request.engine.memory.get(location))
        return found

    def _status(self, request: Request) -> dict[str, Any]:
        with request.params:
            found: dict[str, Any] = plain(request.engine.status())
            return found

    def _sync(self, request: Request) -> dict[str, Any]:
        with request.params as params:
            accept_root, wants_progress = params.flag("accept_root"), params.flag("progress")
            wait_seconds = params.number("wait_seconds", most=LONGEST_WAIT_SECONDS, default=LONGEST_WAIT_SECONDS)
        told = 0.0

        def progress(what: str, done: int, total: int) -> None:
            nonlocal told
            if done == total or time.monotonic() - told >= PROGRESS_SECONDS:
                told = time.monotonic()
                request.notify("progress", {"what": what, "done": done, "total": total})

        report: SyncReport = request.engine.memory.sync(
            progress=progress if wants_progress else None, wait_seconds=wait_seconds, accept_root=accept_root
        )
        request.engine.keeper.notice()
        answer: dict[str, Any] = plain(report)
        return answer

    def _wait(self, request: Request) -> dict[str, Any]:
        with request.params as params:
            wanted = params.whole("generation", 0, LATEST_GENERATION) or 0
            vectors, model = params.flag("vectors"), params.flag("model")
            seconds = params.number("seconds", most=LONGEST_WAIT_SECONDS, default=WAIT_SECONDS)
        limit = time.monotonic() + seconds
        turn = request.engine.keeper.hasten() if vectors else 0
        while True:
            indexed = request.engine.keeper.has_finished(turn)  # before the freshness that is to show it
            now = request.engine.freshness()
            embedded = not vectors or (indexed and now.pending_vectors == 0 and now.pending_text == 0)
            warm = not model or request.engine.vectors.has_warmed
            reached = now.generation >= wanted and embedded and warm
            if reached or time.monotonic() >= limit:
                return {"reached": reached, "freshness": {**plain(now), "stale": now.stale}}
            if request.is_over():
                raise Stopped
            time.sleep(WAIT_POLL_SECONDS)

    def _subscribe(self, request: Request) -> dict[str, Any]:
        with request.params:
            return {"subscribed": True}  # whom to send what to is the server's business

    def _shutdown(self, request: Request) -> dict[str, Any]:
        with request.params:
            pass
        self._stop()
        return {"stopping": True}


def plain_freshness(engine: Engine) -> dict[str, Any] | None:
    """Return how current the index is; None when it cannot be read, which need not fail what is asked."""
    try:
        freshness = engine.freshness()
    except MemsyncError:
        return None
    return {**plain(freshness), "stale": freshness.stale}


def _call(name: str, signature: Mapping[str, Any]) -> Method:
    """Return the method that answers one of `memsync.calls`."""

    def answer(methods: Methods, request: Request) -> dict[str, Any]:  # noqa: ARG001 (because every method is called so)
        with request.params as params:
            arguments = call_arguments(params, signature)
        return {"answer": plain(request.engine.memory.answer(name, arguments))}

    return answer


METHODS: dict[str, Method] = {
    "hello": Methods._hello,
    "search": Methods._search,
    "get": Methods._get,
    "status": Methods._status,
    "sync": Methods._sync,
    "wait": Methods._wait,
    "subscribe": Methods._subscribe,
    "shutdown": Methods._shutdown,
    **{name: _call(name, signature) for name, signature in CALLS.items()},
}
LONG = frozenset({"sync", "wait", *CALLS})
"""Methods that may take minutes; they have threads of their own, so that they hold nobody else up."""
