"""What an editor may change: renaming by a run of `mv`, and edits that the editor itself applies."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from memsync import features
from memsync.client.wire import METHOD_NOT_FOUND
from memsync.edit.addition import Addition, end_of_section, find_section, insert_after, join_additions
from memsync.edit.daily_logs import daily_log_path
from memsync.edit.markdown import heading_line, list_item
from memsync.edit.note_end import read_end
from memsync.edit.note_paths import NOTE_OF_TIER, new_note_path
from memsync.edit.titles import TITLE_OF_MEMORY, title_of
from memsync.errors import UsageError, WriteRefused
from memsync.features.log import REMEMBERED
from memsync.features.moving import NOT_IN_ANCHOR
from memsync.lsp import answers
from memsync.lsp.answers import Asked
from memsync.lsp.cursor import headings, is_code
from memsync.mcp_server.messages import Message, Refused
from memsync.model.text import count, listed, printable
from memsync.model.vocabulary import NotePath, Tier
from memsync.notes.attributes import cut_attributes
from memsync.notes.entry_text import ITEM_MARKER
from memsync.notes.frontmatter import read_head
from memsync.notes.links import BLOCK_ID, is_external
from memsync.notes.parse import parse_note
from memsync.notes.validity_marks import PAST, attributes_in, statements
from memsync.system import clock

if TYPE_CHECKING:
    from memsync.lsp.server import Server

MAX_NAMED = 5
FAILED = -32803
_SUPERSEDED = " (superseded)"


def answer(server: Server, method: str, params: Message) -> Any:
    """Answer a request; None about a document that is in no memory. Raises Refused, MemsyncError."""
    if method == "workspace/symbol":
        return [one for served in server.memories.own for one in answers.workspace_symbols(served, params["query"])]
    if method not in ANSWERS:
        raise Refused(METHOD_NOT_FOUND, f"{method[:100]} is not known")
    document = params["textDocument"]["held"]
    served = server.memories.of(document.path) if document is not None else None
    if document is None or served is None:
        return None
    place = params.get("position") or params.get("range", {}).get("start")
    line, column = document.place(place) if place else (0, 0)
    asked = Asked(server, served, document, served.path_of(document), line, column)
    return ANSWERS[method](asked, params)


# ------------------------------------------------------------------------------------------------- renaming


def prepare_rename(asked: Asked, _: Message) -> Any:
    """Return what is renamed: the heading here, or the note that a link or a citation names."""
    here, name = asked.under, asked.named
    if here is None or not (here.what == "heading" or name in asked.known.linked.notes):
        return None
    return {"range": asked.document.range(asked.line, here.start, here.end), "placeholder": name or here.name}


def rename(asked: Asked, params: Message) -> Any:
    """Rename a heading or a note with all links to it, as `memsync mv` does, which undoes it.

    Raises Refused while a note is not saved or the editor shows an old one, and what `mv` raises.
    """
    old, new = asked.named, str(params["newName"]).strip()
    if asked.under is None or not (old or asked.under.what == "heading"):
        raise Refused(FAILED, "there is no heading, link or citation here")
    if unsaved := asked.served.differing(unsaved=True):
        raise Refused(FAILED, f"save all notes first, because this changes the files: {listed(unsaved, MAX_NAMED)}")
    if asked.document.lines != asked.served.document(asked.path, {}).lines:
        raise Refused(FAILED, f"{asked.path} has changed on the disk: reload it")
    if not old:
        path = next(path for line, path in headings(asked.document.lines) if line == asked.line)
        old = f"{asked.path}#{'#'.join(NOT_IN_ANCHOR.sub(' ', text) for text in path)}"
    elif "/" not in new:
        new = posixpath.join(posixpath.dirname(old), new)
    done = asked.served.ask(features.moving.move, old=old, new=new)
    changed = f"{count(len(done.moves), 'note')} moved, {count(len(done.lines), 'line')} changed in the files"
    if stale := asked.served.differing():
        changed += f". Reload the open notes {listed(stale, MAX_NAMED)}"
    asked.server.show(". ".join([f"{changed}. To undo it: memsync mv --undo", *done.warnings]))
    asked.server.check_soon(asked.server.documents)
    return {"changes": {}}


# --------------------------------------------------------------------------------------------- code actions


def code_actions(asked: Asked, params: Message) -> Any:
    """Offer to make the missing note, to mark a statement as superseded, and to log or remember the selection."""
    text = asked.document.selected(params["range"]).strip()
    marker = ITEM_MARKER.match(text) if "\n" not in text else None
    found = [*_making(asked), *_marking(asked)]
    with suppress(UsageError, WriteRefused):  # what cannot be written is not offered
        found += _keeping(asked, text[marker.end() :] if marker else text) if text else ()
    return found


def _making(asked: Asked) -> Iterator[Message]:
    link = asked.under.link if asked.under is not None and asked.under.what == "link" else None
    if link is None or not link.target or is_external(link) or asked.named:
        return
    is_relative = not link.wiki or link.target.startswith(("./", "../"))
    folder = posixpath.dirname(asked.path) if is_relative else ""
    with suppress(UsageError):
        path = new_note_path(posixpath.normpath(posixpath.join(folder, link.target.lstrip("/"))))
        if not asked.served.files.exists(path) and not asked.served.files.leaves_out(path):
            yield from _writing(asked, f"Make the note {path}", path, f"# {title_of(path)}\n", "quickfix")


def _marking(asked: Asked) -> Iterator[Message]:
    lines, head = asked.document.lines, read_head(asked.document.lines).line_count
    for one in statements(lines[head:], head + 1):
        if one.first - 1 <= asked.line < one.last and not is_code(lines, asked.line):
            above, last = lines[one.first - 1 : one.last - 1], lines[one.last - 1]
            column = cut_attributes(last)[0]
            before, after = ("\n".join([*above, f"{last[:column]}{mark}"]) for mark in ("", _SUPERSEDED))
            is_past = PAST in attributes_in(before, "") or BLOCK_ID.search(last)
            if PAST in attributes_in(after, "") and not is_past:
                span = asked.document.range(one.last - 1, column, column)
                new = asked.document.changed([{"text": _SUPERSEDED, "range": span}], None).text
                yield from _writing(asked, "Mark as superseded", asked.path, new)


def _keeping(asked: Asked, text: str) -> Iterator[Message]:
    """Yield the actions that add a text to today's log and to MEMORY.md, as `log` and `remember` do."""
    now, memory = clock.now(), NotePath(NOTE_OF_TIER[Tier.PERSONAL])
    path = daily_log_path(now.date(), asked.served.files, asked.served.rules)
    logged = _appended(asked, path, f"# {now.date()}\n", list_item(text, time=f"{now:%H:%M}"))
    yield from _writing(asked, "Log the selection", path, logged)
    old, item = asked.served.document(memory).text, list_item(text)
    note = parse_note(memory, old.encode(), asked.served.rules)
    if section := find_section(note, REMEMBERED):
        new = insert_after(memory, old, end_of_section(note, section), item)
    else:
        whole = Addition(f"{heading_line(REMEMBERED)}\n\n{item.text}")
        new = _appended(asked, memory, f"# {TITLE_OF_MEMORY}\n", whole)
    yield from _writing(asked, "Remember the selection", memory, new)


