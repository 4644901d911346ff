"""The page of upkeep: proposals of the curator, which a person accepts line by line, and what is wrong in the notes."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from memsync.errors import UsageError
from memsync.memory import MemoryApi
from memsync.operation import Operation
from memsync.web.pages.view import page, site_of

MAX_SHOWN = 50
"""Findings of one kind on a page; each has lines of two notes."""
SLOW: dict[str, Operation[..., Any]] = {name: getattr(MemoryApi, name) for name in ("duplicates", "conflicts", "check")}
"""What is looked for only when somebody asks: it reads all notes."""


async def upkeep(request: Request) -> Response:
    """Show the proposals, or with `show` the duplicates, the conflicts or the findings of a check."""
    site = site_of(request)
    show = request.query_params.get("show", "")
    if show in SLOW:
        found: dict[str, Any] = {show: await site.run(SLOW[show])}
    else:
        show, found = "", {"proposals": await site.run(MemoryApi.proposals)}
    return await page(request, "upkeep.html", found, show=show, ways=("", *SLOW), most=MAX_SHOWN)


async def decide(request: Request) -> Response:
    """Accept or reject the chosen changes of a proposal; if a change could not be applied, say why."""
    site, number = site_of(request), request.path_params["number"]
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    lines = tuple(int(text) for text in form.get("line", ()) if text.isascii() and text.isdigit())
    if not lines:
        raise UsageError("no change is chosen", hint="Go back, and choose the changes to accept or to reject.")
    decided = MemoryApi.reject if form.get("do") == ["reject"] else MemoryApi.accept
    result = await site.run(decided, number, line=lines)
    if result.failed or result.warnings:
        found = {"result": result, "proposals": await site.run(MemoryApi.proposals)}
        return await page(request, "upkeep.html", found, show="", ways=("", *SLOW), most=MAX_SHOWN)
    return RedirectResponse(f"/upkeep#p{number}", 303)
