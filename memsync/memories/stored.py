"""A memory without its files: a database has its index and, with `index.store_text`, the text of its notes.

Its answers cannot be compared with the files, so its hits say that they are not verified, and the answer says how old
the index is. Nothing is written. The database does not choose the model: a question goes only to the model that the
user's own settings name, and a memory with vectors of another model is searched by words.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

from msgspec.structs import replace

from memsync.errors import ODD_ERRORS, EmbedderError, IndexFailure, NoteError, UsageError
from memsync.memory import MemoryApi
from memsync.model.answer import Excerpt, Hit, SearchResult
from memsync.model.json import from_json, to_json
from memsync.model.note import FileStamp
from memsync.model.query import EmbeddingSpace, Query, SearchRequest
from memsync.model.status import Failure
from memsync.model.vocabulary import Fresh, NotePath
from memsync.notes.chunk import ChunkLimits
from memsync.notes.files import MAX_NOTE_BYTES, FileScan
from memsync.notes.parse import NoteReader
from memsync.notes.rules import PathRules
from memsync.operation import AT, Operation
from memsync.search.excerpt import read_excerpt
from memsync.search.fresh_search import FreshSearch
from memsync.search.query_syntax import parse_request
from memsync.search.reranking import Reranking
from memsync.search.retrievals import UsageCounter
from memsync.search.searcher import Searcher
from memsync.settings.load import default_of
from memsync.settings.settings_list import DEFAULT_KINDS, DEFAULT_TIERS
from memsync.sync.embedding_models import EmbeddingModels
from memsync.sync.gate import Gate
from memsync.sync.indexer import TextReport
from memsync.system.state_file import state_of_root
from memsync.wiring import make_embedder, make_reranker, make_stored_index, make_token_counter

if TYPE_CHECKING:
    from memsync.index.postgres.stored import ReadOnlyIndex
    from memsync.notes.files import NoteFiles
    from memsync.ports import Embedder, Reranker, TokenCounter
    from memsync.sync.syncer import Syncer
    from memsync.workspace import Searched

P = ParamSpec("P")
R = TypeVar("R")

MAX_PATH_CHARS = 4_096
MAX_NAME_CHARS = 2_000
MAX_NAMES = 1_000
"""No path, title, heading, role or date is longer, and no hit has more of them, if memsync wrote the rows."""
POOL_THREADS = 2
"""One embeds the question, one reranks."""
_ROOT = Path("/")
"""Stands for the memory root in messages and paths; nothing is read there."""


class StoredNotes:
    """The texts of a memory's notes in the database, with the methods of NoteFiles that reading a note needs."""

    root = _ROOT

    def __init__(self, index: ReadOnlyIndex) -> None:
        self._index = index

    def read(self, path: NotePath) -> tuple[bytes, FileStamp]:
        """Return the text of a note and the stamp of the file that it was. Raises FileNotFoundError, NoteError.

        Unpacks no more than NoteFiles would read of a file.
        """
        found = self._index.note(path)
        if found is None:
            raise FileNotFoundError(path)
        packed, stamp = found
        unpacking = zlib.decompressobj()
        try:
            text = unpacking.decompress(packed, MAX_NOTE_BYTES + 1)
        except zlib.error as error:
            raise _unreadable(path, "is damaged") from error
        if len(text) > MAX_NOTE_BYTES:
            raise _unreadable(path, f"is larger than {MAX_NOTE_BYTES // 1_000_000} MB")
        if not unpacking.eof or unpacking.unused_data:
            raise _unreadable(path, "is damaged")
        return text, stamp

    def holds(self, path: NotePath) -> bool:
        """Tell whether the database has the text of a note."""
        return path in self._index.paths()

    def last_touched_ns(self, path: NotePath) -> int:  # noqa: ARG002 (because NoteFiles fixes it)
        """Return a time long ago: nobody saves a stored note."""
        return 0

    def scan(self) -> FileScan:
        """Return the paths of the stored notes."""
        return FileScan(files=dict.fromkeys(self._index.paths(), (0, 0, 0, 0)))


def _unreadable(path: NotePath, fault: str) -> NoteError:
    return NoteError(f"the stored text of {path} {fault}", hint="Run memsync index rebuild where its files are.")


class NotCompared:
    """Stands for the Syncer of a memory whose files are elsewhere: nothing is compared, and nothing is pending."""

    advice = "run memsync sync where its files are"

    def __init__(self, index: ReadOnlyIndex) -> None:
        self._index = index
        self.gate = Gate()

    @property
    def scanned_at(self) -> str:
        """When the files were last compared where they are (ISO 8601, UTC); empty if the database does not say."""
        with self._index.reading() as reader:
            return _moment(reader.meta("last_sync"))

    def refresh(self, *_: object, **__: object) -> TextReport:
        """Return the report of a comparison that found nothing."""
        return TextReport()

    def known_failures(self) -> list[Failure]:
        """Return none: what the database says of files is for those who have them."""
        return []

    def embed_leftovers(self) -> bool:
        """Embed nothing."""
        return False


class StoredSearch(FreshSearch):
    """Answers queries from the database as it is."""

    def titled(self, name: str) -> list[NotePath]:
        """Return the notes with this title, alias or file name."""
        return list(filter(_may_be_path, super().titled(name)))


