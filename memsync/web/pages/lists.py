"""The pages that list: threads, logs, memory by tier, usage, recalls, health."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import groupby, islice
from operator import attrgetter
from typing import Any
from urllib.parse import quote

from anyio import to_thread
from markupsafe import Markup, escape
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from memsync.agents.recall_records import Recall, digests, sessions
from memsync.errors import MemsyncError, NoteError, UsageError
from memsync.features.threads import COSTS_BY
from memsync.memory import MemoryApi
from memsync.model.answer import Hit
from memsync.model.commits import Commit
from memsync.model.query import MAX_HITS, SearchRequest
from memsync.model.vocabulary import Kind, NotePath
from memsync.notes.dates import leading_time
from memsync.notes.files import NoteFiles
from memsync.settings.roots import registered_roots
from memsync.system import clock
from memsync.web.pages.markdown import rendered
from memsync.web.pages.pictures import type_of
from memsync.web.pages.view import link, number, page, place_of, site_of
from memsync.web.site import Site

PAGE_ROWS = 100
PAGE_ENTRIES = 30
MAX_LOG_CHARS = 55_000
DAYS = 365
MAX_SESSIONS = 20
"""Sessions of agents on the page of recalls."""
MAX_HEARD = 12
"""Citations of a recall that are shown."""
_ENTRY = re.compile(r"^(?=[-*+] \d{1,2}:\d\d\b)", re.MULTILINE)
LAST_COMMITS = 3
MAX_RECALLS = 10
"""The last prompts of a session that are shown."""


async def threads(request: Request) -> Response:
    """List threads, with what they and their sessions cost."""
    site, first = site_of(request), number(request, "from", 2**30)
    names = ("session", "status", "user")
    given = {name: request.query_params.get(name, "") for name in names}
    by = request.query_params.get("by", "")
    by = by if by in COSTS_BY else COSTS_BY[0]
    found = {"threads": await site.run(MemoryApi.threads, **given), "costs": await site.run(MemoryApi.costs, by=by)}
    return await page(request, "threads.html", found, given=given, by=by, ways=COSTS_BY, first=first, step=PAGE_ROWS)


async def log(request: Request) -> Response:
    """Show what the logs say, newest first, under a year as a heat map; `month` chooses a month."""
    site, first = site_of(request), number(request, "from", MAX_HITS)
    month = request.query_params.get("month", "")[:7]
    filters = (("kind", Kind.DAILY), *((name, month) for name in ("after", "before") if month))
    limit = min(first + 2 * PAGE_ENTRIES, MAX_HITS)
    found = await site.run(MemoryApi.answer_request, SearchRequest(limit=limit, filters=filters, counted=False))
    entries = entries_of(found.hits)
    begin = clock.today() - timedelta(days=DAYS)
    begin -= timedelta(days=begin.weekday())
    days = await site.run(MemoryApi.logged, since=begin.isoformat())
    shown = entries[first : first + PAGE_ENTRIES]
    return await page(
        request,
        "log.html",
        {"entries": found, "logged": days},
        texts=texts_of(shown),
        by_day=[(day, list(hits)) for day, hits in groupby(shown, lambda hit: hit.date[:10])],
        year=[begin + timedelta(days=n) for n in range((clock.today() - begin).days + 1)],
        month=month,
        first=first,
        has_more=len(entries) > first + PAGE_ENTRIES,
        step=PAGE_ENTRIES,
    )


def entries_of(hits: Sequence[Hit]) -> list[Hit]:
    """Return a hit for each entry of logs, newest first, also within a day: a hit of a search may have several."""
    found = list[Hit]()
    for hit in hits:
        line, written = hit.start_line, hit.date or hit.changed
        for text in _ENTRY.split(hit.text):
            time = leading_time(text[2:])
            moment = f"{written[:10]}T{time}" if time else written
            end = line + text.rstrip().count("\n")
            found += [replace(hit, date=moment, start_line=line, end_line=end, text=text)] if text else ()
            line += text.count("\n")
    return sorted(found, key=attrgetter("date"), reverse=True)


def texts_of(hits: Sequence[Hit]) -> Mapping[str, Markup]:
    """Return the texts of hits as HTML by citation; if that is too much for a page, only their snippets.

    Links name their notes, which are looked up when somebody follows one. Pictures are only named.
    """
    texts = dict[str, Markup]()
    for hit in hits:
        lines = hit.text[:MAX_LOG_CHARS].split("\n")
        texts[hit.citation] = rendered(lines, 1, len(lines), range(0), _by_name, has_ids=False)
    is_small = sum(map(len, texts.values())) <= MAX_LOG_CHARS
    return texts if is_small else {hit.citation: escape(hit.snippet) for hit in hits}


def _by_name(target: str, anchor: str) -> str:
    return link(f"/note/{quote(target, errors='replace')}", to=anchor) if target and not type_of(target) else ""


async def notes(request: Request) -> Response:
    """List the notes of a folder, or all, beside the folders and tags: those that changed last come first."""
    site, folder = site_of(request), request.query_params.get("folder", "")
    lists = {"notes": await site.run(MemoryApi.notes, folder), "collections": await site.run(MemoryApi.collections)}
    first = number(request, "from", 2**30)
    return await page(request, "notes.html", lists, folder=folder, first=first, step=PAGE_ROWS // 2)


async def memory(request: Request) -> Response:
    """List the notes by tier, and what is due to be archived or not used any more."""
    site = site_of(request)
    found: dict[str, Any] = {
        "notes": await site.run(MemoryApi.notes),
        "due": await site.run(MemoryApi.prune),
        "stale": await site.run(MemoryApi.stale, limit=PAGE_ROWS),
    }
    return await page(request, "memory.html", found, step=PAGE_ROWS // 2)


async def usage(request: Request) -> Response:
    """Plot how the memory is used, and what conversations cost."""
    site = site_of(request)
    found = {
        "stats": await site.run(MemoryApi.stats, days=DAYS, limit=20),
        "costs": await site.run(MemoryApi.costs, by="day"),
    }
    return await page(request, "usage.html", found)


async def recalls(request: Request) -> Response:
    """Show what agents recalled in their last sessions, and why."""
    found = await to_thread.run_sync(lambda: list(islice(sessions(), MAX_SESSIONS)))
    asked = request.query_params.get("session", "")
    chosen = next((one for one in found if asked == one[0].session), found[0] if found else [])
    site, shown = site_of(request), chosen[-MAX_RECALLS:]
    names = _names(site)
    heard = await to_thread.run_sync(lambda: [_heard(NoteFiles(site.root), recall, names) for recall in shown])
    more = {"sessions": [one[-1] for one in found], "names": names, "heard": heard}
    return await page(request, "recalls.html", {"recalls": shown}, **more)


def _heard(files: NoteFiles, recall: Recall, names: Collection[str]) -> Mapping[str, str]:
    """Return what the agent heard of each citation: the lines of the note whose digests the recall has."""
    heard = {}
    for line in recall.lines[:MAX_HEARD]:
        place = place_of(line.citation, names)
        with suppress(FileNotFoundError, NoteError):
            if place and not line.held:
                text = files.read(NotePath(place[1]))[0].decode("utf-8", "replace").split("\n")
                lines = text[int(place[2]) - 1 : int(place[3] or place[2])]
                heard[line.citation] = "\n".join(one for one in lines if {*digests(one)} & {*recall.shown})
    return heard


def _names(site: Site) -> frozenset[str]:
    """Return the names under which this memory is registered: what agents recall names it so."""
    with suppress(MemsyncError):
        return frozenset(name for name, root in registered_roots().items() if root.path == site.settings.root_name)
    return frozenset()


async def health(request: Request) -> Response:
    """Show whether the index is current, every fault with what to do, and the last commits."""
    site, commits = site_of(request), list[Commit]()
    with suppress(UsageError):  # there is no repository
        history = await site.run(MemoryApi.history, "", limit=LAST_COMMITS)
        commits = [version.commit for version in history.versions]
    return await page(request, "health.html", {"status": await site.run(MemoryApi.status)}, commits=commits)


async def help_page(request: Request) -> Response:
    """Show the keys and what each page is for."""
    return await page(request, "help.html", {})
