"""Find the notes that filters about links leave, and those that a name means."""

from __future__ import annotations

from collections.abc import Iterable

from memsync.errors import UsageError
from memsync.model.filters import Filters
from memsync.model.note import Link
from memsync.model.text import quoted
from memsync.model.vocabulary import NotePath
from memsync.notes.links import Linked
from memsync.ports import IndexReader

ROOT = NotePath("")
"""The place from which a person names a note."""


def linked_notes(filters: Filters, index: IndexReader) -> set[str]:
    """Return the notes that link to one of `links`, and to which one of `linked_from` links, as far as they are set.

    Raises UsageError for a name that no note has.
    """
    linked = Linked(index.notes())
    pairs = [(source, linked.target(link, source)) for source, link in index.links()]
    kept: set[str] = set(linked.notes)
    if filters.links:
        wanted = _named(linked, filters.links)
        kept &= {source for source, target in pairs if target in wanted and target != source}
    if filters.linked_from:
        wanted = _named(linked, filters.linked_from)
        kept &= {target for source, target in pairs if source in wanted and target != source}
    return kept


def _named(linked: Linked, names: Iterable[str]) -> set[str]:
    found = {name: linked.meant(Link(name.removeprefix("./"), "", "", 0, wiki=True), ROOT) for name in names}
    for name, paths in found.items():
        if not paths:
            raise UsageError(f"no note is called {quoted(name)}", hint="Write its path as search results print it.")
    return {paths[0] for paths in found.values()}
