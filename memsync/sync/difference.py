"""Where two indexes differ, if they do."""

from __future__ import annotations

import json
from itertools import zip_longest

from memsync.model.status import Difference
from memsync.ports import Index, IndexReader


def first_difference(index: Index, other: Index) -> Difference | None:
    """Return the first line in which the canonical dumps of two indexes differ; None when they are equal."""
    with other.reading() as theirs, index.reading() as mine:  # the inner one is told of what is wrong with its rows
        pairs = zip_longest(mine.dump(), theirs.dump(), fillvalue="")
        found = next((Difference(line, a, b) for line, (a, b) in enumerate(pairs, 1) if a != b), None)
        return found and _with_note(found, mine, theirs)


def _with_note(found: Difference, mine: IndexReader, theirs: IndexReader) -> Difference:
    """Return a difference as that of a single place, where the dump has only sums over many of them."""
    word = min(filter(None, (found.indexed, found.rebuilt)), key=lambda line: str(json.loads(line)[1]))
    places = zip_longest(mine.dump_word(word), theirs.dump_word(word), fillvalue="")
    return next((Difference(found.line, a, b) for a, b in places if a != b), found)
