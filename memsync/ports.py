"""The interfaces through which the core uses an embedder, an index and a vector cache, without naming one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from memsync.errors import EmbedderError
from memsync.model.conversation import Cost, Thread, ThreadMessage
from memsync.model.note import Chunk, FileStamp, Link, Note
from memsync.model.query import Candidate, EmbeddingSpace, IndexedChunk, IndexedNote, Query
from memsync.model.status import IndexCounts, IndexedFile, PendingPassage
from memsync.model.upkeep import NoteLines
from memsync.model.vocabulary import JsonValue, NotePath, WatcherState

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
    """One unit-length vector; shape (space.dimension,)."""

Progress = Callable[[str, int, int], None]
"""Called with a label for the work, the number of items done and the total.

A total of 0 marks an announcement: a sentence about the next step, which is shown on its own line.
"""


def no_progress(what: str, done: int, total: int) -> None:
    """Report nothing."""


WRITES_FOR_AGENT: ContextVar[str] = ContextVar("writes_for_agent", default="")
"""The agent's name while an operation of an agent runs: agents may not write notes that instruct agents."""


@contextmanager
def for_agent(name: str) -> Iterator[None]:
    """Run the block for an agent: what it writes is marked as the agent's, and no note that instructs is written."""
    mark = WRITES_FOR_AGENT.set(name or "agent")
    try:
        yield
    finally:
        WRITES_FOR_AGENT.reset(mark)


class Clock(Protocol):
    """A source of time: the module `time`, or what a test replaces it by."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def time_ns(self) -> int:
        """Return the wall clock in nanoseconds, as file systems stamp files."""

    def sleep(self, seconds: float, /) -> None:
        """Wait."""


class TokenCounter(Protocol):
    """Counts the tokens that a model reads for a text."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, without special tokens."""


class Model(Protocol):
    """A model that is loaded when it is needed."""

    def unload(self) -> None:
        """Free the model's memory. The next use loads the model again."""

    def close(self) -> None:
        """Free everything for good. Later calls, also from other threads, may raise EmbedderError."""


class Embedder(Model, Protocol):
    """Turns texts into vectors of one embedding space. Safe to call from several threads."""

    @property
    def space(self) -> EmbeddingSpace:
        """The space of all its vectors. Its `is_remote` tells whether the model may run on another machine."""

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Vector]:
        """Return one unit-length float32 vector per text, in the same order, each of shape (space.dimension,).

        A vector depends on its own text only, not on the other texts of the call. `pause` is called before each
        step; it may wait, or raise to end the work. Raises EmbedderError.
        """

    def embed_query(self, text: str) -> Vector:
        """Return one unit-length float32 vector for a question. Raises EmbedderError."""


