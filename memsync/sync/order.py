"""Decides which changes to index and which passages to embed first, and estimates how long embedding takes."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress

from memsync.errors import NoteError
from memsync.model.query import EmbeddingSpace
from memsync.model.status import Change, ChangeType, IndexCounts, WaitingNote
from memsync.model.vocabulary import NotePath
from memsync.notes.files import FileScan, NoteFiles
from memsync.ports import Clock, IndexReader

LOOK_SECONDS = 0.25
"""Time limit for `relevance`, which reads the latest changed files first."""
LOOK_BYTES = 200_000
"""How many bytes of each file `relevance` reads."""
SHORTEST_STEM = 4
LONGEST_ENDING = 3
"""How many final letters of a word to ignore. This covers nearly all endings that the word index stems."""


def relevance(
    changes: Sequence[Change], scan: FileScan, words: Sequence[str], files: NoteFiles, clock: Clock
) -> dict[NotePath, int]:
    """Return how many words of a question each changed file has in its name or text; files without any are left out.

    This is only a guess at which files to index first: it reads LOOK_BYTES of each file and stops after LOOK_SECONDS.
    """
    stems = [_stems(word) for word in dict.fromkeys(words)]
    until = clock.monotonic() + LOOK_SECONDS
    counts: dict[NotePath, int] = {}
    for change in newest_first([change for change in changes if change.type is not ChangeType.DELETED], scan):
        if clock.monotonic() >= until:
            break
        beginning = b""
        with suppress(FileNotFoundError, NoteError):
            beginning = files.beginning(change.path, LOOK_BYTES)
        text = f"{change.path}\n{beginning.decode('utf-8', 'ignore')}".casefold()
        count = sum(any(stem in text for stem in forms) for forms in stems)
        if count:
            counts[change.path] = count
    return counts


def newest_first(changes: Sequence[Change], scan: FileScan) -> list[Change]:
    """Return changes of existing files sorted by mtime, newest first."""
    return sorted(changes, key=lambda change: -scan.files[change.path][1])


def _stems(word: str) -> set[str]:
    """Return the strings to find in casefolded text: the word without its ending, in NFC and NFD."""
    folded = word.casefold()
    stem = folded[: max(SHORTEST_STEM, len(folded) - LONGEST_ENDING)]
    return {unicodedata.normalize("NFC", stem), unicodedata.normalize("NFD", stem)}


RATES = "embedding_rates"
"""Key in the index for the passages per second of each model on this machine in its last long run."""
RATE_PASSAGES = 200
"""Minimum passages to compute a rate from. The first ones are slow, because the model is being loaded."""


def embedding_order(notes: Sequence[WaitingNote], retrievals: Mapping[NotePath, int]) -> list[int]:
    """Return the ids of the notes' passages, each once: first the telling passage of every note, then all others.

    Notes are sorted by: pinned, importance, number of retrievals by searches, time of the last change.
    """

    def place(note: WaitingNote) -> tuple[bool, float, int, int, NotePath]:
        return not note.pinned, -note.importance, -retrievals.get(note.path, 0), -note.changed_ns, note.path

    ordered = sorted(notes, key=place)
    telling = [note.telling for note in ordered if note.telling in note.passages]
    return list(dict.fromkeys([*telling, *(passage for note in ordered for passage in note.passages)]))


def known_rate(reader: IndexReader, space: str) -> float:
    """Return how many passages per second were embedded in the space with this name; 0 if unknown."""
    return float(_rates(reader).get(space, 0.0))


def rates_with(reader: IndexReader, space: EmbeddingSpace, rate: float) -> str:
    """Return the value to store under RATES with a new rate for one space."""
    return json.dumps({**_rates(reader), space.name: round(rate, 2)}, sort_keys=True)


def _rates(reader: IndexReader) -> dict[str, float]:
    rates: dict[str, float] = json.loads(reader.meta(RATES) or "{}")
    return rates


def pending_seconds(reader: IndexReader, counts: IndexCounts) -> float:
    """Return the estimated seconds to embed all pending passages; 0 if there are none or the rate is unknown."""
    building = (counts.building_pending, counts.building_space)
    waiting, space = building if counts.building_space else (counts.pending, counts.active_space)
    rate = known_rate(reader, space)
    return round(waiting / rate, 1) if rate else 0.0
