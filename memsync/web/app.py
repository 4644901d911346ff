"""Combine the API, the health of the memory and the pages into one application, which Guard protects."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from memsync.errors import MemsyncError
from memsync.model.json import to_json
from memsync.web import api, pages
from memsync.web.access import Access
from memsync.web.guard import MAX_BODY_BYTES, Guard
from memsync.web.health import STATUSES, Events, health
from memsync.web.problems import Refusal, json_response, problem_response, status_of, wants_json
from memsync.web.serving import Receive, Scope, Send
from memsync.web.site import Site, unexpected

STATIC = Path(__file__).with_name("static")


def make_app(site: Site) -> Guard:
    """Return the application of a site. Guard checks each request before Starlette sees it."""
    app = Starlette(
        routes=[
            *api.routes(),
            Route("/health", _health),
            Route("/events", _events),
            Mount("/static", StaticFiles(directory=STATIC)),
            *pages.routes(),
        ],
        exception_handlers={MemsyncError: _failed, HTTPException: _failed, ClientDisconnect: _left, Exception: _failed},
        max_body_size=MAX_BODY_BYTES,
    )
    app.state.site, app.state.events = site, Events(site)
    return Guard(app, site, Access(site.settings.keep_dir))


def _accepts_pages(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


async def _health(request: Request) -> Response:
    """Return the health of the memory; a browser gets the page with the same path."""
    if _accepts_pages(request):
        return await pages.PAGES["/health"](request)
    found = await health(request.app.state.site)
    return json_response(to_json(found), STATUSES[found.status])


class _EventStream(StreamingResponse):
    """The stream of one listener, who counts from before its first byte until its connection ends."""

    def __init__(self, events: Events) -> None:
        super().__init__(events.stream(), media_type="text/event-stream")
        self._events = events
        events.enter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._events.leave()


async def _events(request: Request) -> Response:
    if request.method == "HEAD":
        return Response(media_type="text/event-stream")
    return _EventStream(request.app.state.events)


async def _failed(request: Request, error: Exception) -> Response:
    """Answer a request that raised an error: a page for a browser, otherwise a problem document."""
    if isinstance(error, HTTPException):
        error = Refusal(error.status_code, f"{request.url.path[:200]!r}: {error.detail}", headers=error.headers)
    elif not isinstance(error, MemsyncError):
        error = unexpected("the page", error)
    if wants_json(request) or not _accepts_pages(request):
        return problem_response(error)
    return pages.error_page(request, error, status_of(error))


async def _left(request: Request, error: Exception) -> Response:  # noqa: ARG001 (because Starlette calls it)
    return Response(status_code=400)  # for the log: the client has gone
