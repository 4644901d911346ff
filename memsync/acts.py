"""What a memory does besides searching: writing, and views over what was written. By the names of `memsync.calls`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from memsync.answering import Answering
from memsync.caretaker import Caretaker
from memsync.composer import Composer
from memsync.errors import MemsyncError
from memsync.model import Costs, Messages, NotePath, Sessions, Thread, Threads
from memsync.notes.files import NoteFiles
from memsync.notes.places import Places
from memsync.notes.reader import NoteReader
from memsync.notes.when import parse_when
from memsync.ports import Index
from memsync.settings import Settings
from memsync.sync.syncer import Syncer
from memsync.threads import sessions_of, status_of, total
from memsync.usage import Usage
from memsync.writing.author import Author
from memsync.writing.importing import Importer, export_lines, sources_in_files
from memsync.writing.patterns import Patterns
from memsync.writing.preferences import Preferences
from memsync.writing.retiring import Retiring
from memsync.writing.threads import ThreadAuthor
from memsync.writing.writer import NoteWriter

INDEX_NOW_BYTES = 256_000
"""A larger note is parsed for longer than a writer may wait: it is indexed by the daemon or the next search."""
INDEX_SECONDS = 2.0


_WRITING = frozenset(
    {"log", "remember", "new_note", "recover", "dismiss", "set_preference", "observe", "prune", "undo_prune"}
    | {"new_thread", "append_message", "set_thread_status"}
)


class Acts:
    """Everything that `memsync.calls` names, for one memory root in this process."""

    def __init__(
        self,
        settings: Settings,
        files: NoteFiles,
        reader: NoteReader,
        index: Index,
        syncer: Syncer,
        answering: Answering,
        usage: Usage,
    ) -> None:
        self._files = files
        self._index = index
        self._syncer = syncer
        self._answering = answering
        writer = NoteWriter(settings.root, settings.keep_dir)
        commits = settings["git.commit"]
        retiring = Retiring(settings.root, settings.keep_dir, writer, commits=commits)
        author = self._author = Author(files, reader, writer, self._index_now, retiring.retired_to, commits=commits)
        preferences = Preferences(author)
        patterns = Patterns(author, self._holders_of_patterns)
        threads = self._thread_author = ThreadAuthor(author, self._thread, self._titled, retiring)
        self.importer = Importer(author, self._sources)
        composer = Composer(settings, files, reader, index, answering, usage, threads.existing)
        caretaker = self.caretaker = Caretaker(settings, files, reader, answering, retiring, usage)
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
            "new_thread": threads.new,
            "append_message": threads.append,
            "set_thread_status": threads.set_status,
            "thread": threads.show,
            "threads": self._threads,
            "sessions": self._sessions,
            "costs": self._costs,
            "messages": self._messages,
            "neighbours": threads.neighbours,
            "context": composer.context,
            **caretaker.by_name,
        }

    def answer(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Do what is asked, and return what came of it. Raises MemsyncError."""
        return self._by_name[name](**arguments)

    def writes(self, name: str) -> bool:
        """Tell whether what is asked may change notes: it is not simply done twice."""
        return name in _WRITING

    def _index_now(self, path: NotePath) -> tuple[int, tuple[str, ...]]:
        """Bring one note into the index, as far as that is soon done. What was written stands, whatever goes wrong."""
        try:
            if os.stat(self._files.root / path).st_size > INDEX_NOW_BYTES:
                return 0, ()
            with self._syncer.gate.searching():
                report = self._syncer.refresh(INDEX_SECONDS, places=Places([path]), for_search=True)
            if not self._syncer.holds(path):
                if report.pending:
                    return 0, (f"{path} is written, and not indexed yet: it takes longer than a write may",)
                return 0, (f"{path} is not found by searches: it is left out by .gitignore or [files] exclude",)
            with self._index.reading() as reader:
                return (0 if report.pending else reader.generation()), ()
        except (MemsyncError, OSError) as error:
            return 0, (f"it is written, and not indexed yet: {error}",)

    # -------------------------------------------------------------------------------------------- views

    def _holders_of_patterns(self) -> list[NotePath]:
        with self._answering.as_of_now() as (reader, _):
            return reader.notes_where("class", "pattern")

    def _thread(self, path: NotePath) -> Thread | None:
        with self._answering.as_of_now() as (reader, _):
            return next(iter(reader.threads(path)), None)

    def _titled(self, title: str) -> list[NotePath]:
        with self._answering.as_of_now() as (reader, _):
            return [one.path for one in reader.threads() if one.title.casefold() == title.casefold()]

    def _sources(self) -> dict[str, NotePath]:
        with self._answering.as_of_now() as (reader, pending):
            found = {one.source: one.path for one in reader.threads() if one.source}
        return {**dict(sources_in_files(self._files, set(found.values()))), **found} if pending else found

    def export(self, names: Sequence[str]) -> Iterator[str]:
        """Yield the threads of these names, or all, as JSON Lines. Raises NoteError for one that is not there."""
        if names:
            paths = [self._thread_author.existing(name) for name in names]
        else:
            with self._answering.as_of_now() as (reader, _):
                paths = [one.path for one in reader.threads()]
        for path in paths:
            note = self._author.read(path)
            if note is not None:
                yield from export_lines(note)

    def _threads(self, session: str, status: str, user: str) -> Threads:
        with self._answering.as_of_now() as (reader, pending):
            found = reader.threads()
        wanted = [
            one
            for one in found
            if session in ("", one.session) and status in ("", status_of(one)) and user in ("", one.user)
        ]
        return Threads(tuple(sorted(wanted, key=lambda one: one.last_active, reverse=True)), pending)

    def _sessions(self, user: str, status: str, project: str) -> Sessions:
        with self._answering.as_of_now() as (reader, pending):
            found = sessions_of(reader.threads())
        wanted = (
            one
            for one in found
            if user in ("", one.user) and status in ("", one.status) and project in ("", one.project)
        )
        return Sessions(tuple(wanted), pending)

    def _costs(self, by: str, since: str) -> Costs:
        moment = parse_when(since, datetime.now()) if since else ""
        with self._answering.as_of_now() as (reader, pending):
            costs = reader.costs(by, moment)
        return Costs(tuple(costs), total(one.usage for one in costs), pending)

    def _messages(self, role: str, session: str, limit: int) -> Messages:
        with self._answering.as_of_now() as (reader, pending):
            return Messages(tuple(reader.messages(role, session)[:limit]), pending)
