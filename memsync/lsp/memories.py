"""The memories whose notes an editor may hold, and what the server knows of each."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from memsync import features
from memsync.errors import MemsyncError, NoteError
from memsync.lsp.documents import Document
from memsync.memories.reopening import Opener
from memsync.model.note import Link
from memsync.model.query import IndexedNote
from memsync.model.upkeep import Names, NoteNames
from memsync.model.vocabulary import Kind, NotePath, Tier
from memsync.notes.decode import is_binary, is_utf16
from memsync.notes.files import NoteFiles
from memsync.notes.ignore import is_hidden, is_note_name
from memsync.notes.links import Linked
from memsync.notes.rules import PathRules
from memsync.operation import Operation
from memsync.settings.load import Settings, settings_of
from memsync.settings.paths import is_inside
from memsync.settings.roots import RegisteredRoot, root_for

if TYPE_CHECKING:
    from memsync.lsp.server import Server

R = TypeVar("R")
MAX_OFFERED = 100


class Memories:
    """The memory of the folder that the editor has open, if that is in one, and the registered ones."""

    def __init__(self, own: Callable[[], Settings | None], server: Server) -> None:
        self._own_settings, self._server, self._opener = own, server, Opener()
        self._served: dict[RegisteredRoot | None, Served] = {}
        self._told = set[str]()
        self.find_own()

    @property
    def own(self) -> list[Served]:
        """The memory of the editor's folder, if there is one."""
        return [served for root, served in self._served.items() if root is None]

    def find_own(self) -> None:
        """Find the memory of the editor's folder, unless it is known. Show once why its settings cannot be read."""
        with self._telling():
            if not self.own and (settings := self._own_settings()) is not None:
                self._opener = Opener(lambda: self._own_settings() or settings)
                self._served[None] = Served(self._opener, None, settings, self._server)

    def of(self, path: str) -> Served | None:
        """Return the memory that a file is a note of; None if there is none. Show once why one cannot be read."""
        folder, name = os.path.split(path)
        if not is_note_name(name):
            return None
        root = None
        with self._telling():
            root = None if any(is_inside(path, served.root) for served in self.own) else root_for(folder)
            if root is not None and root not in self._served:
                self._served[root] = Served(self._opener, root, settings_of(root), self._server)
        served = self._served.get(root)
        is_note = served is not None and is_inside(path, served.root) and not is_hidden(path[len(served.root) + 1 :])
        return served if is_note else None

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except MemsyncError as error:
            if (reason := error.sentences()) not in self._told:
                self._told.add(reason)
                self._server.show(reason, 1)


class Served:
    """One memory: its operations, the names in it, and its notes as the editor or the disk has them."""

    def __init__(self, opener: Opener, registered: RegisteredRoot | None, settings: Settings, server: Server) -> None:
        self._opener, self._registered, self._server = opener, registered, server
        self.root = settings.root_name
        self.files = NoteFiles(settings.root, *settings.of_files, only=settings.only)
        self.rules = PathRules(settings.kinds, settings.tiers, tuple(settings["privacy.local_only"]))
        self.last_known: Known | None = None

    def ask(self, operation: Operation[Any, R], **arguments: Any) -> R:
        """Run an operation. Raises MemsyncError."""
        with self._opener.memory(self._registered) as memory:
            return memory.run(operation, **arguments)

    def known(self) -> Known:
        """Return the names in the memory as they are now. Raises MemsyncError."""
        known = self.last_known
        names = self.ask(features.listing.names, known=known.generation if known is not None else 0)
        if known is None or names.generation != known.generation:
            known = self.last_known = Known(names, self.files)
        return known

    def path_of(self, document: Document) -> NotePath:
        """Return the root-relative path of a document."""
        return NotePath(os.path.relpath(document.path, self.root))

    def held(self) -> dict[NotePath, Document]:
        """Return the notes that the editor holds."""
        documents = list(self._server.documents.values())
        return {self.path_of(one): one for one in documents if self._server.memories.of(one.path) is self}

    def differing(self, *, unsaved: bool = False) -> list[NotePath]:
        """Return the notes of which the editor holds another text than the disk; `unsaved`: that were edited in it."""
        held = {path: one for path, one in self.held().items() if not unsaved or one.text != one.saved}
        return sorted(path for path, one in held.items() if one.lines != self.document(path, {}).lines)

    def document(self, path: str, held: dict[NotePath, Document] | None = None) -> Document:
        """Return a note as the editor holds it, otherwise from its file; an empty one if it cannot be read as text."""
        held = self.held() if held is None else held
        if path in held:
            return held[NotePath(path)]
        place, content = os.path.join(self.root, path), b""
        with suppress(FileNotFoundError, NoteError):
            content = self.files.read(NotePath(path))[0]
        text = "" if is_utf16(content) or is_binary(content) else content.decode("utf-8-sig", "replace")
        return Document(self._server.uri_of(place), place, text)


class Known:
    """The names in a memory at one moment."""

    def __init__(self, names: Names, files: NoteFiles) -> None:
        self.generation, self.tags = names.generation, names.tags
        self.linked = Linked(map(_indexed, names.notes), files.other_files)
        self._called = [
            (name.casefold(), number, name, note)
            for note in names.notes
            for number, name in enumerate((stem_of(note.path), note.title, *note.others))
        ]

    def offered(self, typed: str, source: NotePath) -> Iterator[tuple[str, str, NotePath]]:
        """Yield (target, name, path) of the notes that a link beginning like this may mean, best first."""
        wanted = typed.casefold()
        matching = (
            (not name.startswith(wanted), note.archived, number > 0, len(name), name, note.path, called)
            for name, number, called, note in self._called
            if wanted in name or (number == 0 and "/" in wanted and wanted in note.path.casefold())
        )
        seen = set[str]()
        for *_, path, called in heapq.nsmallest(2 * MAX_OFFERED, matching):
            links = (Link(name, "", "", 0, wiki=True) for name in (stem_of(path), os.path.splitext(path)[0], path))
            certain = (one.target for one in links if [*self.linked.meant(one, source, by_title=False)] == [path])
            target = next(certain, "")
            if target and path not in seen and not set("[]|#^\n") & {*target}:
                seen.add(path)
                yield target, called, path


def stem_of(path: str) -> str:
    """Return the name of a note without its folder and its ending."""
    return os.path.splitext(os.path.basename(path))[0]


def _indexed(note: NoteNames) -> IndexedNote:
    head = {"aliases": list(note.others)}
    return IndexedNote(note.path, Kind.NOTE, Tier.PERSONAL, note.title, "", "", False, note.archived, head, 0, 0)
