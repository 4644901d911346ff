"""A note: rendered, as a conversation if it is a thread, with its links; long ones in parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import NamedTuple
from urllib.parse import quote

from anyio import to_thread
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from memsync.errors import ConfigError, NoteError, UsageError
from memsync.memory import MemoryApi
from memsync.model.answer import Hit
from memsync.model.commits import cited_at
from memsync.model.conversation import ThreadMessage
from memsync.model.query import SearchRequest
from memsync.model.upkeep import NoteLinks
from memsync.model.vocabulary import Fresh, JsonValue, Kind
from memsync.notes.frontmatter import read_head
from memsync.notes.ignore import is_note_name
from memsync.notes.links import headings_in
from memsync.settings.editors import template_of, url_of
from memsync.web.pages.markdown import MAX_PART_CHARS, Resolve, breaks_in, part_starts, plain, rendered
from memsync.web.pages.pictures import picture_url, type_of
from memsync.web.pages.view import link, note_url, number, page, site_of
from memsync.web.site import Site

MAX_RENDERED_CHARS = 256_000
"""A longer note is shown as it is: parsing its Markdown takes too long."""
MAX_LINES = 64_000_000
MAX_LISTED = 50
"""Headings, links and keys of front matter that are listed beside a note, at most of each."""


class Part(NamedTuple):
    """Lines of a note as HTML, each message of a thread by itself; where the parts `before` and `after` it begin.

    `head` is the front matter of the note, `headings` are its first ones, as (line, level, text).
    """

    first: int
    last: int
    blocks: Sequence[tuple[ThreadMessage | None, Markup]]
    before: int
    after: int
    head: Mapping[str, JsonValue]
    headings: Sequence[tuple[int, int, str]]


async def note(request: Request) -> Response:
    """Show a note. `line=12-16` marks lines, `from=400` chooses a part, `to=heading` finds what a link names."""
    site = site_of(request)
    asked = request.path_params["path"].removesuffix(".json")
    anchor = request.query_params.get("to", "")
    try:
        excerpt = await site.run(MemoryApi.get, f"[[{asked}#{anchor}]]" if anchor else asked)
    except (NoteError, UsageError):
        if not anchor:
            raise
        return RedirectResponse(note_url(asked))  # the note may be there without the heading
    place = cited_at(excerpt.path, excerpt.at)
    if anchor or (excerpt.path != asked and not excerpt.at):
        is_whole = excerpt.end_line - excerpt.start_line + 1 == excerpt.line_count
        return RedirectResponse(note_url(excerpt.path, 0 if is_whole else excerpt.start_line))
    lines, marked = excerpt.text.split("\n"), _marked(request)
    hits = [] if excerpt.at else await _hits(site, excerpt.path)
    messages: Sequence[ThreadMessage] = ()
    usage = None
    if any(hit.kind is Kind.THREAD for hit in hits):
        conversation = await site.run(MemoryApi.thread, excerpt.path)
        messages, usage = conversation.messages, conversation.thread.usage
    links = NoteLinks(excerpt.path, (), (), ())
    with suppress(UsageError):  # the index does not have it
        links = links if excerpt.at else await site.run(MemoryApi.links, excerpt.path)
    line = number(request, "from", MAX_LINES) or marked.start
    part = await to_thread.run_sync(partial(_part, lines, line, marked, messages, _resolver(links)))
    return await page(
        request,
        "note.html",
        {"excerpt": excerpt, "links": links},
        part=part,
        usage=usage,
        hits=hits,
        has_title=any(level == 1 for number, level, _ in part.headings if part.first <= number <= part.last),
        place=place,
        editor="" if excerpt.at else _editor(site, excerpt.path, line or 1),
        most=MAX_LISTED,
    )


async def _hits(site: Site, path: str) -> Sequence[Hit]:
    """Return entries of a note, which say what it is and what in it does not hold now."""
    filters = (("path", re.sub(r"[*?[]", r"[\g<0>]", path)), ("is", "archived"))
    asked = SearchRequest(limit=MAX_LISTED, fresh=Fresh.NONE, filters=filters, counted=False)
    return [hit for hit in (await site.run(MemoryApi.answer_request, asked)).hits if hit.path == path]


def _marked(request: Request) -> range:
    named = re.fullmatch(r"(\d{1,8})(?:-(\d{1,8}))?", request.query_params.get("line", ""), re.ASCII)
    return range(int(named[1]), int(named[2] or named[1]) + 1) if named else range(0)


def _resolver(links: NoteLinks) -> Resolve:
    """Return what finds the page or the picture of a link. A link to any other file, or to nothing, has neither."""
    found: Mapping[tuple[str, str], str] = {(place.target, place.anchor): place.note for place in links.out}

    def resolve(target: str, anchor: str) -> str:
        path = found.get((target, anchor), "")
        if type_of(path):
            return picture_url(path)
        if not is_note_name(path.rpartition("/")[2]):
            return ""
        return link(f"/note/{quote(path, errors='replace')}", to=anchor)

    return resolve


def _part(lines: Sequence[str], line: int, marked: range, messages: Sequence[ThreadMessage], resolve: Resolve) -> Part:
    """Return the part of a note that has a line; without one the first part."""
    head = read_head(lines)
    begin = head.line_count + 1
    is_short = sum(map(len, lines)) <= MAX_RENDERED_CHARS
    breaks = {message.start_line for message in messages} or (breaks_in(lines, begin) if is_short else set())
    starts = part_starts(lines, begin, breaks)
    at = max((n for n, start in enumerate(starts) if start <= line), default=0)
    first, after = starts[at], starts[at + 1] if at + 1 < len(starts) else 0
    last = after - 1 if after else len(lines)

    def blocks(*, is_plain: bool) -> Iterator[tuple[ThreadMessage | None, Markup]]:
        inside = [message for message in messages if first <= message.start_line <= last]
        places = [(message, message.start_line + 1, min(message.end_line, last)) for message in inside]
        for message, begin, end in ((None, first, inside[0].start_line - 1 if inside else last), *places):
            is_within_block = at > 0 and begin == first and begin not in breaks
            if is_plain or is_within_block or not breaks:
                yield message, plain(lines, begin, end, marked)
            else:
                yield message, rendered(lines, begin, end, marked, resolve)

    shown = list(blocks(is_plain=False))
    if sum(len(html) for _, html in shown) > MAX_PART_CHARS:
        shown = list(blocks(is_plain=True))
    headings = () if messages else islice((one for one in headings_in(lines) if one[0] >= begin), MAX_LISTED)
    return Part(first, last, shown, starts[at - 1] if at else 0, after, head.values, list(headings))


def _editor(site: Site, path: str, line: int) -> str:
    """Return the URL that opens a note in the editor that the settings name; empty without one."""
    with suppress(ConfigError):
        if site.settings["cli.open_with"]:
            return url_of(template_of(site.settings["cli.open_with"]), f"{site.root}/{path}", line)
    return ""
