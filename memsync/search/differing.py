"""Name in each hit the statements that contradict it, as far as they were found, too."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from memsync.model.answer import Hit, holds
from memsync.model.vocabulary import NotePath, Origin, is_remembered
from memsync.notes.contrast import MAX_FILLINGS, said_in
from memsync.search.anchor import Anchor
from memsync.search.spans import Span

Frame = tuple[str, ...]
Line = tuple[NotePath, int]
COMPARED = 15
"""How many of the first passages are compared: both sides of a conflict are near a question about it."""
MAX_CHARS = 400
"""A longer passage is not compared; statements of facts are short."""


def differing(hits: list[Hit], spans: Sequence[Span], anchor: Anchor) -> list[Hit]:
    """Return hits with the citations of the statements of `spans` that differ from one of theirs (notes.contrast)."""
    said: dict[Frame, dict[Frame, set[Line]]] = {}
    for span in spans:
        text = anchor.text_of(span.best)
        may_differ = holds(span.best.validity) and span.shown.origin != Origin.TOOL
        if text is not None and len(text) <= MAX_CHARS and may_differ:
            for one in said_in(text.split("\n"), span.best.entry.start_line):
                said.setdefault(one.frame, {}).setdefault(one.filling, set()).add((span.shown.path, one.line))
    contested = [list(fillings.values()) for fillings in said.values() if 1 < len(fillings) <= MAX_FILLINGS]
    return [_compared(hit, contested) for hit in hits] if contested else hits


def _compared(hit: Hit, contested: Sequence[Sequence[set[Line]]]) -> Hit:
    """Return a hit with what its lines differ from: in each of `contested`, places of one set say the same."""
    own = {(hit.path, line) for line in range(hit.start_line, hit.end_line + 1)}
    others: set[Line] = set()
    for places in contested if hit.holds else ():
        if any(own & same for same in places):
            others.update(*(same for same in places if not own & same))
    if not is_remembered(hit.kind, hit.tier):  # the parts of any other note do not contradict each other
        others = {(path, line) for path, line in others if path != hit.path}
    return structs.replace(hit, differs=tuple(f"{path}:{line}" for path, line in sorted(others))) if others else hit
