"""Appends to a note that editors and git may replace, empty or overwrite at any moment."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from memsync.edit import note_file
from memsync.edit.addition import Addition, join_additions
from memsync.edit.journal import Appended, Journal, has_messages, missing, times_in, unread
from memsync.edit.markdown import as_it_was
from memsync.edit.note_end import NoteEnd, read_end
from memsync.edit.note_paths import cannot_write, check_writable
from memsync.errors import MemsyncError, WriteRefused
from memsync.model.text import count
from memsync.model.vocabulary import NotePath
from memsync.notes.git_files import changed_since
from memsync.system import clock
from memsync.system.state_file import StateFile

TRY_SECONDS = 5.0
RETRY_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a write: the line where the new text begins, warnings, and the old path if the note was moved."""

    path: NotePath
    line: int
    warnings: tuple[str, ...] = ()
    moved_from: NotePath | None = None


class Replaced(Exception):
    """Another process replaced the note while it was being written, or holds it open for writing."""


Result = TypeVar("Result")


def tried(path: NotePath, attempt: Callable[[], Result]) -> Result:
    """Repeat `attempt` until it does not raise Replaced, for up to TRY_SECONDS. Raises WriteRefused after that."""
    limit = time.monotonic() + TRY_SECONDS
    while time.monotonic() < limit:
        with suppress(Replaced):
            return attempt()
        time.sleep(RETRY_SECONDS)
    raise WriteRefused(
        f"{path} was replaced by another program at every attempt, or another program has it open for writing",
        hint="Try again when that program is done.",
    )


def make(folder: int, path: NotePath, content: bytes) -> None:
    """Create a note with its full content. Raises Replaced if it exists by now, FilesystemError, WriteRefused."""
    note_file.check_size(path, content)
    try:
        note_file.create(folder, path.rpartition("/")[2], content)
    except FileExistsError:
        raise Replaced from None
    except OSError as error:
        raise cannot_write(path, error) from error


VERSION = 3
"""To be increased when `read_end` returns something else for the same bytes; older records are then ignored."""


class KnownEnds:
    """How notes end: a cache by path and file stamp. Faults, such as a full disk, only cost reading a note again."""

    def __init__(self, state: StateFile) -> None:
        self._state = state

    def get(self, path: NotePath, status: os.stat_result) -> NoteEnd | None:
        """Return how a note ends if it has not changed since `put`."""
        record = self._record(path)
        is_known = record.get("version") == VERSION and record.get("stamp") == _stamp(status)
        return NoteEnd(**record["tail"]) if is_known else None

    def put(self, path: NotePath, status: os.stat_result, end: NoteEnd, append: str = "") -> None:
        """Store how a note ends, and the id of its last append, which was made to its end."""
        record = json.dumps({"version": VERSION, "stamp": _stamp(status), "tail": asdict(end), "append": append})
        with suppress(MemsyncError):
            self._state.write("REPLACE INTO ending VALUES (?, ?)", (path, record))

    def appended(self, path: NotePath) -> str:
        """Return the id of the last append that was made to its end; empty if that is not known."""
        return str(self._record(path).get("append", ""))

    def was_filled(self, path: NotePath) -> bool:
        """Tell whether a note had lines after its last append."""
        record = self._record(path)
        return bool(record) and bool(record["tail"]["lines"])

    def forget(self) -> None:
        """Delete how notes ended, because that has their last lines."""
        self._state.write("DELETE FROM ending")

    def _record(self, path: NotePath) -> dict[str, Any]:
        with suppress(MemsyncError):
            for (record,) in self._state.rows("SELECT ending FROM ending WHERE path = ?", (path,)):
                return dict(json.loads(record))
        return {}


def _stamp(status: os.stat_result) -> list[int]:
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


UNSEEN_SECONDS = 2.0
"""An editor that saves this soon after an append has not read it, so nobody deleted the appended text on purpose."""
REFILL_SECONDS = 0.5
"""How long to wait for the new content of a note that was just emptied: many editors empty a file to save it."""


