"""Tell whether a text is in a language that the built-in model, which is English, cannot read."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from contextlib import suppress

from memsync.errors import NoteError
from memsync.model.vocabulary import NotePath
from memsync.notes.files import NoteFiles
from memsync.notes.word_lists import word_lists
from memsync.settings.config_file import NAME
from memsync.system.user_folders import config_folder

ENGLISH_ONLY = "minilm"
MIN_SHARE = 0.2
SAMPLED_NOTES, SAMPLED_BYTES = 60, 4_000
_WORD = re.compile(r"[^\W\d_]+")
_WORDS = word_lists("language_words.txt")
_FOREIGN = _WORDS["foreign"] - _WORDS["english"]
"""The commonest words of some languages in Latin letters, without those that are English, too."""
MIN_FOREIGN = 0.08
"""Minimum share of such words: Turkish prose has 0.1, German 0.3."""


def is_of_other_script(text: str) -> bool:
    """Tell whether most of a text's letters, counted in bytes, are not Latin; a single Greek letter is a symbol."""
    letters = "".join(word for word in _WORD.findall(text) if word[1:] or not "\u0370" <= word < "\u0400")
    other = sum(len(c.encode("utf-8", "replace")) for c in letters if ord(c) > 0x2AF and not 0x1E00 <= ord(c) < 0x1F00)
    return 2 * other > len(letters.encode("utf-8", "replace"))


def is_foreign(text: str) -> bool:
    """Tell whether a text is in another script, or its commonest words are those of another language than English."""
    if is_of_other_script(text):
        return True
    words = [word.lower() for word in _WORD.findall(text)]
    foreign = [word for word in words if word in _FOREIGN]
    english = sum(word in _WORDS["english"] for word in words)
    return len(set(foreign)) > 1 and len(foreign) > max(english, MIN_FOREIGN * len(words))


def advice_on_model(files: NoteFiles, paths: Collection[str], model: str) -> str:
    """Return what to do if the built-in model cannot read much of the notes' text; empty if it can.

    The text is a sample of the notes, by paragraphs, counted in bytes.
    """
    sizes = {True: 0, False: 1}
    for path in sorted(paths)[:: 1 + len(paths) // SAMPLED_NOTES] if model == ENGLISH_ONLY else ():
        with suppress(FileNotFoundError, NoteError):
            for paragraph in files.beginning(NotePath(path), SAMPLED_BYTES).split(b"\n\n"):
                sizes[is_foreign(paragraph.decode(errors="ignore"))] += len(paragraph)
    share = sizes[True] / sum(sizes.values())
    if share < MIN_SHARE:
        return ""
    return (
        f"About {share:.0%} of the text is in languages that the built-in model cannot read: searches find it by its "
        f"words alone. Make the model multilingual (docs/languages.md), and write into "
        f"{os.path.join(config_folder(), NAME)}: "
        '[embedder] model = "multilingual"'
    )
