"""Answer a request with a page made of a template, or with the same as JSON. Each text of a page is escaped."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from memsync.memory import MemoryApi
from memsync.model.answer import Hit
from memsync.model.commits import cited_at
from memsync.model.json import to_json
from memsync.model.status import Status
from memsync.model.text import also_searched, count, duration, printable, shortened, still_indexing, visible
from memsync.model.vocabulary import told_origin
from memsync.notes.ignore import is_note_name
from memsync.search.stop_words import STOP_WORDS
from memsync.settings.roots import is_root_name
from memsync.system import clock
from memsync.web.problems import json_response, wants_json

if TYPE_CHECKING:
    from memsync.web.site import Site

FOLDER = Path(__file__).parent.parent
FILES = "/file/"
"""What the path of a picture begins with."""
MAX_NAME_CHARS = 160
"""Longer names and titles are cut where a page shows them."""
_DAY = re.compile(r"\d{4}-[01]\d-[0-3]\d", re.ASCII)
_WRAPPED = re.compile(r"(?<=[^\n]{60})\n(?=\w)")
"""A line end within a paragraph; the lines of a list are shorter."""
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|\n+")
UNMARKED = STOP_WORDS | {"about", "also", "any", "get", "just", "like", "make", "more", "no", "one", "some", "time"}
"""Words that say so little that a match of them is not marked."""
_CITATION = re.compile(r"(.+?):(\d{1,9})(?:-(\d{1,9}))?(?:~\w+)?", re.DOTALL)
_SUPERSEDED = re.compile(r"(.*superseded by )(\S.*)", re.DOTALL)


def site_of(request: Request) -> Site:
    """Return the memory that the server shows."""
    site: Site = request.app.state.site
    return site


async def page(request: Request, template: str, results: Mapping[str, Any], **more: Any) -> Response:
    """Return a page that shows the results of operations by name; as JSON if the request asks for that.

    The JSON of one result is that of its operation. The page says how old the index is and what the results lack.
    """
    if wants_json(request):
        return json_response(to_json(next(iter(results.values())) if len(results) == 1 else results))
    status: Any = results.get("status")
    if status is None and not any(hasattr(one, "freshness") for one in results.values()):
        status = await site_of(request).run(MemoryApi.status)
    foot = list(foot_of(results, status))
    return HTMLResponse(render(template, site=site_of(request), url=request.url, foot=foot, **results, **more))


def render(template: str, **values: Any) -> str:
    """Return a page, or a part of one."""
    return templates().get_template(template).render(**values)


def error_page(request: Request, error: Any, status: int) -> Response:
    """Return the page that says what is wrong and what to do; `error` is a MemsyncError."""
    asked = " ".join(re.findall(r"\w+", request.path_params.get("path", "").rpartition("/")[2].rpartition(".")[0]))
    values = {"site": site_of(request), "url": request.url, "foot": [], "error": error, "asked": asked}
    return HTMLResponse(render("error.html", **values), status)


def number(request: Request, name: str, highest: int) -> int:
    """Return a whole number of the query of a URL, from 0 to `highest`; 0 if it has none."""
    text = request.query_params.get(name, "")
    return min(int(text), highest) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def foot_of(results: Mapping[str, Any], status: Status | None = None) -> Iterator[str]:
    """Yield sentences: when the files were compared with the index, and what the results lack."""
    fresh: Any = next((one.freshness for one in results.values() if hasattr(one, "freshness")), None)
    if fresh:  # the warnings of a search say what it lacks
        yield f"The files were compared with the index {age(fresh.scanned_at)}."
    else:
        lacks = max(results.values(), key=lambda one: getattr(one, "pending_text", -1), default=None)
        yield from _state(getattr(lacks, "pending_text", None), status)
    for one in results.values():
        yield from (text for text in getattr(one, "warnings", ()) if isinstance(text, str))
        yield from map(str, getattr(one, "failed", ()))


def _state(pending: int | None, status: Status | None) -> Iterator[str]:
    """Yield what `status` says; `pending` is how many files a result lacks, None if it was not made of files."""
    daemon = status and status.daemon
    scanned = daemon.scanned_at if daemon else status.last_sync if status else ""
    yield f"The files were compared with the index {'just now' if pending is not None else age(scanned)}."
    if pending:
        yield still_indexing(pending)
    if status and status.pending_vectors:
        yield f"{count(status.pending_vectors, 'passage is', 'passages are')} found by word only: no vector yet."
    if daemon and daemon.reason:
        yield f"Watching is {daemon.watcher}: {daemon.reason}"


# ------------------------------------------------------------------------------------------------- templates


@cache
def templates() -> Environment:
    """Return the templates. No text can end an element or hide in a page: both are ensured for every value here."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (name, moment, marked, cited, pairs, recalled, also_searched)
    environment.filters |= {function.__name__: function for function in filters}
    environment.tests["deeper"] = lambda folder, depth: folder.count("/") > depth
    environment.tests["note"] = lambda path: is_note_name(path.rpartition("/")[2])
    environment.filters["ordinal"] = lambda day: date.fromisoformat(day).toordinal()
    environment.globals |= {"count": count, "note_url": note_url, "link": link, "by": told_origin, "cited_at": cited_at}
    return environment


