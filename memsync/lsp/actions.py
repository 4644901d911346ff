"""What an editor may change: renaming by a run of `mv`, and edits that the editor itself applies."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from memsync import features
from memsync.edit.addition import Addition, end_of_section, find_section, insert_after, join_additions
from memsync.edit.daily_logs import daily_log_path
from memsync.edit.markdown import heading_line, list_item
from memsync.edit.note_end import read_end
from memsync.edit.note_paths import NOTE_OF_TIER, new_note_path
from memsync.edit.titles import TITLE_OF_MEMORY, title_of
from memsync.errors import UsageError, WriteRefused
from memsync.features.log import REMEMBERED
from memsync.features.moving import NOT_IN_ANCHOR
from memsync.lsp.answers import Asked, about_a_note, held_unsaved
from memsync.lsp.cursor import is_code
from memsync.lsp.documents import Document
from memsync.lsp.stdio import FAILED, Message, Refused
from memsync.model.text import count, listed, printable
from memsync.model.vocabulary import NotePath, Tier
from memsync.notes.attributes import cut_attributes
from memsync.notes.entry_text import ITEM_MARKER
from memsync.notes.frontmatter import read_head
from memsync.notes.links import heading_paths, is_external
from memsync.notes.parse import parse_note
from memsync.notes.validity_marks import PAST, attributes_in, statements
from memsync.system import clock

MAX_NAMED = 5
_SUPERSEDED = " (superseded)"


@about_a_note
def prepare_rename(asked: Asked, params: Message) -> Any:  # noqa: ARG001 (because every answer takes it)
    """Return what is renamed: the heading here, or the note that a link or a citation names."""
    here = asked.under
    if here is None or not (here.what == "heading" or asked.named in asked.served.known().linked.notes):
        return None
    span = asked.document.range(asked.line, here.start, here.end)
    return {"range": span, "placeholder": here.name if here.what == "heading" else asked.named}


@about_a_note
def rename(asked: Asked, params: Message) -> Any:
    """Rename a heading or a note with all links to it, as `memsync mv` does, which undoes it.

    Raises Refused for a note that is not saved, and what `mv` raises.
    """
    here, new = asked.under, str(params.get("newName", "")).strip()
    if here is None or not (here.what == "heading" or asked.named):
        raise Refused(FAILED, "there is no heading, link or citation here")
    old = asked.named
    if here.what == "heading":
        head = read_head(asked.document.lines).line_count
        paths = {number + head - 1: path for number, path in heading_paths(asked.document.lines[head:])}
        parts = (NOT_IN_ANCHOR.sub(" ", text[: cut_attributes(text)[0]]) for text in paths[asked.line])
        old = f"{asked.path}#{'#'.join(parts)}"
    elif "/" not in new:
        new = posixpath.join(posixpath.dirname(old), new)
    _refuse_unsaved(asked, [asked.path] if here.what == "heading" else [])
    plan = asked.served.ask(features.moving.move, old=old, new=new, dry_run=True)
    _refuse_unsaved(asked, [*(move.path for move in plan.moves), *(line.path for line in plan.lines)])
    done = asked.served.ask(features.moving.move, old=old, new=new)
    changed = f"{count(len(done.moves), 'note')} moved, {count(len(done.lines), 'line')} changed in the files"
    told = ". ".join([f"{changed}. To undo it: memsync mv --undo", *done.warnings])
    asked.server.editor.tell("window/showMessage", {"type": 3, "message": printable(told)})
    return {"changes": {}}


def _refuse_unsaved(asked: Asked, paths: list[NotePath]) -> None:
    if unsaved := sorted({*paths} & {*held_unsaved(asked)}):
        raise Refused(FAILED, f"save first, because this changes the files: {listed(unsaved, MAX_NAMED)}")


# --------------------------------------------------------------------------------------------- code actions


@about_a_note
def code_actions(asked: Asked, params: Message) -> Any:
    """Offer to make the missing note, to mark a statement as superseded, and to log or remember the selection."""
    span = params["range"]
    line, column = asked.document.place(span["start"])
    asked = Asked(asked.server, asked.served, asked.document, asked.path, line, column)
    text = asked.document.selected(span).strip()
    actions = [*_making(asked), *_marking(asked)]
    with suppress(UsageError, WriteRefused):  # a log that cannot be written is not offered
        actions += [*_logging(asked, text), *_remembering(asked, text)] if text else []
    return actions


def _making(asked: Asked) -> Iterator[Message]:
    here = asked.under
    if here is None or here.link is None or not here.link.target or is_external(here.link) or asked.named:
        return
    target, beside = here.link.target, posixpath.dirname(asked.path)
    is_relative = not here.link.wiki or target.startswith(("./", "../"))
    with suppress(UsageError):
        path = new_note_path(posixpath.normpath(posixpath.join(beside, target)) if is_relative else target.lstrip("/"))
        if not asked.served.files.exists(path) and not asked.served.files.leaves_out(path):
            yield from _action(asked, f"Make the note {path}", "quickfix", path, f"# {title_of(path)}\n")


def _marking(asked: Asked) -> Iterator[Message]:
    lines = asked.document.lines
    head = read_head(lines).line_count
    found = (one for one in statements(lines[head:], head + 1) if one.first - 1 <= asked.line < one.last)
    statement = next(found, None)
    if statement is None or is_code(lines, asked.line):
        return
    number, text = statement.last - 1, lines[statement.last - 1]
    column = cut_attributes(text)[0]
    marked = f"{text[:column]}{_SUPERSEDED}"
    whole = ["\n".join([*lines[statement.first - 1 : number], one]) for one in (text[:column], marked)]
    if PAST in attributes_in(whole[0], "") or PAST not in attributes_in(whole[1], ""):
        return
    edit = {"range": asked.document.range(number, column, column), "newText": _SUPERSEDED}
    yield _titled(asked, "Mark as superseded", "refactor", asked.document, [edit])


def _logging(asked: Asked, text: str) -> Iterator[Message]:
    now = clock.now()
    path = daily_log_path(now.date(), asked.served.files, asked.served.rules)
    item = list_item(_one(text), time=f"{now:%H:%M}")
    yield from _action(asked, "Log the selection", "refactor", path, _appended(asked, path, f"# {now.date()}\n", item))


def _remembering(asked: Asked, text: str) -> Iterator[Message]:
    path, item = NotePath(NOTE_OF_TIER[Tier.PERSONAL]), list_item(_one(text))
    document = asked.served.document(path)
    note = parse_note(path, document.text.encode(), asked.served.rules) if document is not None else None
    section = find_section(note, REMEMBERED) if note is not None else None
    if document is None or note is None or section is None:
        whole = Addition(f"{heading_line(REMEMBERED)}\n\n{item.text}")
        new = _appended(asked, path, f"# {TITLE_OF_MEMORY}\n", whole)
    else:
        new = insert_after(path, document.text, end_of_section(note, section), item)
    yield from _action(asked, "Remember the selection", "refactor", path, new)


def _one(text: str) -> str:
    """Return a selected text; without the marker of a list if it is one item of it."""
    marker = ITEM_MARKER.match(text) if "\n" not in text else None
    return text[marker.end() :] if marker else text


def _appended(asked: Asked, path: NotePath, head: str, item: Addition) -> str:
    """Return the text of a note with an addition at its end; a note that is missing begins with `head`."""
    document = asked.served.document(path)
    text = document.text if document is not None else head
    return text + join_additions(read_end(path, text.encode()), [item])[0]


def _action(asked: Asked, title: str, kind: str, path: NotePath, new: str) -> Iterator[Message]:
    """Yield the action that makes a note this text; none if the note is missing and the editor can make no files."""
    document = asked.served.document(path)
    edit = (asked.server.client.get("workspace") or {}).get("workspaceEdit") or {}
    if document is not None:
        yield _titled(asked, title, kind, document, [document.edit(new)])
    elif edit.get("documentChanges") and "create" in (edit.get("resourceOperations") or ()):
        empty = Document(asked.served.uri(path), "", "", asked.document.encoding)
        yield _titled(asked, title, kind, empty, [empty.edit(new)], creates=True)


def _titled(
    asked: Asked, title: str, kind: str, document: Document, edits: list[Message], *, creates: bool = False
) -> Message:
    client: Mapping[str, Any] = (asked.server.client.get("workspace") or {}).get("workspaceEdit") or {}
    if client.get("documentChanges"):
        made = [{"kind": "create", "uri": document.uri, "options": {"ignoreIfExists": True}}] if creates else []
        named = {"uri": document.uri, "version": document.version}
        edit: Message = {"documentChanges": [*made, {"textDocument": named, "edits": edits}]}
    else:
        edit = {"changes": {document.uri: edits}}
    return {"title": printable(title), "kind": kind, "edit": edit}
