"""Answer what an editor asks about a note. What notes say is data: editors get it as plain text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from itertools import islice
from typing import TYPE_CHECKING, Any

from memsync import features
from memsync.edit.relinking import links_on
from memsync.lsp.cursor import Typed, Under, anchor_line, headings, is_code, typed, under
from memsync.lsp.documents import Document
from memsync.lsp.memories import MAX_OFFERED, Served
from memsync.lsp.stdio import Message
from memsync.model.filters import TASKS
from memsync.model.note import Link
from memsync.model.query import MAX_HITS, SearchRequest
from memsync.model.text import count, printable, shortened, visible
from memsync.model.vocabulary import THREAD_STATUSES, Kind, Mode, NotePath, Origin, Tier
from memsync.notes.inline import tags_in
from memsync.notes.links import CITATION, Anchors, names_heading
from memsync.notes.parse import MAX_STRUCTURED_BYTES, parse_note

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
_YES_OR_NO = ("true", "false")
VALUES: Mapping[str, Iterable[str]] = {
    "kind": Kind, "tier": Tier, "status": THREAD_STATUSES, "by": Origin,
    "role": ("user", "assistant", "system", "tool"),
    "is": ("archived", "current", "superseded", *TASKS), "pinned": _YES_OR_NO, "archived": _YES_OR_NO,
    "local-only": _YES_OR_NO,
}  # fmt: skip
"""The values of filters and keys, besides those that depend on the notes."""
_ERROR_RULES = ("links", "anchors", "front-matter", "conflicts", "secrets", "citations")
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
    def under(self) -> Under | None:
        """What is under the cursor."""
        return under(self.document.lines, self.line, self.column)

    def target(self, link: Link) -> str:
        """Return the file that a link means; empty if it is dead or leads out of the memory."""
        return self.served.known().linked.target(link, self.path)

    @cached_property
    def named(self) -> str:
        """The file that the link or the citation under the cursor names; empty if there is none."""
        if self.under is None or self.under.what not in ("link", "citation"):
            return ""
        return self.target(self.under.link or Link(self.under.name, "", "", 0, wiki=True))


def about_a_note(function: Callable[[Asked, Message], Any]) -> Callable[[Server, Message, Document | None], Any]:
    """Return a function that answers nothing about a document that is in no memory."""

    @wraps(function)
    def answer(server: Server, params: Message, document: Document | None) -> Any:
        served = server.memories.of(document.path) if document is not None else None
        if document is None or served is None:
            return None
        place = document.place(params["position"]) if "position" in params else (0, 0)
        return function(Asked(server, served, document, served.path_of(document.path), *place), params)

    return answer


def prepare(server: Server) -> None:
    """Load the names of the own memory, so that the first completion need not."""
    if (served := server.memories.first()) is not None:
        served.known()


# ----------------------------------------------------------------------------------------------- completion


@about_a_note
def completion(asked: Asked, params: Message) -> Any:  # noqa: ARG001 (because every answer takes it)
    """Offer what may be typed here, best first."""
    found = typed(asked.document.lines, asked.line, asked.column)
    if found is None:
        return None
    place = asked.document.range(asked.line, found.start, asked.column)
    rows = islice(_offers(asked, found), MAX_OFFERED)
    items = [
        {
            "label": printable(shortened(label, MAX_NAME_CHARS)),
            "detail": printable(shortened(detail, MAX_NAME_CHARS)),
            "kind": 18,
            "sortText": f"{number:03}",
            "filterText": printable(label),
            "textEdit": {"range": place, "newText": text},
        }
        for number, (label, detail, text) in enumerate(rows)
    ]
    return {"isIncomplete": True, "items": items}


def _offers(asked: Asked, found: Typed) -> Iterator[tuple[str, str, str]]:
    """Yield (label, detail, text) of what may be typed."""
    known, begun = asked.served.known(waits=False), found.begun.casefold()
    closing = "" if asked.document.line(asked.line)[asked.column :].startswith("]]") else "]]"
    if found.what == "note":
        for target, called, path in known.offered(found.begun, asked.path):
            is_name = called.casefold() == os.path.splitext(os.path.basename(path))[0].casefold()
            shown = "" if is_name else f"|{_linkable(called)}"
            yield called, path, f"{target}{shown}{closing}"
    elif found.what in ("heading", "block"):
        named = known.linked.target(Link(found.of, "", "", 0, wiki=True), asked.path)
        document = asked.served.document(named) if named else None
        lines = document.lines if document is not None else ()
        names = sorted(Anchors(lines).blocks) if found.what == "block" else [text for *_, text in headings(lines)]
        yield from ((name, named, f"{_linkable(name)}{closing}") for name in names if begun in name.casefold())
    elif found.what == "key":
        yield from ((key, "", f"{key}: ") for key in KEYS if key.startswith(begun))
    elif found.what == "tag" or found.of in ("tag", "tags"):
        tags = sorted(known.tags.items(), key=lambda one: (not one[0].casefold().startswith(begun), -one[1], one[0]))
        yield from ((tag, count(notes, "note"), tag) for tag, notes in tags if begun in tag.casefold())
    elif found.of == "in":
        folders = sorted({f"{os.path.dirname(path)}/" for path in known.linked.notes if "/" in path})
        yield from ((folder, "", folder) for folder in folders if begun in folder.casefold())
    else:
        values = map(str, VALUES.get(found.of, ()))
        yield from ((value, "", value) for value in values if value.startswith(begun))


def _linkable(text: str) -> str:
    return " ".join(_NOT_IN_LINK.sub(" ", text).split())


# ------------------------------------------------------------------------------------- where things are


@about_a_note
def definition(asked: Asked, params: Message) -> Any:
    """Return the place that a link, a citation or a heading means; of a tag the note of that name, or all places."""
    here = asked.under
    if here is None:
        return None
    if here.what == "heading":
        return _location(asked, asked.path, asked.line, here.start, here.end)
    if here.what == "tag":
        path = asked.target(Link(here.name, "", "", 0, wiki=True))
        return _location(asked, path) if path else references.__wrapped__(asked, params)  # type: ignore[attr-defined]
    if not asked.named:
        return None
    document = asked.served.document(asked.named)
    line = max(here.first - 1, 0)
    if here.link is not None and document is not None:
        line = anchor_line(document.lines, here.link.anchor)
    return _location(asked, asked.named, line)


@about_a_note
def references(asked: Asked, params: Message) -> Any:  # noqa: ARG001 (as above)
    """Return the links to a note or a heading, the places with a tag, or those that cite a note."""
    here = asked.under
    if here is None:
        return None
    if here.what == "tag":
        return list(_tagged(asked, here.name))
    if here.what == "citation":
        return list(_citing(asked, asked.named)) if asked.named else None
    path, anchor = (asked.path, here.name) if here.link is None else (asked.named, here.link.anchor)
    if path not in asked.served.known().linked.notes:
        return None
    is_title = here.link is None and asked.line == next(headings(asked.document.lines), (0,))[0]
    return list(_linking(asked, NotePath(path), "" if is_title else anchor))


def _linking(asked: Asked, path: NotePath, anchor: str) -> Iterator[Message]:
    """Yield the links to a note or, with `anchor`, to this place in it; in notes that the editor holds as it does."""
    held = held_unsaved(asked)
    found = asked.served.ask(features.linking.links, note=path)
    linked = asked.served.known().linked
    places = [(place.path, place.line, place.target, place.anchor) for place in (*found.into, *found.out)
              if place.note == path and place.path not in held]  # fmt: skip
    for source, document in held.items():
        links = parse_note(source, document.text.encode(), asked.served.rules).links
        places += [(source, one.line, one.target, one.anchor) for one in links if linked.target(one, source) == path]
    for source, line, target, named in places:
        if not anchor or _names(named, anchor):
            at = asked.served.document(source)
            text = at.line(line - 1) if at is not None else ""
            columns = (one[:2] for one in links_on(text) if (one[2].target, one[2].anchor) == (target, named))
            yield _location(asked, source, line - 1, *next(columns, (0, len(text))))


def _names(anchor: str, wanted: str) -> bool:
    """Tell whether an anchor names a place as another anchor, or a heading, does."""
    last, place = (one.rstrip("#").rpartition("#")[2] for one in (anchor, wanted))
    return anchor.lower() == wanted.lower() if "^" in (anchor[:1], wanted[:1]) else names_heading(last, place)


def _tagged(asked: Asked, name: str) -> Iterator[Message]:
    """Yield the places with a tag, or with one under it; the beginning of a note whose front matter has it."""
    wanted = name.casefold()
    for path, document in _found(asked, "", ("tag", name)):
        places = [
            (number, start, end)
            for number, text in enumerate(document.lines)
            for start, end, tag in (tags_in(text) if "#" in text else ())
            if f"{tag.casefold()}/".startswith(f"{wanted}/") and not is_code(document.lines, number)
        ]
        yield from (_location(asked, path, *place) for place in places or [(0, 0, 0)])


def _citing(asked: Asked, path: str) -> Iterator[Message]:
    """Yield the citations of a note."""
    for source, document in _found(asked, f'"{path}"'):
        for number, text in enumerate(document.lines):
            cited = (match for match in CITATION.finditer(text) if match[1] == path)
            yield from (_location(asked, source, number, *match.span()) for match in cited)


def _found(asked: Asked, query: str, *filters: tuple[str, str]) -> Iterator[tuple[NotePath, Document]]:
    """Yield the notes that a search by words finds, and those that differ from their files, each once."""
    request = SearchRequest(query, MAX_HITS, Mode.KEYWORD, filters=filters, counted=False)
    hits = asked.served.ask(features.search.answer_request, request=request).hits
    for path in dict.fromkeys((*(hit.path for hit in hits), *held_unsaved(asked))):
        if (document := asked.served.document(path)) is not None:
            yield path, document


def held_unsaved(asked: Asked) -> dict[NotePath, Document]:
    """Return the notes of which the editor holds another text than the disk."""
    served, documents = asked.served, list(asked.server.documents.values())
    of_memory = {served.path_of(one.path): one for one in documents if asked.server.memories.of(one.path) is served}
    return {path: one for path, one in of_memory.items() if served.is_unsaved(path, one)}


def _location(asked: Asked, path: str, line: int = 0, start: int = 0, end: int = 0) -> Message:
    document = asked.served.document(path)
    at = {"line": line, "character": 0}
    span = document.range(line, start, end) if document is not None else {"start": at, "end": at}
    return {"uri": asked.served.uri(path), "range": span}


# ---------------------------------------------------------------------------------- what a note says


@about_a_note
def hover(asked: Asked, params: Message) -> Any:  # noqa: ARG001 (as above)
    """Quote the first lines of what a link or a citation names, and say what the memory says against this line."""
    here, parts = asked.under, list[str]()
    if asked.named and here is not None:
        document = asked.served.document(asked.named)
        lines = document.lines if document is not None else ()
        first = max(here.first - 1, 0) if here.link is None else anchor_line(lines, here.link.anchor)
        shown = lines[first : max(here.last, first + 1 if here.link is None else first + MAX_HOVER_LINES)]
        parts.append("\n".join([asked.named, "", *shown[:MAX_HOVER_LINES]]))
    elif here is not None and here.what == "tag":
        parts.append(count(asked.served.known().tags.get(here.name, 0), "note"))
    parts += _against(asked)
    text = visible(shortened("\n\n".join(parts), MAX_HOVER_CHARS))
    return {"contents": {"kind": "plaintext", "value": text}} if parts else None


def _against(asked: Asked) -> Iterator[str]:
    """Yield what supersedes or contradicts the line, as a search for it says."""
    line = asked.document.line(asked.line).strip()
    words = " ".join(re.findall(r"\w+", line[:MAX_HOVER_CHARS]))
    if not words:
        return
    request = SearchRequest(words, MAX_SYMBOLS, Mode.KEYWORD, min_score=0.0, counted=False)
    for hit in asked.served.ask(features.search.answer_request, request=request).hits:
        if hit.path == asked.path and line in hit.text:
            yield from filter(None, [hit.validity])
            for place in hit.differs:
                yield f"contradicted by {place}: {asked.served.ask(features.search.get, location=place).text.strip()}"


@about_a_note
def document_symbols(asked: Asked, params: Message) -> Any:  # noqa: ARG001 (as above)
    """Return the headings, each with those under it."""
    document, found = asked.document, list(headings(asked.document.lines))
    roots: list[Message] = []
    inside: list[tuple[int, Message]] = []
    for number, (line, level, text) in enumerate(found):
        after = (other[0] for other in found[number + 1 :] if other[1] <= level)
        last = next(after, len(document.lines)) - 1
        symbol: Message = {
            "name": printable(text) or "#" * level,
            "kind": 15,
            "range": document.range(line, last=last),
            "selectionRange": document.range(line),
            "children": [],
        }
        inside = [one for one in inside if one[0] < level]
        (inside[-1][1]["children"] if inside else roots).append(symbol)
        inside.append((level, symbol))
    return roots


def workspace_symbols(server: Server, params: Message, _: Document | None) -> Any:
    """Search the memory."""
    served, query = server.memories.first(), str(params.get("query", "")).strip()
    if served is None or not query:
        return []
    request = SearchRequest(query, MAX_SYMBOLS, counted=False)
    symbols = []
    for hit in served.ask(features.search.answer_request, request=request).hits:
        document = served.document(hit.path)
        if document is not None:
            symbols.append(
                {
                    "name": printable(shortened(" ".join(hit.snippet.split()), MAX_NAME_CHARS)),
                    "kind": 15,
                    "containerName": printable(hit.citation),
                    "location": {
                        "uri": served.uri(hit.path),
                        "range": document.range(hit.start_line - 1, last=hit.end_line - 1),
                    },
                }
            )
    return symbols


def diagnostics(server: Server, document: Document) -> list[Message]:
    """Return what is wrong in a note, as the editor holds it; nothing of one that is too large to be parsed in full."""
    served = server.memories.of(document.path)
    if served is None or len(document.text) > MAX_STRUCTURED_BYTES:
        return []
    path = served.path_of(document.path)
    if served.files.leaves_out(path):
        return []
    found = served.ask(features.checking.check_text, note=path, text=document.text).findings
    return [
        {
            "range": document.range(one.line - 1),
            "severity": 2 if one.rule in _ERROR_RULES else 3,
            "code": one.rule,
            "source": "memsync",
            "message": printable(one.message),
        }
        for one in found
    ]
