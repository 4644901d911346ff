"""What a memory does besides searching: writing, and views over what was written. By the names of `memsync.calls`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from memsync.errors import MemsyncError
from memsync.model import NotePath
from memsync.notes.files import NoteFiles
from memsync.notes.places import Places
from memsync.notes.reader import NoteReader
from memsync.ports import Index
from memsync.settings import Settings
from memsync.sync.syncer import Syncer
from memsync.writing.author import Author
from memsync.writing.patterns import Patterns
from memsync.writing.preferences import Preferences
from memsync.writing.writer import NoteWriter

INDEX_NOW_BYTES = 256_000
"""A larger note is parsed for longer than a writer may wait: it is indexed by the daemon or the next search."""
INDEX_SECONDS = 2.0


class Acts:
    """Everything that `memsync.calls` names, for one memory root in this process."""

    def __init__(self, settings: Settings, files: NoteFiles, reader: NoteReader, index: Index, syncer: Syncer) -> None:
        self._files = files
        self._index = index
        self._syncer = syncer
        writer = NoteWriter(settings.root, settings.keep_dir)
        author = Author(files, reader, writer, self._index_now, commits=settings["git.commit"])
        preferences = Preferences(author)
        patterns = Patterns(author, self._holders_of_patterns)
        self._by_name: Mapping[str, Callable[..., Any]] = {
            "log": author.log,
            "remember": author.remember,
            "new_note": author.new_note,
            "overwritten": author.overwritten,
            "recover": author.recover,
            "dismiss": author.dismiss,
            "preferences": preferences.get,
            "set_preference": preferences.set,
            "patterns": patterns.all,
            "observe": patterns.observe,
        }

    def answer(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Do what is asked, and return what came of it. Raises MemsyncError."""
        return self._by_name[name](**arguments)

    def _index_now(self, path: NotePath) -> tuple[int, tuple[str, ...]]:
        """Bring one note into the index, as far as that is soon done. What was written stands, whatever goes wrong."""
        try:
            if os.stat(self._files.root / path).st_size > INDEX_NOW_BYTES:
                return 0, ()
            with self._syncer.gate.searching():
                report = self._syncer.refresh(INDEX_SECONDS, places=Places([path]), for_search=True)
            if not self._syncer.holds(path):
                return 0, (f"{path} is not found by searches: it is left out by .gitignore or [files] exclude",)
            with self._index.reading() as reader:
                return (0 if report.pending else reader.generation()), ()
        except (MemsyncError, OSError) as error:
            return 0, (f"it is written, and not indexed yet: {error}",)

    def _holders_of_patterns(self) -> list[NotePath]:
        self._syncer.refresh(INDEX_SECONDS, for_search=False)
        with self._index.reading() as reader:
            return reader.notes_where("class", "pattern")
