"""What people write: words that notes share, and marks that only one save holds."""

from __future__ import annotations

import random
import re

WORDS = ["heron", "alder", "eel", "ketch", "harbour", "tide", "rope", "漢字", "用SQLite", "сова", "café", "C++"]
PIECES = [
    "# {0} {1}\n\n{2} {3}.\n\n",
    "## {0}\n\n{1} {2} #tag-{3}\n\n",
    "- {0} {1}\n- {2} {3} {{emotion={0}}}\n- [[{1}]] and {2}\n",
    "## user @ 2026-11-21 10:02\n\n{0} {1} {2}?\n\n",
    "- 10:02 {0} {1}\n- 11:15 {2} {3}\n",
    "```\n# {0} is no heading\n{1}\n```\n\n",
    "| {0} | {1} |\n|---|---|\n| {2} | {3} |\n\n",
    "heron alder eel.\n\n",
]
LONG = "alder ketch tide " * 60 + "\n\n"
"""A paragraph long enough to be a chunk by itself."""
HEADS = [
    "", "", "", "---\ntitle: {0}\ntags: [{1}, {2}]\n---\n", "---\narchived: true\n---\n", "---\n[broken: {0}\n---\n",
]  # fmt: skip
_MARK = re.compile(rb"mark[0-9]+x")


def head(seed: int) -> str:
    """Return a note's front matter, most often none."""
    chance = random.Random(seed)
    return chance.choice(HEADS).format(*chance.choices(WORDS, k=3))


def body(seed: int) -> str:
    """Return some Markdown; equal seeds give equal text, which is then one passage wherever it stands."""
    chance = random.Random(seed)
    return "".join(chance.choice(PIECES).format(*chance.choices(WORDS, k=4)) for _ in range(chance.randrange(3)))


def marked(number: int) -> str:
    """Return a line that no other save holds."""
    return f"\nmark{number:04}x\n"


def marks(content: bytes) -> list[str]:
    """Return the marks of a note."""
    return [mark.decode() for mark in _MARK.findall(content)]
