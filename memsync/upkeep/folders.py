"""The folders of a memory as collections. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from memsync.model import Collection, IndexedNote
from memsync.notes.rules import describes_folder
from memsync.upkeep.activity import last_active


def collections(notes: Iterable[IndexedNote]) -> list[Collection]:
    """Return the folders that hold notes, each counted with those beneath it, by name; archived notes are left out.

    What a folder's own README.md says in its front matter describes it: `title`, else its heading, and `description`.
    """
    readmes: dict[str, IndexedNote] = {}
    held: dict[str, list[IndexedNote]] = {}
    for note in notes:
        if note.archived:
            continue
        folders = note.path.split("/")[:-1]
        if describes_folder(note.path):
            readmes["/".join(folders)] = note
        for depth in range(1, len(folders) + 1):
            held.setdefault("/".join(folders[:depth]), []).append(note)
    return [_collection(folder, held[folder], readmes.get(folder)) for folder in sorted(held)]


def _collection(folder: str, notes: list[IndexedNote], readme: IndexedNote | None) -> Collection:
    description = readme.front_matter.get("description") if readme else None
    return Collection(
        folder=f"{folder}/",
        title=readme.title if readme else folder.rpartition("/")[2],
        description=" ".join(description.split()) if isinstance(description, str) else "",
        notes=len(notes),
        last_active=max(map(last_active, notes)),
    )
