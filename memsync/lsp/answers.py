"""Answer what an editor asks about a note. What notes say is data: editors get it as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from memsync import features
from memsync.edit.relinking import links_on
from memsync.lsp.cursor import Typed, Under, anchor_line, headings, outside_fences, things_on, typed, under
from memsync.lsp.documents import Document
from memsync.lsp.memories import MAX_OFFERED, Known, Served, stem_of
from memsync.mcp_server.messages import Message
from memsync.model.answer import Hit
from memsync.model.filters import TASKS
from memsync.model.note import Link
from memsync.model.query import MAX_HITS, SearchRequest
from memsync.model.text import count, printable, shortened, visible
from memsync.model.vocabulary import THREAD_STATUSES, Kind, Mode, NotePath, Origin, Tier
from memsync.notes.frontmatter import read_head
from memsync.notes.links import Anchors, names_heading
from memsync.notes.parse import MAX_STRUCTURED_BYTES

if TYPE_CHECKING:
    from memsync.lsp.server import Server

MAX_HOVER_LINES = 12
MAX_HOVER_CHARS = 1_500
MAX_SYMBOLS = 50
MAX_NAME_CHARS = 100
KEYS = (
    "title", "name", "aliases", "kind", "tier", "tags", "created", "updated", "date", "expires", "importance", "pinned",
    "archived", "source", "local-only", "supersedes", "superseded_by", "valid_from", "valid_until",
)  # fmt: skip
"""The keys of front matter (docs/format.md)."""
VALUES: Mapping[str, Iterable[str]] = {
    "kind": Kind, "tier": Tier, "status": THREAD_STATUSES, "by": Origin, "role": ("user", "assistant", "tool"),
    "is": ("archived", "current", "superseded", *TASKS), **dict.fromkeys(("pinned", "archived"), ("true", "false")),
}  # fmt: skip
"""The values of filters and keys, besides those that depend on the notes."""
_WARNING, _INFORMATION, _STRING, _REFERENCE = 2, 3, 15, 18
_MINOR = ("names", "titles", "copies", "expired", "ignored", "text")
_TAG = re.compile(r"[\w/-]+")
_NOT_IN_LINK = re.compile(r"[#|^\[\]\s]+")


@dataclass(frozen=True)
class Asked:
    """A request about a place in a note of a memory."""

    server: Server
    served: Served
    document: Document
    path: NotePath
    line: int = 0
    column: int = 0

    @cached_property
    def known(self) -> Known:
        """The names in the memory now."""
        return self.served.known()

    @cached_property
    def under(self) -> Under | None:
        """What is under the cursor."""
        return under(self.document.lines, self.line, self.column)

    @cached_property
    def named(self) -> str:
        """The file that the link or the citation under the cursor names; empty if there is none."""
        link = self.under.link if self.under is not None else None
        return self.known.linked.target(link, self.path) if link is not None else ""

    @cached_property
    def place(self) -> tuple[Document, int]:
        """The document that is `named`, and the line in it."""
        document, here = self.served.document(self.named), self.under
        anchor = here.link.anchor if here is not None and here.link is not None else ""
        return document, max(here.first - 1, 0) if here and here.first else anchor_line(document.lines, anchor)

    def request(self, query: str, **options: Any) -> tuple[Hit, ...]:
        """Return the hits of a search by words that counts for nothing."""
        request = SearchRequest(query, mode=Mode.KEYWORD, min_score=0.0, counted=False, **options)
        return self.served.ask(features.search.answer_request, request=request).hits


# ----------------------------------------------------------------------------------------------- completion


def completion(asked: Asked, _: Message) -> Any:
    """Offer what may be typed here, best first."""
    found = typed(asked.document.lines, asked.line, asked.column)
    if found is None:
        return None
    span = asked.document.range(asked.line, found.start, asked.column)
    known = asked.served.last_known or asked.known  # a completion does not wait: each check reads the names anew
    rows = enumerate(islice(_offers(asked, found, known), MAX_OFFERED))
    items = [
        {"label": _short(label), "detail": _short(detail), "kind": _REFERENCE, "sortText": f"{number:03}"}
        | {"filterText": printable(label), "textEdit": {"range": span, "newText": _clean(text)}}
        for number, (label, detail, text) in rows
    ]
    return {"isIncomplete": True, "items": items}


def _offers(asked: Asked, found: Typed, known: Known) -> Iterator[tuple[str, str, str]]:
    """Yield (label, detail, text) of what may be typed."""
    begun = found.begun.casefold()
    closing = "" if asked.document.line(asked.line)[asked.column :].startswith("]]") else "]]"
    if found.what == "note":
        for target, called, path in known.offered(found.begun, asked.path):
            shown = "" if called.casefold() == stem_of(path).casefold() else f"|{_linkable(called)}"
            if _clean(target) == target:  # otherwise the link would be dead
                yield called, path, f"{target}{shown}{closing}"
    elif found.what in ("heading", "block"):
        named = known.linked.target(Link(found.of, "", "", 0, wiki=True), asked.path)
        lines = asked.served.document(named).lines if named else ()
        names = sorted(Anchors(lines).blocks) if found.what == "block" else [path[-1] for _, path in headings(lines)]
        yield from ((name, named, f"{_linkable(name)}{closing}") for name in names if begun in name.casefold())
    elif found.what == "tag" or found.of in ("tag", "tags"):
        tags = sorted(known.tags.items(), key=lambda one: (not one[0].casefold().startswith(begun), -one[1], one[0]))
        tags = [one for one in tags if begun in one[0].casefold() and (found.of or _TAG.fullmatch(one[0]))]
        yield from ((tag, count(notes, "note"), tag) for tag, notes in tags)
    else:
        folders = sorted({f"{path.rpartition('/')[0]}/" for path in known.linked.notes if "/" in path})
        values = KEYS if found.what == "key" else folders if found.of == "in" else VALUES.get(found.of, ())
        ending = ": " if found.what == "key" else ""
        yield from ((value, "", f"{value}{ending}") for value in map(str, values) if value.casefold().startswith(begun))


def _clean(text: str) -> str:
    """Return a text without invisible characters."""
    return text if printable(text) == text else "".join(one for one in text if printable(one) == one)


def _linkable(text: str) -> str:
    return " ".join(_NOT_IN_LINK.sub(" ", text).split())


def _short(text: str) -> str:
    return printable(shortened(" ".join(text.split()), MAX_NAME_CHARS))


# ------------------------------------------------------------------------------------------ where things are


def definition(asked: Asked, params: Message) -> Any:
    """Return the place that a link, a citation or a heading means; of a tag the note of that name, or all places."""
    here = asked.under
    if here is None:
        return None
    if here.what == "heading":
        return _location(asked.document, asked.line, here.start, here.end)
    if here.what == "tag":
        path = asked.known.linked.target(Link(here.name, "", "", 0, wiki=True), asked.path)
        return _location(asked.served.document(path)) if path else references(asked, params)
    return _location(*asked.place) if asked.named else None


def references(asked: Asked, _: Message) -> Any:
    """Return the links to a note or a heading, the places with a tag, or those that cite a note.

    A note that has the tag only in its front matter counts with its beginning. Open notes are as the editor has them.
    """
    here, linked, held = asked.under, asked.known.linked, asked.served.held()
    path, anchor = (asked.named, here.link.anchor) if here and here.link else (asked.path, here.name if here else "")
    if here is None or (path not in linked.notes and here.what != "tag"):
        return None
    kind, tags = "link" if here.what == "heading" else here.what, f"{here.name}/".casefold()
    if here.what == "heading" and asked.line == next(headings(asked.document.lines))[0]:
        anchor = ""  # the title means the note
    if kind == "link":
        into = asked.served.ask(features.linking.links, note=path).into
        sources = sorted({NotePath(path), *held, *(one.path for one in into)})
    else:
        wanted: Any = {"query": f'"{path}"'} if here.link else {"query": "", "filters": (("tag", here.name),)}
        sources = [*dict.fromkeys(hit.path for hit in asked.request(limit=MAX_HITS, **wanted))]
    found = list[Message]()
    for document, source in ((asked.served.document(source, held), source) for source in sources):
        places = [
            _location(document, line, one.start, one.end)
            for line, text in outside_fences(document.lines)
            for one in things_on(text)
            if one.what == kind and (f"{one.name}/".casefold().startswith(tags) if one.link is None else
               (not anchor or _names(one.link.anchor, anchor)) and linked.target(one.link, source) == path)
        ]  # fmt: skip
        found += places or ([_location(document)] if kind == "tag" else [])
    return found


def _names(anchor: str, wanted: str) -> bool:
    """Tell whether an anchor names a place as another anchor, or a heading, does."""
    last, place = (one.rstrip("#").rpartition("#")[2] for one in (anchor, wanted))
    return last.lower() == place.lower() if "^" in (last[:1], place[:1]) else names_heading(last, place)


def _location(document: Document, line: int = 0, start: int = 0, end: int = 0) -> Message:
    return {"uri": document.uri, "range": document.range(line, start, end)}


# ---------------------------------------------------------------------------------------- what a note says


def hover(asked: Asked, _: Message) -> Any:
    """Quote the first lines of what a link or a citation names, and say what the memory says against this line."""
    parts = list[str]()
    if asked.named and asked.under is not None:
        (document, first), last = asked.place, asked.under.last
        first = first if last else first or read_head(document.lines).line_count
        end = first + min(max(last - first, 1) if last else MAX_HOVER_LINES, MAX_HOVER_LINES)
        parts.append("\n".join([asked.named, "", *document.lines[first:end]]))
    text = visible(shortened("\n\n".join([*parts, *_against(asked)]), MAX_HOVER_CHARS))
    return {"contents": {"kind": "plaintext", "value": text}} if text else None


def _against(asked: Asked) -> Iterator[str]:
    """Yield what supersedes or contradicts the line, as a search for it says."""
    line = asked.document.line(asked.line).strip()
    words = " ".join(re.findall(r"\w+", line[:MAX_HOVER_CHARS]))
    for hit in asked.request(words, limit=MAX_SYMBOLS) if words else ():
        if hit.path == asked.path and line in hit.text:
            yield from filter(None, [hit.validity])
            for place in hit.differs:
                path, _, number = place.rpartition(":")
                yield f"contradicted by {place}: {asked.served.document(path).line(int(number) - 1).strip()}"


def document_symbols(asked: Asked, _: Message) -> Any:
    """Return the headings, each with those under it."""
    document = asked.document
    above: list[Message] = [{"children": []}]
    for line, path in (*headings(document.lines), (len(document.lines), ("",))):
        for ended in above[len(path) :]:
            ended["range"]["end"] = document.range(line - 1)["end"]
        spans = {"range": document.range(line), "selectionRange": document.range(line)}
        symbol: Message = {"name": _short(path[-1]) or "#", "kind": _STRING, **spans, "children": []}
        above = [*above[: len(path)], symbol]
        above[-2]["children"].append(symbol)
    return above[0]["children"][:-1]  # without the end of the note


def workspace_symbols(served: Served, query: str) -> list[Message]:
    """Search a memory."""
    request = SearchRequest(query, MAX_SYMBOLS, counted=False)
    hits = served.ask(features.search.answer_request, request=request).hits if query.strip() else ()
    places = [(hit, served.document(hit.path)) for hit in hits]
    return [
        {"name": _short(hit.snippet), "kind": _STRING, "containerName": _short(hit.citation)}
        | {"location": {"uri": one.uri, "range": one.range(hit.start_line - 1, last=hit.end_line - 1)}}
        for hit, one in places
    ]


def diagnostics(server: Server, document: Document) -> list[Message]:
    """Return what is wrong in a note, as the editor holds it; nothing of one that is too large to be parsed in full."""
    served = server.memories.of(document.path)
    if served is None:
        return []
    served.known()  # the next completion is of the names at this moment
    if len(document.text.encode()) > MAX_STRUCTURED_BYTES:
        return []
    path = served.path_of(document)
    if served.files.leaves_out(path):
        return []
    found = served.ask(features.checking.check_text, note=path, text=document.text).findings
    return [
        {"range": _underlined(document, one.line - 1, one.message), "message": printable(one.message)}
        | {"severity": _INFORMATION if one.rule in _MINOR else _WARNING, "code": one.rule, "source": "memsync"}
        for one in found
    ]


def _underlined(document: Document, line: int, message: str) -> Message:
    """Return the range of the link on a line that a message names, otherwise all of the line."""
    for start, end, link in links_on(document.line(line)):
        if (f"[[{link.target}]]" if link.wiki else f"({link.target})") in message or f'"#{link.anchor}"' in message:
            return document.range(line, start, end)
    return document.range(line)