@dataclass(slots=True)
class Appending:
    """One append. The caller holds the writers' lock; `folder` is a descriptor of the note's folder."""

    root: Path
    folder: int
    path: NotePath
    addition: Addition
    head: str
    journal: Journal
    ends: KnownEnds
    replaces: Sequence[str]
    own: Appended | None = None
    written_times: int = 0  # how often the text is in the file we wrote to, if that was then replaced

    def done(self) -> Done:
        """Append and return the result. Raises WriteRefused, FilesystemError; the note is then unchanged."""
        warnings: tuple[str, ...] = ()
        try:
            self.own = self.journal.append(self.path, self.addition.text, head=self.head, replaces=self.replaces)
        except MemsyncError as error:
            warnings = (f"{error}; if an editor overwrites this text, memsync recover cannot restore it",)
        try:
            done = tried(self.path, self._attempt)
        except BaseException:
            if self.own is not None:
                with suppress(MemsyncError):
                    self.journal.undo(self.own)
            raise
        return replace(done, warnings=(*done.warnings, *warnings))

    def _attempt(self) -> Done:
        """Append to the current file. Raises Replaced if another file replaces it meanwhile."""
        descriptor = self._filled()
        if descriptor is None:
            return self._begin()
        try:
            status = os.fstat(descriptor)
            check_writable(self.path, status)
            end, lost = self.ends.get(self.path, status), []
            if end is None:
                content = note_file.read(descriptor, self.path)
                end = read_end(self.path, content)
                if self.written_times and self._times_in(content) >= self.written_times:
                    return Done(self.path, end.lines)  # the new file has our text: its writer had read it
                lost = self._overwritten(status, content)
            text, line, new_end = join_additions(end, [*(as_it_was(entry.text) for entry in lost), self.addition])
            content = text.encode()
            note_file.check_size(self.path, content, status.st_size, end.lines)
            note_file.append(descriptor, self.path, content, status.st_size)
            if not note_file.is_there(self.folder, self.path, descriptor):
                self.written_times = self._times_in(note_file.read(descriptor, self.path))
                raise Replaced
            status, last = os.fstat(descriptor), self.own
        finally:
            os.close(descriptor)
        with suppress(MemsyncError):  # journal the restored text again: it may be overwritten a second time
            for entry in lost:
                last = self.journal.append(self.path, entry.text, head=entry.head, replaces=[entry.id])
        self.ends.put(self.path, status, new_end, last.id if last else "")
        restored = f"restored {count(len(lost), 'earlier append')} that an editor had overwritten"
        return Done(self.path, line, (restored,) if lost else ())

    def _begin(self) -> Done:
        """Create the note. Raises Replaced if it exists by now."""
        text, line, end = join_additions(read_end(self.path, self.head.encode()), [self.addition])
        make(self.folder, self.path, (self.head + text).encode())
        with suppress(OSError):
            status = os.stat(self.path.rpartition("/")[2], dir_fd=self.folder, follow_symlinks=False)
            self.ends.put(self.path, status, end, self.own.id if self.own else "")
        return Done(self.path, line)

    def _filled(self) -> int | None:
        """Open the note, after an editor that emptied it has refilled it; return None if it does not exist."""
        limit = time.monotonic() + REFILL_SECONDS
        while True:
            descriptor = note_file.open_to_append(self.folder, self.path)
            if descriptor is None or time.monotonic() >= limit:
                return descriptor
            status = os.fstat(descriptor)
            is_old = clock.file_seconds() - status.st_mtime > REFILL_SECONDS
            if status.st_size or is_old or not self.ends.was_filled(self.path):
                return descriptor
            os.close(descriptor)
            time.sleep(0.01)

    def _times_in(self, content: bytes) -> int:
        """Return how often a file contains the appended text, as whole lines."""
        return times_in(self.addition.text, content.decode("utf-8", "replace"))

    def _overwritten(self, status: os.stat_result, content: bytes) -> list[Appended]:
        """Return missing appends that came so shortly before a save that nobody deleted them on purpose."""
        saved = (status.st_mtime, status.st_ctime)
        since = min(moment for moment in saved if moment >= max(saved) - 60) - UNSEEN_SECONDS
        recent = [
            entry
            for entry in self.journal.since(since, self.path)
            if entry != self.own
            and entry.id not in self.replaces
            and any(abs(entry.at - moment) <= UNSEEN_SECONDS for moment in saved)
        ]
        if not recent or changed_since(self.root, since):  # a git checkout restores old text on purpose
            return []
        text = content.decode("utf-8", "replace")
        lost = missing(recent, text)
        if not any(map(has_messages, lost)):
            return lost
        known = [entry for entry in self.journal.since(0.0, self.path) if entry != self.own]
        never_read = {entry.id for entry in unread(known, text)}
        return [entry for entry in lost if entry.id in never_read]
