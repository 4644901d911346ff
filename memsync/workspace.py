"""Workspace: one memory root in this process, with its files, index, models and writers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from memsync.errors import ConfigError, MemsyncError, NoSuchNote, NoteError, NoThread, UsageError, WriteRefused
from memsync.model.answer import Excerpt, SearchResult
from memsync.model.query import EmbeddingSpace, Query, SearchRequest
from memsync.model.status import Status
from memsync.model.text import quoted
from memsync.model.vocabulary import Kind, NotePath, Origin, named_origin
from memsync.model.written import Written
from memsync.notes.rules import ARCHIVE_FOLDER, PathRules, unusable_local_only
from memsync.ports import Clock, Embedder, Index, IndexReader, Reranker, TokenCounter, VectorCache
from memsync.settings.load import Settings
from memsync.system import clock as system_clock
from memsync.system.once import once_property

if TYPE_CHECKING:
    from pathlib import Path

    from memsync.edit.append import Done
    from memsync.edit.archive import Retiring
    from memsync.edit.forgotten import Forgotten
    from memsync.edit.note_editor import NoteEditor
    from memsync.edit.note_writer import NoteWriter
    from memsync.edit.run_records import Work
    from memsync.edit.runs import Runs
    from memsync.model.note import Chunk
    from memsync.notes.files import NoteFiles
    from memsync.notes.parse import NoteReader
    from memsync.search.fresh_search import FreshSearch
    from memsync.search.retrievals import UsageCounter

POOL_THREADS = 8
"""Two for each of four concurrent searches; the pool starts a thread when it first needs it."""
INDEX_NOW_BYTES = 256_000
"""A write indexes its note at once up to this size; the daemon or the next search indexes a larger note."""
INDEX_SECONDS = 2.0


class Searched(Protocol):
    """What searching and reading use of a Workspace; a memory of a database without its files has that, too."""

    files: NoteFiles
    reader: NoteReader
    usage: UsageCounter
    fresh_search: FreshSearch

    def parse(self, request: SearchRequest) -> Query:
        """Return the query that a request asks for."""

    def answer(self, request: SearchRequest) -> SearchResult:
        """Answer a search."""

    def excerpt(self, location: str) -> Excerpt:
        """Return the lines that a location names."""


class Workspace:
    """One memory root: its files, index, models and writers. Safe to use from several threads and processes.

    `wiring` makes it. A daemon sets `daemon_status`, which adds the daemon's state to a status. `processes` is the
    number of processes that parse notes when there are many to read (0: one for each processor, up to 4). `deadline`
    is how many seconds a search may spend on indexing (default: DEADLINE_SECONDS).
    """

    def __init__(
        self,
        settings: Settings,
        index: Index,
        counter: TokenCounter,
        make_embedder: Callable[[], Embedder],
        embedder_of: Callable[[EmbeddingSpace], Embedder],
        *,
        make_reranker: Callable[[], Reranker] | None = None,
        clock: Clock = system_clock,
        cache: VectorCache | None = None,
        processes: int = 1,
        deadline: float | None = None,
    ) -> None:
        # Imported here, because a client of the daemon knows this class but has none of these parts.
        from memsync.notes.files import NoteFiles
        from memsync.search.reranking import Reranking
        from memsync.sync.embedding_models import EmbeddingModels

        self._cache = cache
        self._counter = counter
        self._clock = clock
        self._processes = processes
        self._deadline = deadline
        self.reader = _note_reader(settings, counter)
        self.models = EmbeddingModels(make_embedder, embedder_of, clock)
        self._pool = ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="memsync")
        self.reranking = Reranking(make_reranker, clock)
        files = NoteFiles(settings.root, *settings.of_files, settings.require_current, settings.only)
        self._work_on(settings, files, index)

    def _share(self, other: Workspace) -> None:
        """Use the models, the reader, the cache and the threads of another memory, which closes them."""
        self._cache, self._counter, self._clock, self._pool = other._cache, other._counter, other._clock, other._pool
        self._processes, self._deadline = other._processes, other._deadline
        self.reader, self.models, self.reranking = other.reader, other.models, other.reranking

    def _work_on(self, settings: Settings, files: NoteFiles, index: Index) -> None:
        """Make what keeps an index equal to files, and what searches it and counts the searches."""
        from memsync.search.fresh_search import DEADLINE_SECONDS, FreshSearch
        from memsync.search.retrievals import UsageCounter
        from memsync.search.searcher import Searcher
        from memsync.sync.syncer import Syncer
        from memsync.sync.workers import NoteWorkers
        from memsync.system.state_file import state_of_root

        self.is_closed, self.closing = False, ExitStack()
        self.daemon_status: Callable[[Status], Status] | None = None
        self.settings, self.files, self.index = settings, files, index
        self.state = state_of_root(settings.keep_dir)
        self.usage = UsageCounter(
            self.state, index, is_on=settings["usage.count"], keeps_queries=settings["usage.queries"]
        )
        clock, deadline = self._clock, DEADLINE_SECONDS if self._deadline is None else self._deadline
        workers = NoteWorkers(self.reader, index.prepare, self._processes)
        folder, retrievals = settings.index_dir, self.usage.retrievals
        self.syncer = Syncer(files, index, self.reader, self.models, folder, clock, workers, retrievals, self._cache)
        searcher = Searcher(files, index, self.reader, self._counter.count, settings["search.min_score"])
        self.fresh_search = FreshSearch(
            index, self.syncer, searcher, self.models, self.reranking,
            deadline=deadline, clock=clock, pool=self._pool, usage=self.usage,
        )  # fmt: skip

    def close(self) -> None:
        """Release the model and the index. The memory cannot be used afterwards."""
        self.is_closed = True
        self.usage.flush()
        self.models.close()  # first, so that no thread keeps waiting for a model
        self.reranking.close()
        self._pool.shutdown()
        self.closing.close()
        self.index.close()
        self.state.close()
        if self._cache is not None:
            self._cache.close()

    def as_of_now(self) -> AbstractContextManager[tuple[IndexReader, int]]:
        """Compare the files with the index, then yield a view of it and the number of changed files it lacks."""
        return self.fresh_search.as_of_now()

    def parse(self, request: SearchRequest) -> Query:
        """Return the query that a request asks for, with the settings of this memory. Raises UsageError."""
        from memsync.search.query_syntax import parse_request

        query = parse_request(request, self.settings.__getitem__)
        if not query.filters.folders:
            return query
        folders, warnings = self.fresh_search.folders(self.files.root, query.filters.folders)
        filters = replace(query.filters, folders=tuple(folders))
        return replace(query, filters=filters, warnings=(*query.warnings, *warnings))

    def answer(self, request: SearchRequest) -> SearchResult:
        """Answer a search and count it as one. Raises UsageError, RootError, IndexFailure, UnknownModel."""
        from memsync.edit.share_state import shared_of
        from memsync.notes.git_files import is_bare

        result = self.fresh_search.answer(self.parse(request))
        with suppress(MemsyncError):  # a damaged state costs no answer
            result = replace(result, warnings=(*result.warnings, *shared_of(self.state).unsolved))
        if not result.hits and is_bare(self.settings.root):
            advice = f"{self.settings.root} is a bare repository, without files: search a commit, with --at HEAD"
            result = replace(result, warnings=(*result.warnings, advice))
        return result

    def excerpt(self, location: str) -> Excerpt:
        """Return the lines that a location names, as they are now or, after an `@`, at a commit. Raises NoSuchNote."""
        from memsync.model.commits import cited_at
        from memsync.notes.git_files import is_bare
        from memsync.notes.revisions import split_location
        from memsync.search.excerpt import excerpt_at, read_excerpt

        try:
            return read_excerpt(self.files, self.reader, location, self.fresh_search.titled)
        except NoSuchNote:
            if is_bare(self.settings.root) and not split_location(location)[1]:
                location = cited_at(location, "HEAD")
            if not split_location(location)[1]:
                raise
        return excerpt_at(self.settings, self.reader, location)

    def chunks_of(self, path: NotePath) -> tuple[Sequence[str], Sequence[Chunk]]:
        """Return the lines and the chunks of a note as it is now; none if it cannot be read."""
        from memsync.notes.decode import BinaryFileError

        with suppress(OSError, NoteError, BinaryFileError):
            note, chunks = self.reader.read(path, self.files.read(path)[0])
            return note.lines, chunks
        return (), ()

    # ------------------------------------------------------------------------------------------ writing

    @once_property
    def writer(self) -> NoteWriter:
        """Changes single notes. There must be only one, because it holds the writers' lock."""
        from memsync.edit.note_writer import NoteWriter

        return NoteWriter(self.settings.root, self.state, self.reader.rules, self._check_root)

    def _check_root(self) -> None:
        """Raise WriteRefused if the files belong to another program, RootError if this is another folder."""
        if self.settings.only:
            reason = f"the files of {self.settings.root} belong to another program"
            raise WriteRefused(reason, hint="Write to a memory root of your own, see: memsync roots list")
        self.syncer.check_root()

    @once_property
    def archive(self) -> Retiring:
        """Moves notes to archive/ and back."""
        from memsync.edit.archive import Retiring
        from memsync.edit.run_records import Work

        return Retiring(*self._for_runs(Work.PRUNE))

    @once_property
    def forgotten(self) -> Forgotten:
        """Takes text out of notes, and puts it back."""
        from memsync.edit.forgotten import Forgotten
        from memsync.edit.run_records import Work

        return Forgotten(*self._for_runs(Work.FORGET))

    def runs(self, kind: Work) -> Runs:
        """Return what changes several notes in one run, and undoes it."""
        from memsync.edit.runs import Runs

        return Runs(*self._for_runs(kind))

    def _for_runs(self, kind: Work) -> tuple[Path, Path, NoteWriter, Work, bool]:
        return self.settings.root, self.settings.keep_dir, self.writer, kind, self.settings["git.commit"]

    @once_property
    def editor(self) -> NoteEditor:
        """Reads notes, and adds to their sections."""
        from memsync.edit.note_editor import NoteEditor

        return NoteEditor(self.files, self.reader, self.writer)

    def existing_thread(self, thread: str) -> NotePath:
        """Return the path of the thread with this path, name in threads/, or title; also if it is archived.

        Does not read a thread in threads/, so that an append to a long thread stays cheap. Raises NoThread, UsageError
        when several threads have that title.
        """
        from memsync.edit.note_paths import thread_paths

        paths = thread_paths(thread)
        archived = (p for path in paths for p in (*self.archive.retired_to(path), NotePath(f"{ARCHIVE_FOLDER}{path}")))
        for path in (*paths, *archived):
            if self.editor.holds(path):
                if self.editor.is_of_kind(path, Kind.THREAD):
                    return path
                raise NoThread(f"{path} is not a thread", hint="Threads are in threads/: memsync thread list")
        titled = self.threads_titled(" ".join(thread.split()))
        if len(titled) > 1:
            raise UsageError(f"several threads are called {thread!r}", hint=f"Name one: {', '.join(titled)}")
        if not titled:
            hint = "See: memsync thread list; or begin it: memsync thread new"
            with self.index.reading() as reader:
                if reader.not_shared():
                    hint += "\nThe shared index does not have the titles of local-only threads: name those by path"
            raise NoThread(f"there is no thread {thread!r}", hint=hint)
        return titled[0]

    def thread_of_id(self, own: str) -> NotePath:
        """Return the path of the thread that another program calls so, wherever it was moved; also if there is none."""
        from memsync.edit.note_paths import thread_of_id

        path = thread_of_id(own)
        if not own or self.editor.holds(path):
            return path
        with self.as_of_now() as (reader, _):
            return next((thread.path for thread in reader.threads() if thread.session == own), path)

    def threads_titled(self, title: str) -> list[NotePath]:
        """Return the threads with this title, ignoring case."""
        with self.as_of_now() as (reader, _):
            return [thread.path for thread in reader.threads() if thread.title.casefold() == title.casefold()]

    def write(self, what: str, subject: str, change: Callable[[], Done], *, is_indexed: bool = True) -> Written:
        """Make one change under the writers' lock, commit it if the settings say so, and index the note unless told so.

        The commit message is `what` and the first line of `subject`, which is also searched for secrets.
        """
        from memsync.edit import commits

        commit, complaint = "", ""
        with self.writer.lock():
            done = change()
            if self.settings["git.commit"]:
                first = next(filter(None, map(str.strip, subject.splitlines())), "")
                message = f"memsync {what}: {first[:60]}"
                paths = [done.moved_from, done.path] if done.moved_from else [done.path]
                commit, complaint = commits.commit(self.files.root, paths, message)
        generation, indexing = self._index_now(done.path) if is_indexed else (0, ())
        secrets = self._secrets(done, subject) if subject != done.path else ()
        warnings = (*done.warnings, *filter(None, [complaint]), *indexing, *secrets)
        return Written(done.path, done.line, generation, commit, warnings)

    def _secrets(self, done: Done, text: str) -> tuple[str, ...]:
        """Return a warning for each secret of a text that was written, with its line in the note.

        A failure here only gives a warning, because the note is written already.
        """
        from memsync.notes.secrets import places, secrets_in

        try:
            digests = {secret.digest for secret in secrets_in(text)}
            found = list(places(self.files.read(done.path)[0])) if digests else []
        except (MemsyncError, OSError) as error:
            return (f"{done.path} was not checked for secrets: {error}",)
        return tuple(
            f"line {line} seems to contain a secret ({kind}, {digest}). Remove it: memsync open {done.path}:{line}"
            for line, kind, digest in found
            if line >= done.line and digest in digests
        )

    def _index_now(self, path: NotePath) -> tuple[int, tuple[str, ...]]:
        """Index a written note if it is small; return the generation (0: not indexed yet) and warnings.

        A failure here only gives a warning, because the note is written already.
        """
        from memsync.notes.files import Places

        try:
            if os.stat(self.files.root / path).st_size > INDEX_NOW_BYTES:
                return 0, ()
            with self.syncer.gate.searching():
                report = self.syncer.refresh(INDEX_SECONDS, places=Places([path]), for_search=True)
            if path not in self.syncer.scanner.known().stamps:
                if report.pending:
                    return 0, (f"{path} is written, but not indexed yet: indexing takes too long for a write",)
                return 0, (f"searches do not find {path}: .gitignore or [files] exclude leaves it out",)
            with self.index.reading() as reader:
                return (0 if report.pending else reader.generation()), ()
        except (MemsyncError, OSError) as error:
            return 0, (f"{path} is written, but not indexed yet: {error}",)


