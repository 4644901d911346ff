"""The memory as it was at a commit: an ordinary memory that only reads, in a folder of its own beside the index.

A state is made like any memory root: its files are written, then synced into an index that begins as a copy of the
nearest one. So it costs only what differs, and every operation answers as in a clone of that commit; only the citations
in its answer get the commit, at the end. A state can be deleted at any time. What is read from it is compared with
git's names for the contents.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from contextvars import copy_context
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from memsync.errors import FilesystemError, IndexBusy, IndexDamaged, RootError, WriteRefused
from memsync.model.answer import Hit, SearchResult
from memsync.model.commits import CITED_AT, Commit, cited_at
from memsync.model.query import SearchRequest
from memsync.model.vocabulary import Fresh, NotePath
from memsync.notes.commit_files import PAST, CommitFiles, StateLost, write_files
from memsync.notes.git import Git
from memsync.notes.git_files import HeadState
from memsync.notes.revisions import GIT_SECONDS, Revisions
from memsync.operation import Operation
from memsync.ports import Index, Progress, no_progress
from memsync.settings.load import with_changes
from memsync.sync.embedding import COMPUTING
from memsync.sync.gate import Stopped
from memsync.system import clock
from memsync.system.file_lock import file_lock
from memsync.system.user_folders import own_folder
from memsync.workspace import Workspace

R = TypeVar("R")
T = TypeVar("T")

KEPT = 8
"""How many states are kept; the one that was unused for longest goes first."""
OPEN = 3
"""How many of them a process keeps open."""
ATTEMPTS = 3
WAIT_SECONDS = 600.0
"""How long a search waits while another process makes a state."""
EMBED_SECONDS = 10.0
"""How long a search embeds the missing vectors of a state; the next search continues."""
LEFT_SECONDS = 3600.0
"""No question takes so long: a killed process left an unfinished folder that is older."""
_BY_MEANING = frozenset({"answer_request", "context", "duplicates", "links", "search"})
"""The operations that compare vectors; all others need not wait for missing ones."""
_guard = threading.Lock()
_FILES, _INDEX, _READY, _MAKING = "files", "index.db", "ready.json", "making"


class PastMemory(Workspace):
    """A memory root at a commit, with the settings and the models of a live one."""

    def __init__(self, live: Workspace, revisions: Revisions, commit: Commit, state: HeadState, folder: Path) -> None:
        try:
            blobs = json.loads((folder / _READY).read_bytes())
        except (OSError, ValueError):
            raise StateLost from None
        self.commit = commit
        self.folder = folder
        self._lacks_vectors = True
        files = CommitFiles(folder / _FILES, live.settings, revisions, commit.name, state, blobs)
        settings = with_changes(live.settings, {"usage.count": "false"}, commit.short)
        settings.root_name, settings.index_name = str(files.root), str(folder)
        self._share(live)
        self._work_on(settings, files, live.index.in_file(folder / _INDEX))
        self.syncer.next_step = "search again"

    def is_intact(self) -> bool:
        """Tell whether the state and its index still exist: another process may delete them."""
        if not (self.folder / _READY).exists():
            return False
        with self.index.reading() as reader:
            return bool(reader.meta("root"))  # a new index, in the place of a deleted one, is of no root yet

    def complete(self, progress: Progress) -> None:
        """Index the text that the state lacks, and embed for EMBED_SECONDS what has no vector."""
        if not self._lacks_vectors:
            return
        self.index_text(progress)
        end = clock.monotonic() + EMBED_SECONDS

        def embedding(what: str, done: int, total: int) -> None:
            progress(what, done, total)
            if what == COMPUTING and clock.monotonic() > end:  # so each search embeds something
                raise Stopped

        with suppress(Stopped, IndexBusy):
            report = self.syncer.sync(wait_seconds=0, on_wait=lambda _: None, accept_root=True, progress=embedding)
            self._lacks_vectors = bool(report.vectors_pending)

    def index_text(self, progress: Progress) -> None:
        """Index the text that the state lacks."""
        self.syncer.refresh(accept_root=True, retry_dates=True, progress=progress)

    def answer(self, request: SearchRequest) -> SearchResult:
        """Answer a search from the index as it is: the files of a commit never change. Raises UsageError."""
        return super().answer(replace(request, fresh=Fresh.NONE, generation=0))

    def close(self) -> None:
        """Close its index; the rest is the live memory's."""
        self.index.close()


