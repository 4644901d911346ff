"""Which of many changed files a question is most likely about: a quick look at names and text, before indexing."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from memsync.errors import NoteError
from memsync.model.sync_report import Change, ChangeType
from memsync.model.vocabulary import NotePath
from memsync.notes.files import FileScan, NoteFiles
from memsync.ports import Clock

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