def _local_only(settings: Settings) -> tuple[str, ...]:
    """Return the patterns of local-only notes. Raises ConfigError for one that does not make any note local-only."""
    patterns = tuple(settings["privacy.local_only"])
    if (pattern := unusable_local_only(patterns)) is not None:
        raise ConfigError(
            f"{settings.sources['privacy.local_only']}: privacy.local_only: {quoted(pattern)} matches no note",
            hint="Write patterns as in .gitignore, but none that begins with !; a name that begins with # or ! needs a "
            "backslash before it.",
        )
    return patterns


def _note_reader(settings: Settings, counter: TokenCounter) -> NoteReader:
    from memsync.notes.agent_forms import PATHS
    from memsync.notes.chunk import ChunkLimits
    from memsync.notes.parse import NoteReader

    forms = PATHS.get(settings.owner, {})
    kinds = {glob: str(kind) for glob, (kind, _) in forms.items()}
    tiers = {glob: str(tier) for glob, (_, tier) in forms.items()}
    return NoteReader(
        counter.count,
        PathRules({**kinds, **settings.kinds}, {**tiers, **settings.tiers}, _local_only(settings)),
        ChunkLimits(),
        named_origin(f"{Origin.AGENT}:{settings.owner}") if settings.owner else Origin.OWNER,
    )
