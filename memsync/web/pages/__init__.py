"""The pages."""

from __future__ import annotations

from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from memsync.errors import MemsyncError


def routes() -> list[Route]:
    """Return the routes of the pages."""
    return [Route("/", _index)]


def error_page(request: Request, error: MemsyncError, status: int) -> Response:  # noqa: ARG001 (because a page may say which path it is about)
    """Return the page about an error."""
    return HTMLResponse(f"<!doctype html><title>memsync</title><p>{escape(error.sentences())}", status)


async def _index(request: Request) -> Response:
    return HTMLResponse(f"<!doctype html><title>memsync</title><h1>{escape(str(request.app.state.site.root))}</h1>")
