"""The memory as it was at a commit: its notes in a folder beside the index, with an index of their own.

A state is made like any memory root: its files are written, then synced into an index that begins as a copy of the
nearest one. So it costs only what differs, and it answers as a clone of that commit would. It can be deleted at any
time. What is read from it is compared with git's names for the contents.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from memsync.errors import FilesystemError, IndexBusy, IndexDamaged, NoSuchNote, NoteError, RootError
from memsync.model.answer import Excerpt, Hit, SearchResult
from memsync.model.commits import Commit, cited_at
from memsync.model.grouped import grouped
from memsync.model.note import FileStamp
from memsync.model.query import SearchRequest
from memsync.model.vocabulary import Fresh, NotePath
from memsync.notes.files import FileScan, NoteFiles, Places
from memsync.notes.git import Git
from memsync.notes.git_files import HeadState
from memsync.notes.naming import spellings
from memsync.notes.revisions import IGNORE_FILE, Blob, Revisions, split_location
from memsync.ports import Index, Progress, no_progress
from memsync.search.excerpt import read_excerpt
from memsync.search.retrievals import UsageCounter
from memsync.sync.gate import Stopped
from memsync.system import clock
from memsync.system.file_lock import file_lock
from memsync.system.user_folders import own_folder

if TYPE_CHECKING:
    from memsync.sync.syncer import Syncer
    from memsync.workspace import Workspace

T = TypeVar("T")

KEPT = 8
"""How many states are kept; the one that was unused for longest goes first."""
OPEN = 3
"""How many of them a process keeps open."""
ATTEMPTS = 3
GIT_SECONDS = 600.0
"""How long git may take in all while many notes are read or compared."""
WAIT_SECONDS = 600.0
"""How long a search waits while another process makes a state."""
EMBED_SECONDS = 10.0
"""How long a search embeds the missing vectors of a state; the next search continues."""
LEFT_SECONDS = 3600.0
"""No question takes so long: a killed process left an unfinished folder that is older."""
_IMPOSSIBLE = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)
_FILES, _INDEX, _READY, _MAKING = "files", "index.db", "ready.json", "making"


class StateLost(Exception):
    """A state was deleted or damaged while it was read."""


class PastFiles(NoteFiles):
    """The notes of one commit in a folder; `blobs` has git's names for their contents, by path."""

    def __init__(self, folder: Path, memory: Workspace, state: HeadState, blobs: Mapping[str, str]) -> None:
        settings = memory.settings
        super().__init__(folder, settings["files.exclude"], settings.require_current, settings.only)
        self._state = state
        self._blobs = blobs

    def keep_identity(self, identity: str) -> None:
        """Remember nothing: the folder belongs to memsync."""

    def head_state(self) -> HeadState:
        """Return the state of the commit's history, which dates the notes."""
        return self._state

    def scan(self, places: Places | None = None) -> FileScan:
        """Stat the notes, see NoteFiles. Raises StateLost if another file of the commit is missing or was changed."""
        found = super().scan(places)
        if places is None:
            for path in self._blobs.keys() - found.files.keys():  # ignored notes, and the files that say so
                with suppress(NoteError):
                    self.read(NotePath(path))
        return found

    def read(self, path: NotePath) -> tuple[bytes, FileStamp]:
        """Return the bytes of a note, see NoteFiles. Raises StateLost if they are not those of the commit."""
        name = self._blobs.get(path)
        try:
            content, stamp = super().read(path)
        except FileNotFoundError:
            if name is None:
                raise
            raise StateLost from None
        if name is None or not stamp.is_blob(name):
            raise StateLost
        return content, stamp


class PastMemory:
    """A memory root at a commit: what searching and reading use of a Workspace."""

    def __init__(self, memory: Workspace, commit: Commit, folder: Path, state: HeadState) -> None:
        self.commit = commit
        self.folder = folder
        self._memory = memory
        try:
            blobs = json.loads((folder / _READY).read_bytes())
        except (OSError, ValueError):
            raise StateLost from None
        self.files: NoteFiles = PastFiles(folder / _FILES, memory, state, blobs)
        self.reader = memory.reader
        self.index: Index = memory.index.in_file(folder / _INDEX)
        self.usage = UsageCounter(folder, self.index, is_on=False, keeps_queries=False)
        syncer, self.fresh_search = memory.over(self.files, self.index, folder, self.usage)
        syncer.next_step = "search again"
        self._lacks_vectors = True

    def is_intact(self) -> bool:
        """Tell whether the state and its index still exist: another process may delete them."""
        if not (self.folder / _READY).exists():
            return False
        with self.index.reading() as reader:
            return bool(reader.meta("root"))  # a new index, in the place of a deleted one, is of no root yet

    def index_text(self, progress: Progress) -> Syncer:
        """Index the text that the state lacks; return what can embed it."""
        syncer, _ = self._memory.over(self.files, self.index, self.folder, self.usage)  # its gate can be stopped once
        syncer.refresh(accept_root=True, retry_dates=True, progress=progress)
        return syncer

    def complete(self, progress: Progress) -> None:
        """Index the text that the state lacks, and embed for EMBED_SECONDS what has no vector."""
        if not self._lacks_vectors:
            return
        syncer = self.index_text(progress)
        timer = threading.Timer(EMBED_SECONDS, syncer.gate.stop)
        timer.start()
        try:
            with suppress(Stopped, IndexBusy):
                report = syncer.sync(wait_seconds=0, on_wait=lambda _: None, accept_root=True, progress=progress)
                self._lacks_vectors = bool(report.vectors_pending)
        finally:
            timer.cancel()

    def answer(self, request: SearchRequest) -> SearchResult:
        """Answer a search; each citation names the commit. Raises UsageError."""
        request = replace(request, fresh=Fresh.NONE, generation=0)
        result = self.fresh_search.answer(self._memory.parse_for(request, self.files, self.fresh_search))
        return replace(result, hits=tuple(map(self._cited, result.hits)), at=self.commit.name, at_time=self.commit.time)

    def _cited(self, hit: Hit) -> Hit:
        return replace(hit.with_citations(partial(cited_at, commit=self.commit.name)), at=self.commit.short)


