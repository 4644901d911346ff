"""Name in each hit the statements that contradict it, as far as they were found, too."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from memsync.model.answer import Hit, holds
from memsync.model.vocabulary import Kind, NotePath, Origin, is_remembered
from memsync.notes.contradicting import FramedStatement, opposed, said_in
from memsync.search.anchor import Anchor
from memsync.search.spans import Span
from memsync.search.validity import MarkedLines, Validity

Line = tuple[NotePath, int]
COMPARED = 15
"""How many of the first passages are compared: both sides of a contradiction are near a question about it."""
MAX_DIFFERS = 10
"""Citations in a hit: a stranger's note can say a thousand times that it replaces a line."""
MAX_CHARS = 400
"""A longer passage is not compared; statements of facts are short."""


def differing(hits: list[Hit], spans: Sequence[Span], anchor: Anchor, validity: Validity) -> list[Hit]:
    """Return hits with the citations of the statements of `spans` that differ from one of theirs (notes.contrast).

    So does a text that would replace one that is trusted more.
    """
    said: list[tuple[FramedStatement, Line]] = []
    refused: list[tuple[MarkedLines, MarkedLines]] = []
    for span in spans:
        text = anchor.text_of(span.best)
        may_differ = holds(span.best.validity) and span.shown.origin != Origin.TOOL
        if text is not None and holds(span.best.validity):
            marks = validity.refused(span.shown.path, span.best.entry, text, span.shown.origin)
            refused += ((place, pair.mark) for place, pair in marks)
        if text is not None and len(text) <= MAX_CHARS and may_differ:
            part, is_log = [f"## {''.join(span.shown.heading_path[1:][-1:])}"], span.shown.kind == Kind.DAILY
            first = span.best.entry.start_line - 1
            statements = said_in([*part, *text.split("\n")], first, span.shown.path, is_log=is_log)
            said += [(one, (span.shown.path, one.line)) for one in statements]
    contested = [(set(left), set(right)) for left, right in opposed(said)]
    return [_compared(hit, contested, refused) for hit in hits] if contested or refused else hits


def _compared(
    hit: Hit, contested: Sequence[Sequence[set[Line]]], refused: Sequence[tuple[MarkedLines, MarkedLines]]
) -> Hit:
    """Return a hit with what its lines differ from: in each of `contested`, places of one set say the same.

    `refused` has each text that would have been replaced, and the place of the mark.
    """
    own = {(hit.path, line) for line in range(hit.start_line, hit.end_line + 1)}
    others: set[Line] = set()
    for places in contested if hit.holds else ():
        if any(own & same for same in places):
            others.update(*(same for same in places if not own & same))
    if not is_remembered(hit.kind, hit.tier):  # the parts of any other note do not contradict each other
        others = {(path, line) for path, line in others if path != hit.path}
    lines = [f"{path}:{line}" for path, line in sorted(others)]
    for place, other in (*refused, *((mark, old) for old, mark in refused)):
        lines += [other.citation] if place.overlaps(hit.path, hit.start_line, hit.end_line) and hit.holds else []
    return structs.replace(hit, differs=tuple(dict.fromkeys(lines))[:MAX_DIFFERS]) if lines else hit
