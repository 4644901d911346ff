"""The pages of the memory as it was: the history of a note or of all, who wrote a line, and what changed."""

from __future__ import annotations

from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from memsync.memory import MemoryApi
from memsync.model.commits import Commit
from memsync.system import clock
from memsync.web.pages.view import number, page, site_of

COMMITS = 200
"""How many commits the slider reaches back."""
VERSIONS = 50
MAX_VERSIONS = 5_000
MAX_SHOWN = 400
"""Statements, or changed lines of a version, that one page shows."""


async def history(request: Request) -> Response:
    """Show what a note, or lines of it, said in each version; without a path, the commits of the memory."""
    place = request.path_params.get("path", "").removesuffix(".json")
    line = number(request, "line", 2**30)
    limit = number(request, "limit", MAX_VERSIONS) or VERSIONS
    found = await site_of(request).run(MemoryApi.history, f"{place}:{line}" if line else place, limit=limit)
    return await page(request, "history.html", {"history": found}, path=place, line=line, limit=limit, most=MAX_SHOWN)


async def blame(request: Request) -> Response:
    """Show for each line of a note the commit that wrote it, and its author; long notes in parts."""
    place, first = request.path_params["path"].removesuffix(".json"), number(request, "from", 2**30) or 1
    found = await site_of(request).run(MemoryApi.blame, f"{place}:{first}-{first + MAX_SHOWN - 1}")
    return await page(request, "blame.html", {"blame": found}, first=first, step=MAX_SHOWN)


async def changes(request: Request) -> Response:
    """Show what the memory learnt and dropped from one state to another; by default, in the last week."""
    asked = {name: request.query_params.get(name, "") for name in ("before", "after", "query")}
    if not asked["before"]:
        listed, week = await commits(request), (clock.now() - timedelta(days=7)).isoformat()
        asked["before"] = next((one.short for one in listed if one.time < week), listed[-1].short if listed else "HEAD")
    found = await site_of(request).run(MemoryApi.diff, asked["before"], asked["after"], asked["query"])
    return await page(request, "changes.html", {"diff": found}, asked=asked, most=MAX_SHOWN)


async def commits(request: Request) -> list[Commit]:
    """Return the commits that the slider offers, newest first. Raises UsageError if there is no repository."""
    found = await site_of(request).run(MemoryApi.history, "", limit=COMMITS)
    return [version.commit for version in found.versions]