class Past:
    """The memory of a Workspace at the commits of its repository. Safe to use from several threads and processes."""

    def __init__(self, memory: Workspace) -> None:
        self._memory = memory
        self._folder = memory.settings.index_dir / "past"
        self._lock = threading.Lock()
        self._open: dict[str, PastMemory] = {}

    def revisions(self) -> Revisions:
        """Return the commits of the memory root. Raises UsageError if it is in no repository."""
        return Revisions.of(self._memory.settings.root)

    def resolve(self, revision: str, *, before: bool = False) -> Commit:
        """Return the commit that a name or a date means, or the last one `before` that date. Raises UsageError."""
        revisions = self.revisions()
        with revisions.git() as git:
            return revisions.resolve(git, revision, before=before)

    def is_ready(self, revision: str) -> bool:
        """Tell whether a search of this state need not make it first. Raises UsageError."""
        return (self._folder / self.resolve(revision).name / _READY).exists()

    def at(self, revision: str, progress: Progress = no_progress) -> PastMemory:
        """Return the memory at a commit. Raises UsageError, StateLost, IndexFailure, FilesystemError."""
        commit, revisions = self.resolve(revision), self.revisions()
        state = revisions.head_state(commit.name)
        past = self._open.get(commit.name)
        if past is None or past.files.head_state() != state or not past.is_intact():
            past = self._opened(revisions, commit, state, progress)  # without our lock: other searches do not wait
        with self._lock:
            self._open.pop(commit.name, None)
            self._open[commit.name] = past
            for name in list(self._open)[:-OPEN]:
                del self._open[name]  # it is closed when the last search that uses it has ended
        with suppress(OSError):
            os.utime(past.folder / _READY)
        past.complete(progress)
        return past

    def asked(self, revision: str, question: Callable[[PastMemory], T], progress: Progress = no_progress) -> T:
        """Return what a question to the memory at a commit returns; ask again if its state is deleted meanwhile."""
        for _ in range(ATTEMPTS):
            try:
                past = self.at(revision, progress)
                answer = question(past)
                if past.is_intact():
                    return answer
            except (StateLost, IndexDamaged, RootError):  # its folder is gone, or is a later one
                with _locked(self._folder):  # otherwise it might delete a new state that another process makes
                    _delete(self._folder / self.resolve(revision).name)
        raise IndexBusy(f"the state of {revision} was deleted again and again", hint="Try again.")

    def excerpt(self, location: str) -> Excerpt:
        """Return the lines that `PATH@REVISION:LINE` names, as they are in that commit. Raises NoSuchNote, UsageError.

        Writes only this note, and what may hide it, to a folder.
        """
        path, revision, place = split_location(location)
        commit, revisions = self.resolve(revision), self.revisions()
        path, *others = spellings(self._memory.settings.root, path)
        names = {spelling.rpartition("/")[2] for spelling in (path, *others)} | {IGNORE_FILE}
        with revisions.git() as git:
            files = revisions.files(git, commit.name)
            near = {name: blob for name, blob in files.items() if name.rpartition("/")[2] in names}
            with self.notes(git, commit, near) as notes:
                try:
                    excerpt = read_excerpt(notes, self._memory.reader, path + place, lambda _: ())
                except NoSuchNote as error:
                    raise NoSuchNote(f"{path} does not exist in {commit.short}", hint=error.hint) from error
        return replace(excerpt, at=commit.short)

    @contextmanager
    def notes(self, git: Git, commit: Commit, files: Mapping[str, Blob]) -> Iterator[PastFiles]:
        """Yield some files of a commit in a folder, which is deleted at the end. Raises FilesystemError.

        The ignore files must be among them, because they hide notes.
        """
        revisions = self.revisions()
        own_folder(self._folder)
        with TemporaryDirectory(dir=self._folder, prefix="read-") as folder:
            blobs = _write(Path(folder), revisions, git, files)
            try:
                yield PastFiles(Path(folder), self._memory, revisions.head_state(commit.name), blobs)
            except (StateLost, RootError) as error:
                raise FilesystemError(f"{folder} was changed while it was read", hint="Try again.") from error

    def close(self) -> None:
        """Close the states that are open."""
        for past in list(self._open.values()):
            past.index.close()

    def drop(self) -> None:
        """Delete every state: a text in them was forgotten. Raises IndexBusy, FilesystemError."""
        drop_states(self._memory.settings.index_dir)

    # ---------------------------------------------------------------------------------------- making a state

    def _opened(self, revisions: Revisions, commit: Commit, state: HeadState, progress: Progress) -> PastMemory:
        folder = self._folder / commit.name
        if not (folder / _READY).exists():
            with _locked(self._folder):
                if not (folder / _READY).exists():
                    self._make(revisions, commit, state, progress)
        return PastMemory(self._memory, commit, folder, state)

    def _make(self, revisions: Revisions, commit: Commit, state: HeadState, progress: Progress) -> None:
        folder = self._folder / _MAKING
        shutil.rmtree(folder, ignore_errors=True)
        try:
            own_folder(folder / _FILES)
            with revisions.git(GIT_SECONDS) as git:
                self._delete_some(git)
                blobs = _write(folder / _FILES, revisions, git, revisions.files(git, commit.name))
            self._nearest_index(blobs).copy_to(folder / _INDEX)
            (folder / _READY).write_text(json.dumps(blobs))
            past = PastMemory(self._memory, commit, folder, state)
            with closing(past.index):
                past.index_text(progress)
            shutil.rmtree(self._folder / commit.name, ignore_errors=True)
            folder.rename(self._folder / commit.name)
        except FileNotFoundError:
            raise StateLost from None
        except OSError as error:
            raise FilesystemError(f"{folder} cannot be written: {error.strerror}", hint="Check the disk.") from error

    def _nearest_index(self, wanted: Mapping[str, str]) -> Index:
        """Return the index that differs from these blobs in the fewest notes: the live one, or that of a state."""
        with self._memory.index.reading() as reader:
            head = {str(path): blob.hex() for path, (blob, _) in reader.history().items()}
            known = reader.stamps().keys()
        distance = len(wanted.items() ^ head.items()) + len(wanted.keys() - known)
        nearest = self._memory.index
        for folder in self._ready():
            with suppress(OSError, ValueError):
                blobs = json.loads((folder / _READY).read_bytes())
                if (away := len(wanted.items() ^ blobs.items())) < distance:
                    nearest, distance = self._memory.index.in_file(folder / _INDEX), away
        return nearest

    def _ready(self) -> list[Path]:
        """Return the folders of the states, the one that was used last at the end."""
        found = []
        for folder in self._folder.iterdir():
            with suppress(OSError):
                found.append(((folder / _READY).stat().st_mtime_ns, folder))
        return [folder for _, folder in sorted(found)]

    def _delete_some(self, git: Git) -> None:
        """Delete the states of commits that the repository has no more, then the oldest ones, and leftovers."""
        ready = self._ready()
        for folder in self._folder.iterdir():
            with suppress(OSError):
                if folder not in ready and folder.stat().st_mtime < clock.file_seconds() - LEFT_SECONDS:
                    _delete(folder)
        names = "".join(f"{folder.name}\n" for folder in ready)
        found = git.run("cat-file", "--batch-check", given=names).stdout
        for number, folder in enumerate(ready):
            if f"{folder.name} commit " not in found or number <= len(ready) - KEPT:
                _delete(folder)


