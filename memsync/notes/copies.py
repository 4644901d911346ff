"""Tell which notes are copies that a sync client or git made of another note in the same folder."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import pairwise

from memsync.errors import NoteError
from memsync.model.vocabulary import NotePath
from memsync.notes.files import NoteFiles

_CERTAIN = re.compile(
    r"""(?xis) [\s._-]* (?:
    sync-conflict-\d{8}-\d{6}.*                                     # Syncthing
  | [(\[] .* (?:conflicted|(?:case|sf)[ ]?conflict|conflict[ ](?:copy|\d{8})|konflikt|conflit|conflicto) .* [)\]]
    (?:[ ]?\(\d+\))?                                              # Dropbox, Nextcloud, Obsidian, fsnotes
  | _(?:BASE|LOCAL|REMOTE|BACKUP)_\d+                               # git mergetool
  | [._-](?:conflict|conflicted|caseconflict)(?:[._\s-]*\d[\d._\s-]*)?   # ownCloud, Resilio
  | _\S+_(?:case)?conflict                                          # Synology
    )"""
)
_LIKELY = re.compile(r" \d{1,2}| ?\(\d{1,2}\)")
"""iCloud, Google Drive and browsers; but people number chapters so, too."""
_MAY_BE_COPY = re.compile(r"conflict|konflikt|conflit|_(?:BASE|LOCAL|REMOTE|BACKUP)_|\d\)?\.\w+$", re.IGNORECASE)
COMPARED_BYTES = 64_000
_WORD = re.compile(r"\w{3,}|\d+")


def copies_of(files: NoteFiles, paths: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (copy, original) of the notes that are copies by their names and, if these are not certain, their texts."""
    for copy in sorted(paths):
        stem, _, ending = copy.rpartition(".")
        ends = range(len(stem) - 1, stem.rfind("/") + 1, -1) if _MAY_BE_COPY.search(copy) else ()
        originals = (one for end in ends if (one := f"{stem[:end]}.{ending}") in paths and is_copy(copy, one))
        with suppress(FileNotFoundError, NoteError, StopIteration):
            pair = copy, next(originals)
            texts = [files.beginning(NotePath(path), COMPARED_BYTES).decode(errors="replace") for path in pair]
            if is_certain(*pair) or is_alike(*pair, *texts):
                yield pair


def is_copy(copy: str, original: str) -> bool:
    """Tell whether the path of a note may be that of a copy of another one."""
    stem, ending = original[: original.rfind(".")], original[original.rfind(".") :]
    if not (copy.startswith(stem) and copy.endswith(ending)):
        return False
    rest = copy[len(stem) : len(copy) - len(ending)]
    return "/" not in rest and (_CERTAIN.fullmatch(rest) or _LIKELY.fullmatch(rest)) is not None


def is_certain(copy: str, original: str) -> bool:
    """Tell whether the path of a copy cannot be that of a note which a person named so."""
    return _CERTAIN.fullmatch(copy[original.rfind(".") : copy.rfind(".")]) is not None


def are_copies(first: str, second: str, text: str, other: str) -> bool:
    """Tell whether one of two notes with these passages is a copy of the other, and the passages are alike."""
    if is_copy(first, second):
        return is_alike(first, second, text, other)
    return is_copy(second, first) and is_alike(second, first, other, text)


def is_alike(copy: str, original: str, text: str, text_of_original: str) -> bool:
    """Tell whether two texts share so much that one is a copy of the other.

    `copy` and `original` are the paths of their notes. If these are certain, it is enough that most words are equal. A
    text that has its own note's name (`# Things 3`) is no copy otherwise.
    """
    name = copy[copy.rfind("/") + 1 : copy.rfind(".")]
    words, others = _WORD.findall(text), _WORD.findall(text_of_original)
    is_sure = is_certain(copy, original)
    first, second = (set(each) if is_sure else set(pairwise(each)) for each in (words, others))
    is_own = not is_sure and name.casefold() in text.casefold()
    return not is_own and len(first & second) >= (0.7 if is_sure else 0.6) * min(len(first), len(second)) > 0
