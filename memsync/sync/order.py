"""Decides which changed files to index first."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from contextlib import suppress

from memsync.errors import NoteError
from memsync.model.status import ChangeType, FileChange
from memsync.model.vocabulary import NotePath
from memsync.notes.files import FileScan, NoteFiles
from memsync.ports import Clock

LOOK_SECONDS = 0.25
"""Time limit for `relevance`, which reads the latest changed files first."""
LOOK_BYTES = 200_000
"""How many bytes of each file `relevance` reads."""
SHORTEST_STEM = 4
LONGEST_ENDING = 3
"""How many final letters of a word to ignore. This covers nearly all endings that the word index stems."""


def relevance(
    changes: Sequence[FileChange], scan: FileScan, words: Sequence[str], files: NoteFiles, clock: Clock
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


def newest_first(changes: Sequence[FileChange], scan: FileScan) -> list[FileChange]:
    """Return changes of existing files sorted by mtime, newest first."""
    return sorted(changes, key=lambda change: -scan.files[change.path][1])


def _stems(word: str) -> set[str]:
    """Return the strings to find in casefolded text: the word without its ending, in NFC and NFD."""
    folded = word.casefold()
    stem = folded[: max(SHORTEST_STEM, len(folded) - LONGEST_ENDING)]
    return {unicodedata.normalize("NFC", stem), unicodedata.normalize("NFD", stem)}
