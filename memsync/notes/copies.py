"""Tell which notes are copies that a sync client or git made of another note in the same folder."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import pairwise

from memsync.errors import NoteError
from memsync.model.vocabulary import NotePath
from memsync.notes.files import NoteFiles

_ADDED = re.compile(
    r"""(?xis) (?!.*/) (?: [\s._-]* (?:
    sync-conflict-\d{8}-\d{6}.*                                     # Syncthing
  | [(\[] .* (?:conflicted|(?:case|sf)[ ]?conflict|conflict[ ](?:copy|\d{8})|konflikt|conflit|conflicto) .* [)\]]
    (?:[ ]?\(\d+\))?                                              # Dropbox, Nextcloud, Obsidian, fsnotes
  | _(?:BASE|LOCAL|REMOTE|BACKUP)_\d+                               # git mergetool
  | [._-](?:\S+_)?(?:case)?conflict(?:ed)?(?:[._\s-]*\d[\d._\s-]*)?   # ownCloud, Resilio, Synology
    ) | (?P<likely>[ ]\d{1,2}|[ ]?\(\d{1,2}\)) )                    # iCloud, browsers; but also people, for chapters
    """
)
"""What a copy has at the end of its name."""
_MAY_BE_COPY = re.compile(r"conflict|konflikt|conflit|_(?:BASE|LOCAL|REMOTE|BACKUP)_|\d\)?\.\w+$", re.IGNORECASE)
COMPARED_BYTES = 64_000
MIN_SHARE = 0.6
"""Minimum share of the shorter text's pairs of words that the other has, too."""
_WORD = re.compile(r"\w{3,}|\d+")


def copies_of(files: NoteFiles, paths: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (copy, original) of the notes that are copies by their names and, if these are not certain, their texts."""
    for copy in sorted(paths):
        stem, _, ending = copy.rpartition(".")
        ends = range(len(stem) - 1, stem.rfind("/") + 1, -1) if _MAY_BE_COPY.search(copy) else ()
        originals = (one for end in ends if (one := f"{stem[:end]}.{ending}") in paths)
        with suppress(FileNotFoundError, NoteError, StopIteration):
            added, pair = next((added, (copy, one)) for one in originals if (added := added_to(one, copy)))
            texts = (files.beginning(NotePath(path), COMPARED_BYTES).decode(errors="replace") for path in pair)
            if not added["likely"] or are_copies(*pair, *texts):
                yield pair


def added_to(original: str, copy: str) -> re.Match[str] | None:
    """Return what the path of a note has more than the one of which it may be a copy; None if it cannot be one."""
    stem, ending = original[: original.rfind(".")], original[original.rfind(".") :]
    is_like = copy.startswith(stem) and copy.endswith(ending)
    return _ADDED.fullmatch(copy[len(stem) : -len(ending)]) if is_like else None


def are_copies(first: str, second: str, text: str, other: str) -> bool:
    """Tell whether one of two notes with these texts is a copy of the other, and the texts are alike.

    A text with the name of the note that may be a copy (`# Things 3`) is none.
    """
    original, copy = sorted((first, second), key=len)
    name = copy[copy.rfind("/") + 1 : copy.rfind(".")].casefold()
    if not added_to(original, copy) or name in f"{text}\n{other}".casefold():
        return False
    pairs, others = (set(pairwise(_WORD.findall(each))) for each in (text, other))
    return len(pairs & others) >= MIN_SHARE * min(len(pairs), len(others)) > 0
