"""One append to a note that editors and git may replace, empty or overwrite at any moment."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from memsync.edit import note_file
from memsync.edit.addition import Addition, joined
from memsync.edit.journal import Appended, Journal, missing, times_in
from memsync.edit.known_ends import KnownTails
from memsync.edit.markdown import as_it_was
from memsync.edit.note_end import read_tail
from memsync.edit.note_paths import check_writable
from memsync.edit.open_editors import refuse_open_in_editor
from memsync.edit.retry import Done, Replaced, make, tried
from memsync.errors import MemsyncError
from memsync.model.vocabulary import NotePath
from memsync.notes.git_files import changed_since

UNSEEN_SECONDS = 2.0
"""Nobody deletes on purpose what was appended so shortly before the save: the editor had not read it."""
REFILL_SECONDS = 0.5
"""How long a note that has just been emptied may be on its way to its new content: many editors save like that."""


class Appending:
    """An append under way. The writers' lock is held; `folder` is a descriptor of the note's folder."""

    def __init__(
        self,
        root: Path,
        folder: int,
        path: NotePath,
        addition: Addition,
        head: str,
        journal: Journal,
        tails: KnownTails,
        *,
        force: bool,
        replaces: Sequence[str] = (),
    ) -> None:
        self._root = root
        self._folder = folder
        self._path = path
        self._name = path.rpartition("/")[2]
        self._addition = addition
        self._head = head
        self._journal = journal
        self._tails = tails
        self._force = force
        self._replaces = replaces
        self._own: Appended | None = None
        self._written_times = 0  # how often the file that was written to, and has lost its name, has the text

    def done(self) -> Done:
        """Append, and return how that went. Raises WriteRefused, FilesystemError; nothing is changed then."""
        warnings: tuple[str, ...] = ()
        try:
            self._own = self._journal.append(self._path, self._addition.text, head=self._head, replaces=self._replaces)
        except MemsyncError as error:
            warnings = (f"{error}; memsync recover will not have it if an editor overwrites this",)
        try:
            done = tried(self._path, self._attempt)
        except BaseException:
            if self._own is not None:
                with suppress(MemsyncError):
                    self._journal.undo(self._own)
            raise
        return Done(done.path, done.line, (*done.warnings, *warnings))

    def _attempt(self) -> Done:
        """Append to the file that is there now. Raises Replaced when another takes its place meanwhile."""
        descriptor = self._filled()
        if descriptor is None:
            return self._begin()
        try:
            found = os.fstat(descriptor)
            check_writable(self._path, found)
            if not self._force:
                refuse_open_in_editor(self._folder, self._path)
            tail, lost = self._tails.get(self._path, found), []
            if tail is None:
                content = note_file.read(descriptor, self._path)
                tail = read_tail(self._path, content)
                if self._written_times and self._times_in(content) >= self._written_times:
                    return Done(self._path, tail.lines)  # who replaced the file had read it by then
                lost = self._overwritten(found, content)
            text, line, after = joined(tail, [*(as_it_was(one.text) for one in lost), self._addition])
            note_file.append(descriptor, self._path, text.encode(), found.st_size)
            if not note_file.is_there(self._folder, self._name, descriptor):
                self._written_times = self._times_in(note_file.read(descriptor, self._path))
                raise Replaced
            self._tails.put(self._path, os.fstat(descriptor), after)
        finally:
            os.close(descriptor)
        self._note_again(lost)
        back = f"{len(lost)} earlier appends, which an editor had overwritten, are back"
        return Done(self._path, line, (back,) if lost else ())

    def _note_again(self, lost: Sequence[Appended]) -> None:
        """Journal what was put back as of now: it may be overwritten a second time."""
        with suppress(MemsyncError):
            for one in lost:
                self._journal.append(self._path, one.text, head=one.head, replaces=[one.id])

    def _begin(self) -> Done:
        """Make the note. Raises Replaced when there is one by now."""
        text, line, after = joined(read_tail(self._path, self._head.encode()), [self._addition])
        make(self._folder, self._path, self._head + text)
        with suppress(OSError):
            self._tails.put(self._path, os.stat(self._name, dir_fd=self._folder, follow_symlinks=False), after)
        return Done(self._path, line)

    def _filled(self) -> int | None:
        """Open the note once an editor that emptied it has filled it; None if it is not there."""
        limit = time.monotonic() + REFILL_SECONDS
        while True:
            descriptor = note_file.open_to_append(self._folder, self._path, self._name)
            if descriptor is None or time.monotonic() >= limit:
                return descriptor
            found = os.fstat(descriptor)
            is_old = time.time() - found.st_mtime > REFILL_SECONDS
            if found.st_size or is_old or not self._tails.was_filled(self._path):
                return descriptor
            os.close(descriptor)
            time.sleep(0.01)

    def _times_in(self, content: bytes) -> int:
        """Return how often a file has what is appended, as whole lines."""
        return times_in(self._addition.text, content.decode("utf-8", "replace"))

    def _overwritten(self, found: os.stat_result, content: bytes) -> list[Appended]:
        """Return what was appended so shortly before somebody's save that it cannot have been deleted on purpose."""
        saved = (found.st_mtime, found.st_ctime)
        since = min(moment for moment in saved if moment >= max(saved) - 60) - UNSEEN_SECONDS
        recent = [
            one
            for one in self._appends_since(since)
            if one != self._own
            and one.id not in self._replaces
            and any(abs(one.at - moment) <= UNSEEN_SECONDS for moment in saved)
        ]
        if not recent or changed_since(self._root, since):  # git puts back old versions, and means it
            return []
        return missing(recent, content.decode("utf-8", "replace"))

    def _appends_since(self, moment: float) -> list[Appended]:
        return [one for one in self._journal.since(moment) if one.path == self._path]
