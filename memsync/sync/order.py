"""In which order passages get their vectors, how fast, and how long the rest will take.

Searches by meaning find a note by any passage of it. So each note has one passage embedded first, the one that tells
best what it is about, before any note has its second. The finished index is the same in any order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from memsync.model.query import EmbeddingSpace
from memsync.model.sync_report import IndexCounts, WaitingNote
from memsync.model.text import duration
from memsync.model.vocabulary import NotePath
from memsync.ports import IndexReader

RATES = "embedding_rates"
"""Where the index keeps how many passages a second each model embedded on this machine at the last long run."""
RATE_PASSAGES = 200
"""So many make a rate: the first ones are slow, because the model is being loaded."""


def embedding_order(notes: Sequence[WaitingNote], retrievals: Mapping[NotePath, int]) -> list[int]:
    """Return the passages of the notes, each once: one of each note first, then the others note by note.

    Pinned notes come before others, then important ones, those that searches retrieved most, and those changed last.
    """

    def place(note: WaitingNote) -> tuple[bool, float, int, int, NotePath]:
        return not note.pinned, -note.importance, -retrievals.get(note.path, 0), -note.changed_ns, note.path

    ordered = sorted(notes, key=place)
    telling = [note.telling for note in ordered if note.telling in note.passages]
    return list(dict.fromkeys([*telling, *(passage for note in ordered for passage in note.passages)]))


def known_rate(reader: IndexReader, space: str) -> float:
    """Return how many passages were embedded in a second in the space of this name; 0 when that was not measured."""
    return float(_rates(reader).get(space, 0.0))


def rates_with(reader: IndexReader, space: EmbeddingSpace, rate: float) -> str:
    """Return what to keep under RATES, with a new rate for one space."""
    return json.dumps({**_rates(reader), space.name: round(rate, 2)}, sort_keys=True)


def _rates(reader: IndexReader) -> dict[str, float]:
    rates: dict[str, float] = json.loads(reader.meta(RATES) or "{}")
    return rates


def pending_seconds(reader: IndexReader, counts: IndexCounts) -> float:
    """Return about how long it takes to embed what waits; 0 when nothing does, or the speed is unknown."""
    building = (counts.building_pending, counts.building_space)
    waiting, space = building if counts.building_space else (counts.pending, counts.active_space)
    rate = known_rate(reader, space)
    return round(waiting / rate, 1) if rate else 0.0


def announcement(passages: int, rate: float) -> str:
    """Return the sentence that says how much there is to embed and how long that will take."""
    return f"{passages:,} passages to embed, about {duration(passages / rate)}"
