"""Which entries of a chunk that passed the filters may be shown themselves. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Set

from memsync.model.note import Entry
from memsync.model.query import Filters, IndexedChunk, is_between, names_tag
from memsync.model.vocabulary import Form

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_CLOCK = re.compile(r"[T ]\d{2}:\d{2}", re.ASCII)


def entry_filter(
    filters: Filters, in_groups: Set[tuple[int, int]] | None = None
) -> Callable[[IndexedChunk, Entry, int], bool]:
    """Return which entries of a chunk that passed the filters may be shown themselves, each with its number from 1.

    The index lets a window or a group through when one of its entries passes; its other entries are not answers.
    `in_groups` are the entries of groups that have the words they must have, by chunk id and number; None: all.
    """
    if filters == Filters(archived=filters.archived) and in_groups is None:
        return lambda chunk, entry, number: True

    def allows(chunk: IndexedChunk, entry: Entry, number: int) -> bool:
        if in_groups is not None and chunk.form == Form.GROUP and (chunk.chunk_id, number) not in in_groups:
            return False
        moments = (entry.time or chunk.date, *entry.later)
        if not any(is_between(moment, filters.after, filters.before) for moment in moments):
            return False
        if filters.tags and not any(names_tag(wanted, tag) for tag in entry.tags for wanted in filters.tags):
            return False
        return all(_has(chunk, entry, key, value) for key, value in filters.where)

    return allows


def _has(chunk: IndexedChunk, entry: Entry, key: str, value: str) -> bool:
    """Tell whether an entry may stand for its chunk, which has the pair: in an entry of its own or in front matter."""
    having = [other for other in chunk.entries if _matches(other, key, value)]
    return not having or entry in having


def _matches(entry: Entry, key: str, value: str) -> bool:
    own = entry.attributes.get(key, "")
    if own.lower() == value.lower() or (key == "class" and value in own.split()):
        return True
    return _DAY.fullmatch(value) is not None and _CLOCK.match(own, len(value)) is not None and own.startswith(value)