class StoredMemory(MemoryApi):
    """A memory of a database, searched without its files."""

    def __init__(
        self,
        index: ReadOnlyIndex,
        counter: TokenCounter,
        make_embedder: Callable[[], Embedder],
        make_reranker: Callable[[], Reranker],
    ) -> None:
        self._index = index
        self._pool = ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="memsync")
        self._models = EmbeddingModels(make_embedder, self._refused)
        self._reranking = Reranking(make_reranker, time)
        self.files = cast("NoteFiles", StoredNotes(index))
        rules = PathRules(DEFAULT_KINDS, DEFAULT_TIERS)
        self.reader = NoteReader(counter.count, rules, ChunkLimits())
        self.usage = UsageCounter(state_of_root(_ROOT), index, is_on=False, keeps_queries=False)
        self.fresh_search: FreshSearch = StoredSearch(
            index,
            cast("Syncer", NotCompared(index)),
            Searcher(self.files, index, self.reader, counter.count, default_of("search.min_score")),
            self._models,
            self._reranking,
            deadline=0.0,
            clock=time,
            pool=self._pool,
            usage=self.usage,
        )

    def run(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an operation that only reads. Raises UsageError for any other."""
        if not operation.needs_no_files:
            raise UsageError(
                f"{operation.name} needs the files of the memory, which are not on this machine",
                hint="Run it on the machine that has them.",
            )
        arguments = operation.bind(args, kwargs)
        if arguments.pop(AT, ""):
            hint = "Search where its files and their repository are."
            raise UsageError("a memory without files has no commits to search", hint=hint)
        if operation.name in ("get", "neighbours"):
            self.require_text()
        work: Callable[Concatenate[Searched, ...], R] = operation.function
        try:
            result = work(self, **arguments)
            checked: R = from_json(operation.result, to_json(result))  # the types of what the database gave
            for hit in checked.hits if isinstance(checked, SearchResult) else ():
                _check_hit(hit)
        except ODD_ERRORS as error:
            raise IndexFailure(
                f"the database has rows that memsync cannot read: {type(error).__name__}",
                hint="Run memsync index rebuild where the files are.",
            ) from error
        return cast(R, replace(checked, verified=False)) if isinstance(checked, Excerpt) else checked

    def require_text(self) -> None:
        """Raise IndexFailure if the database has notes of the memory, but no text of any: nothing can be quoted."""
        if self._index.lacks_text():
            raise IndexFailure(
                f"the database has no text of the notes of memory {self._index.name!r}",
                hint="Where its files are, set store_text = true under [index], and run: memsync sync",
            )

    def close(self) -> None:
        """Release the models and the connections."""
        self._models.close()
        self._reranking.close()
        self._pool.shutdown()
        self._index.close()

    # ------------------------------------------------------------------------- what operations use of a workspace

    def parse(self, request: SearchRequest) -> Query:
        """Return the query that a request asks for, see Workspace.parse. Raises UsageError."""
        query = parse_request(replace(request, fresh=Fresh.NONE, generation=0), default_of)
        missing = [
            f"no such folder: {folder}. Write it as paths begin."
            for folder in query.filters.folders
            if not any(path.startswith(folder.removeprefix("./")) for path in self._index.paths())
        ]
        return replace(query, warnings=(*query.warnings, *missing))

    def excerpt(self, location: str) -> Excerpt:
        """Return the lines that a location names, from the text in the database. Raises NoSuchNote, IndexFailure."""
        return read_excerpt(self.files, self.reader, location, self.fresh_search.titled)

    def answer(self, request: SearchRequest) -> SearchResult:
        """Answer a search from the database as it is.

        Raises UsageError as FreshSearch does, and IndexFailure even if the database merely has no text: an empty answer
        would say that nothing matches.
        """
        result = self.fresh_search.answer(self.parse(request))
        if not result.hits:
            self.require_text()
        age = f"not compared with the files: the index is of {result.freshness.scanned_at or 'an unknown time'}"
        hits = tuple(replace(hit, verified=False) for hit in result.hits)
        return replace(result, hits=hits, warnings=(*result.warnings, age), verified=False)

    def _refused(self, space: EmbeddingSpace) -> Embedder:  # noqa: ARG002 (because EmbeddingModels fixes it)
        """Raise EmbedderError: only the user's own settings choose a model."""
        raise EmbedderError(
            f"its vectors are of another model than {self._models.configured().space.model}, which your settings name",
            hint="Set embedder.model in your own config.toml to the model of that memory.",
        )


def _check_hit(hit: Hit) -> None:
    """Raise ValueError for a hit that no note gives: its row may have been written to flood or mislead readers."""
    names = (*hit.heading_path, *hit.tags, hit.title, hit.date, hit.role)
    if not _may_be_path(hit.path) or len(names) > MAX_NAMES or max(map(len, names)) > MAX_NAME_CHARS:
        raise ValueError("a name is too long, or a path leads out")
    numbers = (*(rank.score for rank in hit.ranks.values()), *hit.parts.values())
    if not (0 <= hit.score <= 1 <= hit.start_line <= hit.end_line and all(map(math.isfinite, numbers))):
        raise ValueError("a number is out of bounds")


def _may_be_path(path: str) -> bool:
    """Tell whether a note of a memory root can have a path."""
    return 0 < len(path) <= MAX_PATH_CHARS and not path.startswith("/") and ".." not in path.split("/")


def _moment(text: str) -> str:
    """Return an ISO time, or nothing: any other text in the database is not memsync's, and is shown to nobody."""
    try:
        return datetime.fromisoformat(text).isoformat(timespec="seconds")
    except ValueError:
        return ""


def connect_stored(dsn: str, name: str, source: str = "the connection string") -> StoredMemory:
    """Return a memory of a database whose files are elsewhere; `source` says in errors where `dsn` comes from.

    Raises ConfigError, IndexFailure.
    """
    index = make_stored_index(dsn, name, source)
    try:
        index.require()
    except BaseException:
        index.close()
        raise
    return StoredMemory(
        index,
        make_token_counter(),
        lambda: make_embedder(default_of("embedder.model")),
        lambda: make_reranker(default_of("search.rerank_model")),
    )
