"""List the notes, and the folders that hold them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from memsync.model.grouped import grouped
from memsync.model.query import IndexedNote
from memsync.model.text import not_shared
from memsync.model.upkeep import Collection, Collections, Names, NoteAbout, NoteNames, Notes
from memsync.notes.dates import last_active
from memsync.notes.naming import folder_path, names_of
from memsync.notes.rules import describes_folder
from memsync.operation import At, Cli, Command, operation

if TYPE_CHECKING:
    from memsync.workspace import Workspace

SECTION = "Notes"


@operation(
    Command("note list", help="Print every note under FOLDER, or all of them, with its kind, tier and last activity.")
)
def notes(
    memory: Workspace,
    folder: Annotated[str, Meta(description="Only notes under this folder."), Cli(names="folder")] = "",
    *,
    archived: Annotated[bool, Meta(description="Include archived notes.")] = False,
    at: At = "",
) -> Notes:
    """Return every note under `folder` (default: all), by path; with `archived`, also the archived ones."""
    with memory.as_of_now() as (reader, pending):
        known, warnings = reader.notes(), not_shared(reader.not_shared())
    inside = folder_path(memory.files.root, folder, [note.path for note in known]) if folder else ""
    listed = (
        _about(note)
        for note in known
        if inside is not None and note.path.startswith(inside) and (archived or not note.archived)
    )
    return Notes(tuple(listed), pending, warnings)


@operation(is_quick=True)
def names(
    memory: Workspace, known: Annotated[int, Meta(ge=0, description="The generation that is known.")] = 0
) -> Names:
    """Return what links and tags may name; only the generation if it is the known one."""
    with memory.as_of_now() as (reader, pending):
        generation = reader.notes_generation()
        if generation == known:
            return Names(generation)
        listed, tags = reader.notes(), reader.tags()
    return Names(generation, tuple(map(_named, listed)), tags, pending)


def _named(note: IndexedNote) -> NoteNames:
    own = {note.title, note.path.rpartition("/")[2], posixpath.splitext(posixpath.basename(note.path))[0]}
    others = dict.fromkeys(name for name in names_of(note) if name not in own)
    return NoteNames(note.path, note.title, tuple(others), note.archived)


def _about(note: IndexedNote) -> NoteAbout:
    return NoteAbout(note.path, note.title, note.kind, note.tier, last_active(note), note.pinned, note.archived)


@operation(
    Command(
        "collections", help="Print the folders that hold notes, as the front matter of their README.md describes them."
    )
)
def collections(memory: Workspace, *, at: At = "") -> Collections:
    """Return the folders that hold notes, as their README.md describe them.

    A folder's count includes its subfolders but no archived notes. Title and description come from the folder's
    README.md: `title` (or its heading) and `description`.
    """
    with memory.as_of_now() as (reader, pending):
        notes, warnings, tags = reader.notes(), not_shared(reader.not_shared()), reader.tags()
    notes = [note for note in notes if not note.archived]
    readmes = {posixpath.dirname(note.path): note for note in notes if describes_folder(note.path)}
    notes_under = grouped((folder, note) for note in notes for folder in _folders_above(note.path))
    described = (_collection(folder, notes_under[folder], readmes.get(folder)) for folder in sorted(notes_under))
    return Collections(tuple(described), pending, warnings, tags)


def _folders_above(path: str) -> Iterator[str]:
    return (path[:end] for end, character in enumerate(path) if character == "/")


def _collection(folder: str, notes: list[IndexedNote], readme: IndexedNote | None) -> Collection:
    description = readme.front_matter.get("description") if readme else None
    return Collection(
        folder=f"{folder}/",
        title=readme.title if readme else folder.rpartition("/")[2],
        description=" ".join(description.split()) if isinstance(description, str) else "",
        notes=len(notes),
        last_active=max(map(last_active, notes)),
    )
