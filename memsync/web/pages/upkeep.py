"""The page of upkeep: proposals of the curator, which a person accepts line by line, and what is wrong in the notes."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from memsync.errors import UsageError
from memsync.memory import MemoryApi
from memsync.operation import Operation
from memsync.web.pages.view import link, number, page, site_of

MAX_SHOWN = 50
"""Findings of one kind on a page; each has lines of two notes."""
SLOW: dict[str, Operation[..., Any]] = {
    name: getattr(MemoryApi, name) for name in ("duplicates", "contradictions", "check")
}
"""These are computed only on request, because each reads all notes."""


async def upkeep(request: Request) -> Response:
    """Show the proposals, or with `show` the duplicates, the contradictions or the findings of a check."""
    site = site_of(request)
    show = request.query_params.get("show", "")
    if show in SLOW:
        found: dict[str, Any] = {show: await site.run(SLOW[show])}
        return await page(request, "upkeep.html", found, show=show, ways=("", *SLOW), most=MAX_SHOWN)
    return await _proposals(request, number(request, "proposal", 999_999), {})


async def _proposals(request: Request, chosen: int, results: dict[str, Any]) -> Response:
    """Show one proposal: the chosen one, otherwise the newest with an open change."""
    found = await site_of(request).run(MemoryApi.proposals)
    newest = [one for one in reversed(found.proposals) if one.changes]
    is_open = (one for one in newest if any(change.state == "open" for change in one.changes))
    shown = next((one for one in newest if one.number == chosen), next(is_open, newest[0] if newest else None))
    more = {"show": "", "ways": ("", *SLOW), "most": MAX_SHOWN, "newest": newest, "shown": shown}
    return await page(request, "upkeep.html", {"proposals": found, **results}, **more)


async def decide(request: Request) -> Response:
    """Accept or reject the chosen changes of a proposal; if a change could not be applied, say why."""
    chosen = request.path_params["number"]
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    lines = tuple(int(text) for text in form.get("line", ()) if text.isascii() and text.isdigit() and len(text) < 7)
    if not lines:
        raise UsageError("no change is chosen", hint="Go back, and choose the changes to accept or to reject.")
    decided = MemoryApi.reject if form.get("do") == ["reject"] else MemoryApi.accept
    result = await site_of(request).run(decided, chosen, line=lines)
    if result.failed or result.warnings:
        return await _proposals(request, chosen, {"result": result})
    return RedirectResponse(link("/upkeep", proposal=chosen), 303)
