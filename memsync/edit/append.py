"""One append to a note that editors and git may replace, empty or overwrite at any moment."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from memsync.edit import note_file
from memsync.edit.addition import Addition, Tail, joined, read_tail
from memsync.edit.journal import Appended, Journal, missing, times_in
from memsync.edit.markdown import as_it_was
from memsync.edit.note_paths import cannot_write, check_writable
from memsync.edit.open_editors import refuse_open_in_editor
from memsync.errors import MemsyncError, WriteRefused
from memsync.model.vocabulary import NotePath
from memsync.notes.git_files import changed_since

TRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Done:
    """What a write did: the line on which the new text begins, and what has to be said about it.

    `moved_from` is where the note was until then, if that was another place.
    """

    path: NotePath
    line: int
    warnings: tuple[str, ...] = ()
    moved_from: NotePath | None = None


class Replaced(Exception):
    """Another file took the note's name meanwhile."""


def tried(path: NotePath, attempt: Callable[[], Done]) -> Done:
    """Return what an attempt did, the first that nobody came in between. Raises WriteRefused when there is none."""
    limit = time.monotonic() + TRY_SECONDS
    while time.monotonic() < limit:
        with suppress(Replaced):
            return attempt()
    raise WriteRefused(f"{path} keeps being replaced", hint="Try again when the editor or git is done.")


def make(folder: int, path: NotePath, text: str) -> None:
    """Make a new file whole. Raises Replaced when there is one by now, FilesystemError."""
    try:
        note_file.create(folder, path.rpartition("/")[2], text.encode())
    except FileExistsError:
        raise Replaced from None
    except OSError as error:
        raise cannot_write(path, error) from error


VERSION = 3
"""Raised when another end is found in equal bytes: what earlier versions kept is then not believed."""


class KnownTails:
    """The ends of notes by path and stamp, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, path: NotePath, found: os.stat_result) -> Tail | None:
        """Return how a note ends, if nobody has changed it since it was put here."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            known = json.loads(self._place(path).read_bytes())
            if known["version"] == VERSION and known["stamp"] == _stamp(found):
                return Tail(**known["tail"])
        return None

    def put(self, path: NotePath, found: os.stat_result, tail: Tail) -> None:
        """Remember how a note ends. A full disk is no reason to complain: the note is read the next time."""
        place = self._place(path)
        content = json.dumps({"path": path, "version": VERSION, "stamp": _stamp(found), "tail": asdict(tail)})
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            place.write_text(content)

    def was_filled(self, path: NotePath) -> bool:
        """Tell whether a note had lines when it was last appended to."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            return bool(json.loads(self._place(path).read_bytes())["tail"]["lines"])
        return False

    def _place(self, path: NotePath) -> Path:
        return self._folder / f"{hashlib.sha256(path.encode()).hexdigest()[:24]}.json"


def _stamp(found: os.stat_result) -> list[int]:
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


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