def link(path: str, **query: str | int) -> str:
    """Return a URL of this server with a query, without values that are empty."""
    given = {key: value for key, value in query.items() if value not in ("", 0)}
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def note_url(path: str, first: int = 0, last: int = 0) -> str:
    """Return the URL of a note, or of lines of it, which the page then marks and scrolls to."""
    place = f"/note/{quote(path, errors='replace')}"
    return f"{place}?line={first}-{last or first}#L{first}" if first else place


def name(text: str, limit: int = MAX_NAME_CHARS) -> str:
    """Return a name or a title on one line, cut if it is too long."""
    text = " ".join(text[: limit * 4].split())
    return printable(shortened(text, limit))


def moment(text: str) -> str:
    """Return a moment to the minute, in local time if it has a zone."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return name(text)
    return f"{at.astimezone():%Y-%m-%d %H:%M}" if at.tzinfo else text[:16].replace("T", " ")


def age(text: str) -> str:
    """Return how long ago a moment with a zone was: `2 s ago`."""
    try:
        return f"{duration((clock.utc() - datetime.fromisoformat(text)).total_seconds())} ago"
    except (ValueError, TypeError):
        return "never"


def pairs(rows: Iterable[Any], value: str, day: str = "day") -> list[tuple[str, float]]:
    """Return (ISO day, number) of each row that has a day: what a plot shows."""
    get = attrgetter(day, value)
    return [(when, number) for when, number in map(get, rows) if _DAY.fullmatch(when)]


def marked(hit: Hit) -> Markup:
    """Return the snippet of a hit with its matched words marked, and the sentence that has most of them."""
    snippet, spans = _WRAPPED.sub(" ", hit.snippet), _telling(hit)  # as long as before: the offsets still hold
    ends = [0, *(match.end() for match in _SENTENCE.finditer(snippet)), len(snippet)]
    found = {start: len({snippet[a:b].lower() for a, b in spans if start <= a < end}) for start, end in pairwise(ends)}
    first = max(found, key=lambda start: found[start])
    last = next((end for end in ends if end > first), first)
    # At one offset: the sentence begins before a word, and ends after it.
    tags = [(first, 0, '<span class="said">'), (last, 2, "</span>")]
    tags += [tag for a, b in spans for tag in ((a, 1, "<mark>"), (b, 1, "</mark>"))]
    parts, position = [], 0
    for at, _, tag in sorted(tags, key=lambda tag: tag[:2]):
        parts += [escape(visible(snippet[position:at])), Markup(tag)]  # noqa: S704 (because it is one of those above)
        position = at
    return Markup("").join([*parts, escape(visible(snippet[position:]))])


def _telling(hit: Hit) -> Sequence[tuple[int, int]]:
    """Return where the matched words of a snippet are, without those that say little, unless there are no others."""
    spans = [(a, b) for a, b in hit.highlights if hit.snippet[a:b].lower() not in UNMARKED]
    return spans or hit.highlights


def recalled(citation: str, names: Collection[str]) -> Markup:
    """Return a citation of one of several memories; as a link if it is in this one, which is registered as `names`."""
    place = place_of(citation, names)
    return cited(place[0]) if place else escape(name(citation))


def place_of(citation: str, names: Collection[str]) -> re.Match[str] | None:
    """Return the parts of a citation, path and first and last line, if it is of the memory registered as `names`."""
    root, _, place = citation.partition(":")
    return _CITATION.fullmatch(place if root in names else "" if is_root_name(root) else citation)


def cited(citation: str) -> Markup:
    """Return `path:12-16` as a link; also at the end of `superseded by path:12`. Any other text stays text."""
    before = ""
    if named := _SUPERSEDED.fullmatch(citation):
        before, citation = named.groups()
    place = _CITATION.fullmatch(citation)
    if place is None or (named is None and "://" in citation):
        return escape(name(before + citation))
    url, shown = note_url(place[1], int(place[2]), int(place[3] or 0)), name(citation.partition("~")[0])
    return Markup('{}<a href="{}">{}</a>').format(before, url, shown)