class Past:
    """The memory of a Workspace at the commits of its repository. Safe to use from several threads and processes."""

    def __init__(self, memory: Workspace) -> None:
        self._memory = memory
        self._folder = memory.settings.index_dir / PAST
        # One that is dropped is closed when the last search that uses it has ended.
        self._opened = lru_cache(OPEN)(partial(PastMemory, memory))
        memory.closing.callback(self._opened.cache_clear)

    def is_ready(self, revision: str) -> bool:
        """Tell whether a search of this state need not make it first. Raises UsageError."""
        return (self._folder / Revisions.of(self._memory.settings.root).resolve(revision).name / _READY).exists()

    def run(self, operation: Operation[Any, R], revision: str, **arguments: Any) -> R:
        """Return what an operation answers at a commit; its citations name the commit. Raises UsageError.

        Raises WriteRefused if the operation would write.
        """
        if any(arguments[name] and operation.parameters[name].writes for name in arguments):
            raise WriteRefused("nothing can be written to a commit", hint="Leave out --at.")

        def question(past: PastMemory) -> R:
            asked = copy_context()
            asked.run(CITED_AT.set, past.commit.name)
            return cited(asked.run(operation.function, past, **arguments), past.commit)

        by_meaning = operation.name in _BY_MEANING
        return self.asked(revision, question, arguments.get("progress", no_progress), by_meaning=by_meaning)

    def at(self, revision: str, progress: Progress = no_progress, *, by_meaning: bool = True) -> PastMemory:
        """Return the memory at a commit. Raises UsageError, StateLost, IndexFailure, FilesystemError.

        With `by_meaning`, embed what has no vector, for a while.
        """
        revisions = Revisions.of(self._memory.settings.root)
        commit = revisions.resolve(revision)
        ready = self._folder / commit.name / _READY
        if not ready.exists():
            with _locked(self._folder):
                if not ready.exists():
                    self._make(revisions, commit, progress)
        with suppress(OSError):
            os.utime(ready)
        past = self._opened(revisions, commit, revisions.head_state(commit.name), ready.parent)
        if by_meaning:
            past.complete(progress)
        return past

    def asked(
        self,
        revision: str,
        question: Callable[[PastMemory], T],
        progress: Progress = no_progress,
        *,
        by_meaning: bool = True,
    ) -> T:
        """Return what a question to the memory at a commit returns; ask again if its state is deleted meanwhile."""
        for _ in range(ATTEMPTS):
            try:
                past = self.at(revision, progress, by_meaning=by_meaning)
                answer = question(past)
                if past.is_intact():
                    return answer
                raise StateLost
            except (StateLost, IndexDamaged, RootError):  # its folder is gone, or is a later one
                self._opened.cache_clear()
                with _locked(self._folder):  # otherwise it might delete a new state that another process makes
                    _delete(self._folder / Revisions.of(self._memory.settings.root).resolve(revision).name)
        raise IndexBusy(f"the state of {revision} was deleted again and again", hint="Try again.")

    # ---------------------------------------------------------------------------------------- making a state

    def _make(self, revisions: Revisions, commit: Commit, progress: Progress) -> None:
        folder = self._folder / _MAKING
        shutil.rmtree(folder, ignore_errors=True)
        try:
            own_folder(folder / _FILES)
            with revisions.git(GIT_SECONDS) as git:
                self._delete_some(git)
                blobs = write_files(folder / _FILES, revisions, git, revisions.files(git, commit.name))
            self._nearest_index(blobs).copy_to(folder / _INDEX)
            (folder / _READY).write_text(json.dumps(blobs))
            state = revisions.head_state(commit.name)
            with closing(PastMemory(self._memory, revisions, commit, state, folder)) as past:
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


def past_of(memory: Workspace) -> Past:
    """Return the memory at the commits of its repository, with the states that are open."""
    with _guard:
        if "past" not in vars(memory):
            vars(memory)["past"] = Past(memory)
    past: Past = vars(memory)["past"]
    return past


def drop_states(index_dir: Path) -> None:
    """Delete the states of the past beside an index. Raises IndexBusy while one is made, FilesystemError."""
    folder = index_dir / PAST
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


def _busy(holder: str) -> IndexBusy:
    return IndexBusy(f"{holder} is making a state of the past", hint="Wait for it to end, then try again.")


def cited(value: T, commit: Commit) -> T:
    """Return an answer whose citations name a commit: each path becomes `path@commit`; hits name it in `at`."""
    changed: Any = value
    if isinstance(value, tuple):
        changed = tuple(cited(one, commit) for one in value)
    elif isinstance(value, Hit):
        changed = replace(value.with_citations(partial(cited_at, commit=commit.name)), at=commit.short)
    elif isinstance(value, Struct):
        members = {name: cited(getattr(value, name), commit) for name in value.__struct_fields__}
        paths = {name: cited_at(members[name], commit.name) for name in _paths(type(value)) if members[name]}
        state = {"at": commit.name, "at_time": commit.time} if isinstance(value, SearchResult) else {}
        changed = replace(value, **members | paths | state)
    return cast(T, changed)


@cache
def _paths(kind: type[Struct]) -> Sequence[str]:
    """Return the members of a class that are paths of notes."""
    return [name for name, hint in get_type_hints(kind).items() if hint is NotePath]
