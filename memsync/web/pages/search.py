"""The search page: a query, chips that narrow it, and its hits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from memsync.errors import UsageError
from memsync.memory import MemoryApi
from memsync.model.answer import Freshness, Hit, SearchResult
from memsync.model.commits import Commit
from memsync.model.query import MAX_HITS, SearchRequest
from memsync.model.vocabulary import Fresh, Kind, Mode
from memsync.search.query_syntax import typed_filters
from memsync.system import clock
from memsync.web.pages.history import commits
from memsync.web.pages.lists import entries_of, texts_of
from memsync.web.pages.view import link, number, page, site_of
from memsync.web.problems import wants_json
from memsync.web.site import Site

PAGE_HITS = 10
MAX_CHIPS = 4
"""Chips of one filter, at most."""
SPANS = {"7d": "week", "1m": "month", "1y": "year"}
NOW = "now"
"""The value of `at` that only shows the slider."""
ALL = "in:."
"""The query that lists every entry, newest first."""


class Chip(NamedTuple):
    """A filter that can be added to the query or, if it `is_on`, taken out."""

    group: str
    label: str
    url: str
    is_on: bool = False


async def search(request: Request) -> Response:
    """Show the hits of a query, or what was written last. With `part=hits` it is the part below the search field.

    A request for this part is not counted as a search, because the person is still typing. It trusts the daemon to
    know of all changes, which saves the comparison of all files.
    """
    query = request.query_params.get("q", "").strip()
    mode = request.query_params.get("mode", "")
    is_part = request.query_params.get("part") == "hits"
    first = number(request, "from", MAX_HITS)
    limit = min(first + PAGE_HITS + 1, MAX_HITS)
    at, error = request.query_params.get("at", ""), None
    shown: Sequence[Commit] = ()
    try:
        shown = await commits(request) if at and not is_part else ()
        chosen = Mode(mode) if mode in tuple(Mode) else None
        asked = SearchRequest(
            query or ALL,
            limit,
            chosen,
            fresh=Fresh.BOUNDED if is_part else Fresh.STRICT,
            counted=bool(query) and not is_part,
        )
        result = await site_of(request).run(MemoryApi.answer_request, asked, at="" if at == NOW else at)
    except UsageError as wrong:
        if wants_json(request):
            raise
        result, error = SearchResult((), Mode.HYBRID, Freshness("", 0, 0)), wrong
    if shown and result.at not in ("", *(one.name for one in shown)):  # it is older, or of another branch
        shown = [*shown, Commit(result.at, result.at_time)]
    hits = result.hits[first : first + PAGE_HITS]
    home = {} if query or at else await _home(site_of(request))
    return await page(
        request,
        "hits.html" if is_part else "search.html",
        {"result": result},
        query=query,
        mode=mode,
        at=at,
        commits=shown,
        chosen=next((place for place, one in enumerate(shown, 1) if one.name == result.at), 0),
        hits=hits,
        error=error,
        first=first,
        has_more=len(result.hits) > first + PAGE_HITS,
        chips=list(_chips(query, {"mode": mode, "at": at}, hits)),
        step=PAGE_HITS,
        **home,
    )


async def _home(site: Site) -> Mapping[str, Any]:
    """Return what the page shows before a search: the newest day of the log, notes that changed, folders, proposals."""
    logs = SearchRequest(limit=PAGE_HITS, fresh=Fresh.NONE, filters=(("kind", Kind.DAILY),), counted=False)
    entries = entries_of((await site.run(MemoryApi.answer_request, logs)).hits)
    newest = [one for one in entries if one.date[:10] == entries[0].date[:10]][:PAGE_HITS]
    proposals = (await site.run(MemoryApi.proposals)).proposals
    return {
        "log": newest,
        "texts": texts_of(newest),
        "notes": await site.run(MemoryApi.notes),
        "collections": await site.run(MemoryApi.collections),
        "waiting": sum(change.state == "open" for one in proposals for change in one.changes),
        "today": clock.today().isoformat(),
    }


def _chips(query: str, kept: Mapping[str, str], hits: Sequence[Hit]) -> Iterator[Chip]:
    """Yield a chip for each filter of the query, then those for what the hits have in common with each other."""
    own = typed_filters(query)
    for typed in own:
        yield Chip("", f"{typed.name}:{typed.value}", link("/", q=typed.rest, **kept), is_on=True)
    names = {typed.name for typed in own}
    found = {
        "kind": Counter(str(hit.kind) for hit in hits),
        "tier": Counter(str(hit.tier) for hit in hits),
        "in": Counter(f"{hit.path.partition('/')[0]}/" for hit in hits if "/" in hit.path),
        "tag": Counter(tag for hit in hits for tag in hit.tags),
    }
    for name, values in found.items():
        if name not in names and (len(values) > 1 or name == "tag"):
            for value, times in values.most_common(MAX_CHIPS):
                if times < len(hits) and '"' not in value:
                    yield _adding(query, kept, name, value, value)
    if "after" not in names:
        for span, label in SPANS.items():
            yield _adding(query, kept, "after", span, label)
    if "is" not in names:
        yield _adding(query, kept, "is", "current", "current")


def _adding(query: str, kept: Mapping[str, str], name: str, value: str, label: str) -> Chip:
    typed = f'{name}:"{value}"' if " " in value else f"{name}:{value}"
    return Chip(name, label, link("/", q=f"{query} {typed}".strip(), **kept))
