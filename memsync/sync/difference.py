"""Where two indexes differ, if they do."""

from __future__ import annotations

from itertools import zip_longest

from memsync.model import Difference
from memsync.ports import Index


def first_difference(index: Index, other: Index) -> Difference | None:
    """Return the first line in which the canonical dumps of two indexes differ; None when they are equal."""
    with index.reading() as mine, other.reading() as theirs:
        pairs = zip_longest(mine.dump(), theirs.dump(), fillvalue="")
        return next((Difference(line, a, b) for line, (a, b) in enumerate(pairs, 1) if a != b), None)