def _appended(asked: Asked, path: NotePath, head: str, item: Addition) -> str:
    """Return the text of a note with an addition at its end; an empty one begins with `head`."""
    text = asked.served.document(path).text or head
    return text + join_additions(read_end(path, text.encode()), [item])[0]


def _writing(asked: Asked, title: str, path: NotePath, new: str, kind: str = "refactor") -> Iterator[Message]:
    """Yield the action that makes a note this text; none if there is no such file and the editor can make none."""
    document = asked.served.document(path)
    edits = [document.insertion(new)]
    can = (asked.server.client.get("workspace") or {}).get("workspaceEdit") or {}
    is_there = asked.served.files.exists(path) or document.version is not None
    made = [] if is_there else [{"kind": "create", "uri": document.uri, "options": {"ignoreIfExists": True}}]
    changes = [*made, {"textDocument": {"uri": document.uri, "version": document.version}, "edits": edits}]
    if "create" in (can.get("resourceOperations") or ()) or (is_there and can.get("documentChanges")):
        yield {"title": printable(title), "kind": kind, "edit": {"documentChanges": changes}}
    elif is_there:
        yield {"title": printable(title), "kind": kind, "edit": {"changes": {document.uri: edits}}}


ANSWERS = {
    "textDocument/completion": answers.completion, "textDocument/hover": answers.hover,
    "textDocument/definition": answers.definition, "textDocument/references": answers.references,
    "textDocument/documentSymbol": answers.document_symbols, "textDocument/prepareRename": prepare_rename,
    "textDocument/rename": rename, "textDocument/codeAction": code_actions,
}  # fmt: skip
