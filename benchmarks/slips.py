"""Measure searches for a word with typing errors: the first hit should be that of the right word.

The words have six to fourteen letters, and one note of a folder has them. A slip is two letters exchanged, one left
out, one doubled or a wrong one, and makes no other word of the notes.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean

from benchmarks.figures import Row
from benchmarks.memories import opened
from memsync.memory import Memory
from memsync.model.vocabulary import Mode

SEED = 11
ASKED = 300
_WORD = re.compile(r"(?<![^\W_])[a-z]{6,14}(?![^\W_])")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def typing_errors(data: Path, state: Path) -> list[Row]:
    """Ask the RFCs and the FAQ for single words with one slip, and with two."""
    rows = []
    for name, root in (("rfcs", data / "rfcs"), ("faq", data / "faq" / "notes")):
        words, known = rare_words(root)
        chance = random.Random(SEED)
        chosen = chance.sample(words, min(ASKED, len(words)))
        with opened(root, state) as memory:
            memory.sync()
            for slips in (1, 2):
                typed = [(word, with_slips(word, slips, known, chance)) for word in chosen]
                for mode in (Mode.HYBRID, Mode.KEYWORD):
                    share = fmean(_first(memory, word, mode) == _first(memory, slip, mode) for word, slip in typed)
                    measure = (
                        f"{name}, {len(typed)} words with {slips} typing errors, {mode.value}: first hit as without"
                    )
                    rows.append(Row(measure, share, "≥ 0.9", share >= 0.9))
    return rows


def rare_words(root: Path) -> tuple[list[str], set[str]]:
    """Return the words that one note has, in order, and all words of the notes."""
    notes_with: dict[str, set[Path]] = defaultdict(set)
    for path in root.rglob("*.md"):
        for word in _WORD.findall(path.read_text(encoding="utf-8", errors="replace").lower()):
            notes_with[word].add(path)
    return sorted(word for word, notes in notes_with.items() if len(notes) == 1), set(notes_with)


def with_slips(word: str, slips: int, known: set[str], chance: random.Random) -> str:
    """Return a word with so many slips that no note has."""
    while True:
        typed = word
        for _ in range(slips):
            typed = _slip(typed, chance)
        if typed not in known and typed != word:
            return typed


def _slip(word: str, chance: random.Random) -> str:
    at = chance.randrange(len(word) - 1)
    before, letter, after = word[:at], word[at], word[at + 1 :]
    match chance.randrange(4):
        case 0:
            return before + after[0] + letter + after[1:]
        case 1:
            return before + after
        case 2:
            return before + letter + letter + after
    return before + chance.choice(_LETTERS) + after


def _first(memory: Memory, typed: str, mode: Mode) -> tuple[str, int] | None:
    hits = memory.search(typed, mode=mode, limit=1).hits
    return (hits[0].path, hits[0].start_line) if hits else None
