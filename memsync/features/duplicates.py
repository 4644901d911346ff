"""Find passages that several notes contain."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from memsync.errors import NoteError
from memsync.model.text import not_shared
from memsync.model.upkeep import Duplicates, NoteLines, Repetition
from memsync.operation import At, Command, operation
from memsync.ports import Progress, no_progress

if TYPE_CHECKING:
    from memsync.workspace import Workspace

SECTION = "Upkeep"

MIN_TOKENS = 8
"""Shorter passages ("Yes.", "Open questions") recur in many notes without being duplicates."""
MAX_PAIRS = 10_000
MAX_COMPARED = 40_000
"""Number of passages compared with each other, unless `compare_all`. Takes ten seconds; twice as many take forty."""
MIN_SIMILARITY = 0.7
"""Passages with a lower cosine only share a topic."""


@operation(
    Command(
        "duplicates",
        help="Print passages that several notes contain, word for word or nearly so, most similar first.",
        notes="It compares each passage with every other; you can interrupt it at any time.",
        runs_here=True,
        fixed={"limit": 2**53},
        first=10,
    ),
    is_slow=True,
)
def duplicates(
    memory: Workspace,
    *,
    similarity: Annotated[
        float, Meta(ge=MIN_SIMILARITY, le=1, description="Minimum similarity (1: identical apart from links).")
    ] = 0.95,
    limit: Annotated[int, Meta(ge=1, le=2**53, description="How many to return.")] = 50,
    compare_all: Annotated[bool, Meta(description="Compare all passages, not only the 40,000 longest.")] = False,
    at: At = "",
    progress: Progress = no_progress,
) -> Duplicates:
    """Return passages that several notes contain, equal or with a cosine of at least `similarity`.

    Compares only the 40,000 longest passages unless `compare_all`, but finds every passage that is equal to another.
    """
    max_compared = sys.maxsize if compare_all else MAX_COMPARED
    with memory.as_of_now() as (reader, pending):
        groups, left_out = reader.repetitions(similarity, MIN_TOKENS, MAX_PAIRS, max_compared, progress)
        space = reader.active_space()
        waiting = reader.pending(space) if space else reader.counts().passages
        warnings = not_shared(reader.not_shared())
    repetitions = []
    for score, places in groups[:limit]:
        texts = {_quote(memory, place) for place in places} if score == 1 else set()
        text = _quote(memory, places[0])
        repetitions.append(Repetition(score, tuple(places), text, is_equal=len(texts) == 1))
    return Duplicates(tuple(repetitions), pending, waiting, left_out, warnings)


def _quote(memory: Workspace, place: NoteLines) -> str:
    """Return the current lines of a place; empty if its note is gone or unreadable."""
    try:
        note = memory.editor.read(place.path)
    except (OSError, NoteError):
        return ""
    return "\n".join(note.lines[place.start_line - 1 : place.end_line]) if note else ""
