"""The memories whose notes an editor may hold, and what a server knows of each."""

from __future__ import annotations

import heapq
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from memsync import features
from memsync.errors import MemsyncError, NoteError
from memsync.lsp.documents import Document, uri_of
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
REFRESH_SECONDS = 0.5
"""A completion that finds older names than that has them read again, but does not wait for that."""
MAX_OFFERED = 100


class Memories:
    """The memory of the folder that the editor has open, and the registered ones."""

    def __init__(self, own: Callable[[], Settings | None], server: Server) -> None:
        settings = own()
        self._server = server
        self._opener = Opener((lambda: own() or settings) if settings is not None else None)
        self._own = settings.root_name if settings is not None else ""
        self._served: dict[str, Served] = {}
        if settings is not None:
            self._served[self._own] = Served(self._opener, None, settings, server)

    def of(self, path: str) -> Served | None:
        """Return the memory that a note is in: the own one, or a registered one; None if it is in no memory."""
        if is_hidden(os.path.basename(path)) or not is_note_name(os.path.basename(path)):
            return None
        if self._own and is_inside(path, self._own):
            return self._served[self._own]
        root = root_for(os.path.dirname(path)) if path else None
        if root is None or not is_inside(path, place := os.path.realpath(root.path)):
            return None
        if place not in self._served:
            self._served[place] = Served(self._opener, root, settings_of(root), self._server)
        return self._served[place]

    def first(self) -> Served | None:
        """Return the memory that a search without a document is for."""
        return next(iter(self._served.values()), None)


class Served:
    """One memory: its operations, the names in it, and its notes as the editor or the disk has them."""

    def __init__(self, opener: Opener, root: RegisteredRoot | None, settings: Settings, server: Server) -> None:
        self._opener, self._registered, self._server = opener, root, server
        self._root = settings.root_name
        self.files = NoteFiles(settings.root, settings["files.exclude"], only=settings.only)
        self.rules = PathRules(settings.kinds, settings.tiers, tuple(settings["privacy.local_only"]))
        self._known: Known | None = None
        self._known_at = 0.0
        self._refreshing = threading.Lock()

    def ask(self, operation: Operation[Any, R], **arguments: Any) -> R:
        """Run an operation. Raises MemsyncError."""
        with self._opener.memory(self._registered) as memory:
            return memory.run(operation, **arguments)

    def known(self, *, waits: bool = True) -> Known:
        """Return the names in the memory as they are now; without `waits` as they were a moment ago."""
        known = self._known
        if waits or known is None:
            return self._refreshed()
        if time.monotonic() - self._known_at > REFRESH_SECONDS and not self._refreshing.locked():
            threading.Thread(target=self._refresh, daemon=True).start()
        return known

    def _refresh(self) -> None:
        with suppress(MemsyncError):
            self._refreshed()

    def _refreshed(self) -> Known:
        with self._refreshing:
            names = self.ask(features.listing.names, known=self._known.generation if self._known else 0)
            if self._known is None or names.generation != self._known.generation:
                self._known = Known(names, self.files)
            self._known_at = time.monotonic()
            return self._known

    def path_of(self, path: str) -> NotePath:
        """Return the root-relative path of a file in the memory."""
        return NotePath(os.path.relpath(path, self._root))

    def uri(self, path: str) -> str:
        """Return the URI of a file of the memory, as the editor calls it if it holds it."""
        held = self._server.document_at(os.path.join(self._root, path))
        return held.uri if held is not None else uri_of(os.path.join(self._root, path))

    def document(self, path: str) -> Document | None:
        """Return a note as the editor holds it, otherwise from its file; None if it cannot be read as text."""
        held = self._server.document_at(os.path.join(self._root, path))
        return held if held is not None else self.saved(path)

    def is_unsaved(self, path: str, held: Document) -> bool:
        """Tell whether the editor holds another text of a note than its file has."""
        saved = self.saved(path)
        return saved is None or saved.lines != held.lines

    def saved(self, path: str) -> Document | None:
        """Return a note from its file; None if it cannot be read as text."""
        with suppress(FileNotFoundError, NoteError):
            content = self.files.read(NotePath(path))[0]
            if not is_utf16(content) and not is_binary(content):
                text = content.decode("utf-8-sig", "replace")
                return Document(self.uri(path), os.path.join(self._root, path), text, self._server.encoding)
        return None


class Known:
    """The names in a memory at one moment."""

    def __init__(self, names: Names, files: NoteFiles) -> None:
        self.generation, self.tags = names.generation, names.tags
        self.linked = Linked(map(_indexed, names.notes), files.other_files)
        self._called = [
            (name.casefold(), number, name, note)
            for note in names.notes
            for number, name in enumerate((os.path.splitext(os.path.basename(note.path))[0], note.title, *note.others))
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
            stem = os.path.splitext(os.path.basename(path))[0]
            target = self.linked.spelled(Link(stem, "", "", 0, wiki=True), source, path, by_title=False)
            if target and path not in seen and not set("[]|#^\n") & {*target} and len(seen) < MAX_OFFERED:
                seen.add(path)
                yield target, called, path


def _indexed(note: NoteNames) -> IndexedNote:
    head = {"aliases": list(note.others)}
    return IndexedNote(note.path, Kind.NOTE, Tier.PERSONAL, note.title, "", "", False, note.archived, head, 0, 0)
