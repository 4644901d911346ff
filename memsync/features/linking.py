"""Show how a note is linked with others, and which similar notes are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from memsync.errors import UsageError
from memsync.model.filters import Filters
from memsync.model.note import Link
from memsync.model.query import Query
from memsync.model.text import not_shared
from memsync.model.upkeep import LinkPlace, NoteLinks, SimilarNote
from memsync.model.vocabulary import NotePath
from memsync.notes.links import Linked, is_external
from memsync.operation import At, Cli, Command, Tool, operation
from memsync.ports import IndexReader
from memsync.search.excerpt import read_excerpt

if TYPE_CHECKING:
    from memsync.workspace import Workspace

SECTION = "Search"

MAX_PASSAGES = 32
"""Of a longer note, only so many of its last passages say what it is about."""
MAX_NEAR = 200
SIMILAR = 0.5
"""Least cosine of a similar note, on the scale of the built-in model (EmbeddingSpace.likeness)."""
MAX_SIMILAR = 10


@operation(
    Command(
        "links",
        help="Print the links in NOTE and to it, those that lead nowhere, and similar notes that are not linked.",
        examples=("memsync links projects/store.md", "memsync search links:projects/store.md deploy"),
    ),
    tool=Tool(
        "memory_links",
        "Links of a note",
        "List the notes that a note links to, those that link to it, and similar ones. Use it to find what belongs to "
        "a note that a search found.",
        ("note",),
        {"note": "Path of the note, or its title."},
    ),
    is_quick=True,
)
def links(
    memory: Workspace,
    note: Annotated[str, Meta(description="The note: its path, its title or an alias."), Cli(names="location")],
    *,
    at: At = "",
) -> NoteLinks:
    """Return the links of a note, as the files are now. Raises NoSuchNote, UsageError."""
    path = read_excerpt(memory.files, memory.reader, note, memory.fresh_search.titled).path
    with memory.as_of_now() as (reader, pending):
        linked = Linked(reader.notes(), memory.files.other_files)
        if path not in linked.notes:
            raise UsageError(f"{path} is not in the index", hint="Look with memsync status.")
        found = [_place(linked, source, link) for source, link in reader.links() if not is_external(link)]
        own = [place for place in found if place.path == path]
        into = [place for place in found if place.note == path and place.path != path]
        known: set[str] = {path, *(place.note for place in own), *(place.path for place in into)}
        similar = tuple(_similar(reader, path, linked, known))
        hidden = not_shared(reader.not_shared())
    out, dead = ([place for place in own if bool(place.note) is is_live] for is_live in (True, False))
    return NoteLinks(path, tuple(out), tuple(into), tuple(dead), similar, tuple(hidden), pending)


def _place(linked: Linked, source: NotePath, link: Link) -> LinkPlace:
    return LinkPlace(source, link.line, link.target, link.anchor, link.label, NotePath(linked.target(link, source)))


def _similar(reader: IndexReader, path: NotePath, linked: Linked, known: set[str]) -> Iterator[SimilarNote]:
    """Yield the notes nearest to the mean vector of a note, without `known` ones; none while it has no vector."""
    import numpy as np

    space = reader.active_space()
    own = reader.latest_candidates(Query("", filters=Filters(notes=(path,), archived=True)), MAX_PASSAGES)
    hashes = {chunk.content_hash for chunk in reader.chunks([one.chunk_id for one in own]).values()} - {b""}
    if space is None or not hashes:
        return
    # The index gives the vectors after a hash: those of one hash come after the number before it.
    before = [(int.from_bytes(digest, "big") - 1).to_bytes(len(digest), "big") for digest in hashes]
    rows = [row for after in before for row in reader.vectors(space, after, 1)]
    vectors = [np.frombuffer(vector, "<f2").astype(np.float32) for digest, vector in rows if digest in hashes]
    if not vectors:
        return
    mean = np.mean(vectors, axis=0)
    near = reader.vector_candidates(Query(""), mean / np.linalg.norm(mean), MAX_NEAR)
    chunks = reader.chunks([one.chunk_id for one in near])
    found: set[str] = set()
    for one in near:
        other = chunks[one.chunk_id].path if one.chunk_id in chunks else path
        if space.likeness(one.score) < SIMILAR or len(found) == MAX_SIMILAR:
            return
        if other not in known and other not in found:
            found.add(other)
            yield SimilarNote(other, linked.notes[other].title, round(space.likeness(one.score), 3))