class Reranker(Model, Protocol):
    """Rates texts by reading each together with the question; slower than comparing vectors. Thread-safe."""

    def relevance(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return the relevance of each text to a question, in the same order: 0 to 1, the logistic of a logit.

        A text's relevance depends only on the question and that text. The model does not read text beyond its
        window. Raises EmbedderError, UnknownModel.
        """


class IndexReader(Protocol):
    """One consistent view of the index: every method sees the same state."""

    def generation(self) -> int:
        """Return a number that grows with every committed write."""

    def notes_generation(self) -> int:
        """Return the generation of the last write that changed more than vectors."""

    def last_removal(self) -> int:
        """Return the generation of the last write that deleted a note or replaced its text."""

    def stamps(self) -> Mapping[NotePath, IndexedFile]:
        """Return every indexed note with the file stamp of its last reading."""

    def keyword_candidates(self, query: Query, limit: int) -> list[Candidate]:
        """Return the chunks and group entries that contain the query's words, best first, already filtered."""

    def word_weights(self, words: Sequence[str]) -> dict[str, float]:
        """Return the idf (inverse document frequency) of each word."""

    def row_counts(self, words: Sequence[str]) -> dict[str, int]:
        """Return how many rows of the word index have each word or phrase."""

    def stems(self, beginning: str) -> Iterable[str]:
        """Return the stems in the word index with this beginning, each once."""

    def entries_allowed(self, query: Query, chunk_ids: Sequence[int]) -> set[tuple[int, int]] | None:
        """Return (chunk id, number from 1) of the group entries with every phrase and no excluded word.

        Returns None when the query has neither phrases nor excluded words: all entries are allowed.
        """

    def vector_candidates(self, query: Query, vector: Vector, limit: int) -> list[Candidate]:
        """Return the chunks nearest to `vector` in the active space, best first; scores are cosines."""

    def latest_candidates(self, query: Query, limit: int) -> list[Candidate]:
        """Return the chunks that pass the filters, latest first."""

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, IndexedChunk]:
        """Return the chunks with these ids, without those that no longer exist."""

    def tags(self) -> Mapping[str, int]:
        """Return how many notes have each tag, archived ones left out, by name."""

    def marked(self) -> tuple[Sequence[IndexedChunk], Sequence[tuple[NotePath, str, Mapping[str, JsonValue]]]]:
        """Return the chunks that supersede others, and (path, date, front matter) of notes that may say what holds."""

    def origins(self) -> Sequence[tuple[NotePath, str]]:
        """Return (path, origin) of every origin of a note's text, without its front matter and mere headings."""

    def lapsing(self) -> Sequence[NotePath]:
        """Return the notes with an entry that itself says when it holds, or that it does not."""

    def links(self) -> list[tuple[NotePath, Link]]:
        """Return the links of all notes with the notes that have them, by path and line."""

    def active_space(self) -> EmbeddingSpace | None:
        """Return the space that answers searches, or None before the first vector."""

    def pending(self, space: EmbeddingSpace) -> int:
        """Return how many passages wait for a vector in `space`. Local-only passages never wait for a remote model."""

    def waiting(self, space: EmbeddingSpace, retrievals: Mapping[NotePath, int]) -> list[int]:
        """Return the ids of the passages without a vector in `space`, in the order in which to embed them.

        First the passage that tells most of each note, then all others, note by note. Notes are sorted by: pinned,
        importance, number of retrievals by searches, time of the last change.
        """

    def pending_passages(self, space: EmbeddingSpace, passages: Sequence[int]) -> list[PendingPassage]:
        """Return the passages with these ids that have no vector in `space` yet, in the order of `passages`."""

    def pending_hashes(self, space: EmbeddingSpace, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return (id, content hash) of up to `limit` passages without a vector, with ids above `after`, by id."""

    def spaces(self) -> list[EmbeddingSpace]:
        """Return every space with vectors in the index."""

    def vectors(self, space: EmbeddingSpace, after: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Return up to `limit` (content hash, float16 vector) of a space with hashes above `after`, by hash."""

    def counts(self) -> IndexCounts:
        """Return what the index holds."""

    def notes(self) -> list[IndexedNote]:
        """Return every note, by path."""

    def repetitions(
        self, min_score: float, min_tokens: int, max_pairs: int, max_compared: int, progress: Progress
    ) -> tuple[list[tuple[float, Sequence[NoteLines]]], int]:
        """Return text that several notes share: equal (score 1) or with a cosine of `min_score` or more.

        Skips archived notes and passages of fewer than `min_tokens` tokens. Compares the `max_compared` longest
        passages and keeps the `max_pairs` nearest pairs. Also returns how many passages were not compared: these are
        found only if they are equal. Highest score first, places by path. `progress` may raise to end the work.
        """

    def notes_where(self, key: str, value: str) -> list[NotePath]:
        """Return the notes with this value of a front matter field or of a chunk's attribute, in order."""

    def threads(self, path: NotePath | None = None) -> list[Thread]:
        """Return every thread, or the one at `path`, by path."""

    def messages(self, role: str, session: str = "") -> list[ThreadMessage]:
        """Return the messages of a role (`agent`: of every agent) without their text, newest first."""

    def costs(self, by: str, since: str) -> list[Cost]:
        """Return the usage since a moment, grouped by `session`, `model`, `agent` or `day`. Raises UsageError."""

    def history(self) -> Mapping[NotePath, tuple[bytes, int]]:
        """Return when commits last changed the notes of HEAD's tree, as `put_history` stored it."""

    def committed_notes(self) -> int:
        """Return how many notes take their date from a commit."""

    def not_shared(self) -> list[NotePath]:
        """Return the local-only notes that the index does not have because others can read it, by path."""

    def warnings(self) -> list[tuple[str, str]]:
        """Return (path, warning) of every note that could not be parsed in full."""

    def meta(self, key: str) -> str:
        """Return a value stored with `set_meta`, or an empty string."""

    def dump(self) -> Iterator[str]:
        """Yield the canonical dump, which depends only on the files, HEAD, the settings and the model."""


class PreparedNote(Protocol):
    """A note in the form in which an index stores it. It can be pickled and made without access to the index."""

    @property
    def path(self) -> NotePath:
        """The note's path."""

    @property
    def chunk_count(self) -> int:
        """How many chunks the note has."""


class IndexWriter(IndexReader, Protocol):
    """One write transaction: either everything is committed when its context ends, or nothing."""

    def put_note(self, note: PreparedNote, stamp: FileStamp, parsed_by: str) -> None:
        """Replace all rows of a note and its stamp. New passages are queued for a vector.

        In a remote space a passage has a vector, or waits for one, only while a note that is not local-only has it.
        """

    def put_stamp(self, path: NotePath, stamp: FileStamp) -> None:
        """Replace only the stamp of a file that was touched but has the same content."""

    def put_history(self, notes: Mapping[NotePath, tuple[bytes, int]]) -> None:
        """Replace the dates from commits: path -> (blob name, seconds since 1970), for the notes of HEAD's tree.

        A note takes the date if its content has that blob name; no other row of it changes.
        """

    def delete_note(self, path: NotePath) -> None:
        """Delete a note."""

    def prepare_space(self, space: EmbeddingSpace) -> None:
        """Start to build `space`: as the active space if it is the first, otherwise next to the active one."""

    def put_vectors(
        self, space: EmbeddingSpace, vectors: Sequence[tuple[PendingPassage, Vector]]
    ) -> list[EmbedderError]:
        """Store computed vectors and take their passages off the queue.

        Returns an error for each unusable vector (NaN, zero, wrong dimension). Those passages stay queued.
        """

    def put_known_vectors(self, space: EmbeddingSpace, vectors: Sequence[tuple[int, bytes, bytes]]) -> int:
        """Store vectors computed earlier, as (passage id, hash, float16 bytes); return how many were stored.

        The bytes are those of `VectorCache.get`. Passages that no longer exist are skipped.
        """

    def activate_complete_space(self, space: EmbeddingSpace) -> bool:
        """Use `space` for searches if no passage is pending in it; return whether it is active now."""

    def set_meta(self, key: str, value: str, *, quiet: bool = False) -> None:
        """Store a small value under a name.

        With `quiet` the generation does not change, because no reader caches such values. The call must then be the
        only one in its transaction.
        """

    def set_last_sync(self, moment: str) -> None:
        """Store when the files were last compared with the index: alone in a transaction, or after changes of notes."""


class Index(Protocol):
    """Stores notes, chunks and vectors. Safe for many readers and one writer at a time."""

    @property
    def place(self) -> str:
        """Where the index is, for people: its folder, or a server and a name."""

    def reading(self) -> AbstractContextManager[IndexReader]:
        """Return a consistent view. Raises IndexFailure when the index cannot be read."""

    def writing(self) -> AbstractContextManager[IndexWriter]:
        """Begin a write transaction as soon as no other is open. Raises IndexBusy, IndexFailure, FilesystemError."""

    def check(self, *, is_quick: bool = False) -> None:
        """Read the whole index and compare its tables with each other; if `is_quick`, only count their rows.

        Raises IndexDamaged. The damaged index has then been replaced by an empty one.
        """

    def check_writable(self) -> None:
        """Raise IndexFailure if this process may not write the index; changes nothing. A full disk shows later."""

    @property
    def prepare(self) -> Callable[[Note, Sequence[Chunk]], PreparedNote]:
        """A function that can be pickled: it returns a note in the form that `put_note` takes. Needs no transaction."""

    def take_damage(self) -> str:
        """Return the damage found since the last call and what was done about it; empty if there is none."""

    def take_warnings(self) -> list[str]:
        """Return the warnings since the last call about opening the index, for example that it was damaged."""

    def compact(self, *, bulk: bool, is_changed: bool = True) -> None:
        """Free the space of deleted rows if it is worth the time; after a bulk load (`bulk`) also tidy up.

        Each sync calls it, even if nothing has changed: an earlier sync may have ended before it.
        """

    def discard_leftovers(self) -> None:
        """Delete what a killed rebuild left. The caller holds the sync lock."""

    def beside(self) -> Index:
        """Return a new, empty index next to this one."""

    def in_file(self, path: Path) -> Index:
        """Return the index of a state of the past in a file of its own; create it if there is none."""

    def copy_to(self, path: Path) -> None:
        """Write what is indexed to a new file for `in_file`; nothing if it cannot be copied."""

    def take_over(self, other: Index) -> None:
        """Replace this index by `other`, which `beside` made, in one step; closes `other`."""

    def discard(self) -> None:
        """Close and delete an index that `beside` made."""

    def forget(self) -> None:
        """Delete everything that the index has of the memory, and close it."""

    def close(self) -> None:
        """Close every connection."""


class VectorCache(Protocol):
    """Vectors of all memory roots of a user, by space and content hash. A failing cache raises no errors."""

    def identity(self) -> str:
        """Return an id that a replaced cache would not have; empty while the cache cannot be used."""

    def get(self, space: EmbeddingSpace, hashes: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Return the cached vectors of these hashes, as little-endian float16 of unit length."""

    def put(self, space: EmbeddingSpace, vectors: Sequence[tuple[bytes, Vector | bytes]]) -> bool:
        """Store vectors by hash, as computed or as `get` returns them, in place of cached ones.

        Skips invalid vectors. Returns False when nothing could be stored.
        """

    def trim(self) -> None:
        """Delete the oldest vectors if the cache is too large."""

    def take_warnings(self) -> list[str]:
        """Return the faults of the cache since the last call."""

    def close(self) -> None:
        """Close every connection."""


class Live(Protocol):
    """The background work that keeps an index up to date, as a search sees it."""

    pending_text: int
    """How many changed files are not indexed yet; a search that compares all files sets it."""

    def watching(self) -> tuple[WatcherState, str]:
        """Return how changes are detected and, if that is not `live`, why; otherwise empty text."""

    def catch_up(self, seconds: float) -> bool:
        """Index the changes reported so far, for at most `seconds`; return whether all of them are indexed now."""

    def notice(self) -> None:
        """Start background work: a comparison found more changes than the search could index itself."""


def active_space(index: Index) -> EmbeddingSpace | None:
    """Return the space that searches of an index use, None if there is none yet."""
    with index.reading() as reader:
        return reader.active_space()
