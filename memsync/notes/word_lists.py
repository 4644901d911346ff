"""Read the lists of words that are data: text files beside this module."""

from __future__ import annotations

from pathlib import Path


def word_lists(file: str) -> dict[str, frozenset[str]]:
    """Return the lists in a file by their names: paragraphs `name: word word …`, each word once."""
    parts = Path(__file__).with_name(file).read_text(encoding="utf-8").split("\n\n")
    return {name: frozenset(words.split()) for name, _, words in (part.partition(":") for part in parts)}
