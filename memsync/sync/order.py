"""Which changes and which passages come first, and how long they take."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence

from memsync.errors import NoteError
from memsync.model.query import EmbeddingSpace
from memsync.model.status import Change, ChangeType, IndexCounts, WaitingNote
from memsync.model.text import duration
from memsync.model.vocabulary import NotePath
from memsync.notes.files import FileScan, NoteFiles
from memsync.ports import Clock, IndexReader

LOOK_SECONDS = 0.25
"""How long the look may take; files that changed last are looked at first."""
LOOK_BYTES = 200_000
"""How much of each file is looked at."""
SHORTEST_STEM = 4
LONGEST_ENDING = 3
"""An ending of so many letters is left off a word: what the word index stems is then hardly ever missed."""


def relevance(
    changes: Sequence[Change], scan: FileScan, words: Sequence[str], files: NoteFiles, clock: Clock
) -> dict[NotePath, int]:
    """Return for each changed file how many of a question's words its name or its text holds; files with none left out.

    Only a guess at what to index first: it misses what lies behind the first LOOK_BYTES, and whatever LOOK_SECONDS do
    not suffice for.
    """
    stems = [_stems(word) for word in dict.fromkeys(words)]
    until = clock.monotonic() + LOOK_SECONDS
    found: dict[NotePath, int] = {}
    for change in newest_first([change for change in changes if change.type is not ChangeType.DELETED], scan):
        if clock.monotonic() >= until:
            break
        text = f"{change.path}\n{_beginning(files, change.path)}".casefold()
        count = sum(any(stem in text for stem in forms) for forms in stems)
        if count:
            found[change.path] = count
    return found


def newest_first(changes: Sequence[Change], scan: FileScan) -> list[Change]:
    """Return changes of files that are there, in the order of their mtimes, the last one first."""
    return sorted(changes, key=lambda change: -scan.files[change.path][1])


def _stems(word: str) -> set[str]:
    """Return what to look for in folded text: the word without its ending, in both ways to write an accent."""
    folded = word.casefold()
    stem = folded[: max(SHORTEST_STEM, len(folded) - LONGEST_ENDING)]
    return {unicodedata.normalize("NFC", stem), unicodedata.normalize("NFD", stem)}


def _beginning(files: NoteFiles, path: NotePath) -> str:
    try:
        return files.beginning(path, LOOK_BYTES).decode("utf-8", "ignore")
    except (FileNotFoundError, NoteError):
        return ""


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