def drop_states(index_dir: Path) -> None:
    """Delete the states of the past beside an index. Raises IndexBusy while one is made, FilesystemError."""
    folder = index_dir / "past"
    if folder.exists():
        with _locked(folder):
            for state in folder.iterdir():
                if state.is_dir():
                    _delete(state)
                    if state.exists():
                        raise FilesystemError(f"{state} cannot be deleted", hint="Delete it yourself.")


def _locked(folder: Path) -> AbstractContextManager[None]:
    """Let one process at a time make or delete states. Raises IndexBusy, FilesystemError."""
    return file_lock(folder / "lock", WAIT_SECONDS, _busy)


def _delete(folder: Path) -> None:
    """Delete a state, its mark first, by which readers notice it."""
    (folder / _READY).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _write(folder: Path, revisions: Revisions, git: Git, files: Mapping[str, Blob]) -> dict[str, str]:
    """Write files to a folder and return git's names for them; leave out those that no checkout could have together."""
    written: dict[str, str] = {}
    paths = grouped((blob.name, path) for path, blob in files.items())
    for name, content in revisions.contents(git, dict.fromkeys(files.values())):
        for path in paths[name]:
            place = folder / path
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
                written[path] = name
            except OSError as error:
                if error.errno not in _IMPOSSIBLE:
                    raise
    return written


def _busy(holder: str) -> IndexBusy:
    return IndexBusy(f"{holder} is making a state of the past", hint="Wait for it to end, then try again.")
