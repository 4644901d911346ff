"""The seams: what the core asks of an embedder, an index and an API, without naming any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from memsync.errors import EmbedderError
from memsync.model.conversation import Cost, Thread, ThreadMessage
from memsync.model.note import Chunk, FileStamp, Note
from memsync.model.query import Candidate, EmbeddingSpace, IndexedChunk, IndexedNote, Query
from memsync.model.status import IndexCounts, IndexedFile, PendingPassage, PutResult, WaitingNote
from memsync.model.upkeep import Place
from memsync.model.vocabulary import NotePath, WatcherState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
    """One unit-length vector; shape (space.dimension,)."""

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many are done and how many there are in all.

With none in all it is an announcement: a sentence about what comes next, to be shown as a line of its own.
"""


def no_progress(what: str, done: int, total: int) -> None:
    """Report nothing."""


class Clock(Protocol):
    """What time it is, and how to let it pass: seconds that never go back, and the wall clock as files are stamped."""

    def monotonic(self) -> float: ...  # noqa: D102 (because the class says it)

    def time_ns(self) -> int: ...  # noqa: D102 (because: as above)

    def sleep(self, seconds: float) -> None: ...  # noqa: D102 (because: as above)


class TokenCounter(Protocol):
    """Counts what a text costs a model to read."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of word pieces of each text, special tokens not counted."""
        ...


class Embedder(Protocol):
    """Text -> vectors of one embedding space. Safe to call from several threads."""

    @property
    def space(self) -> EmbeddingSpace:
        """The space that all its vectors lie in."""
        ...

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Vector]:
        """Return one unit-length float32 vector per text, in the same order, each of shape (space.dimension,).

        A text's vector depends on that text alone, not on its neighbours in the call. `pause` is called before each
        step: it may wait, or raise to end the work. Raises EmbedderError.
        """
        ...

    def embed_query(self, text: str) -> Vector:
        """Return one unit-length float32 vector for a question. Raises EmbedderError."""
        ...

    def unload(self) -> None:
        """Give back the model's memory; the next text loads it again."""
        ...

    def close(self) -> None:
        """Give back everything for good; what another thread asks of it after that may raise EmbedderError."""
        ...


class Reranker(Protocol):
    """Reads a question together with each text, which takes longer than comparing vectors. Safe for several threads."""

    def relevance(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return how relevant each text is to a question, in the same order: from 0 to 1, the logistic of a logit.

        A text's relevance depends on question and text alone. What exceeds the model's window is not read. Raises
        EmbedderError, UnknownModel.
        """
        ...

    def unload(self) -> None:
        """Give back the model's memory; the next question loads it again."""
        ...

    def close(self) -> None:
        """Give back everything for good; what another thread asks of it after that may raise EmbedderError."""
        ...


class IndexReader(Protocol):
    """One consistent view of the index; every method sees the same state."""

    def generation(self) -> int:
        """Return a number that grows with every committed write."""
        ...

    def notes_generation(self) -> int:
        """Return the generation of the last write that was not about vectors alone."""
        ...

    def stamps(self) -> Mapping[NotePath, IndexedFile]:
        """Return every indexed note with the stamp it was read under."""
        ...

    def keyword_candidates(self, query: Query, limit: int) -> list[Candidate]:
        """Return what holds the query's words, chunks and entries of groups, best first; filters narrow inside."""
        ...

    def word_weights(self, words: Sequence[str]) -> dict[str, float]:
        """Return the idf of each word: how much it tells."""
        ...

    def entries_allowed(self, query: Query, chunk_ids: Sequence[int]) -> set[tuple[int, int]] | None:
        """Return (chunk id, number from 1) of the entries of groups that hold every phrase and nothing excluded.

        None when the query has neither: all are allowed.
        """
        ...

    def vector_candidates(self, query: Query, vector: Vector, limit: int) -> list[Candidate]:
        """Return the chunks nearest to `vector` in the active space, best first; scores are cosines."""
        ...

    def latest_candidates(self, query: Query, limit: int) -> list[Candidate]:
        """Return the chunks that the filters leave, latest first."""
        ...

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, IndexedChunk]:
        """Return the chunks with these ids; an id that is gone is left out."""
        ...

    def active_space(self) -> EmbeddingSpace | None:
        """Return the space that answers searches, or None before the first vector."""
        ...

    def pending(self, space: EmbeddingSpace) -> int:
        """Return how many passages wait for their vector in `space`."""
        ...

    def waiting_notes(self, space: EmbeddingSpace) -> list[WaitingNote]:
        """Return the notes that have passages without a vector in `space`, in no order.

        A passage that stands in several notes comes with each of them.
        """
        ...

    def pending_passages(self, space: EmbeddingSpace, passages: Sequence[int]) -> list[PendingPassage]:
        """Return those of some passages, given by id, that wait for their vector in `space`, in the order given."""
        ...

    def pending_hashes(self, space: EmbeddingSpace, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return (id, content hash) of passages that wait for their vector and have a higher id than `after`, by id."""
        ...

    def spaces(self) -> list[EmbeddingSpace]:
        """Return every space that the index has vectors of, those included that answer no search any more."""
        ...

    def vectors(self, space: EmbeddingSpace, after: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Return (content hash, float16 vector) of a space, by hash: those with a higher hash than `after`."""
        ...

    def counts(self) -> IndexCounts:
        """Return what the index holds."""
        ...

    def notes(self) -> list[IndexedNote]:
        """Return every note, by path."""
        ...

    def repetitions(
        self, least_score: float, least_tokens: int, most: int, most_compared: int, progress: Progress
    ) -> tuple[list[tuple[float, Sequence[Place]]], int]:
        """Return what stands in several notes, equal (score 1) or of a cosine of `least_score` or more.

        Passages of fewer than `least_tokens` word pieces and archived notes are left out; the `most` nearest pairs are
        looked at, among the `most_compared` longest passages. How many others there are is returned too: they are
        found only if they are equal. The surest come first, places by path. `progress` may raise to end the work.
        """
        ...

    def notes_where(self, key: str, value: str) -> list[NotePath]:
        """Return the notes that have a chunk with this attribute or this front matter, in order."""
        ...

    def threads(self, path: NotePath | None = None) -> list[Thread]:
        """Return every thread, or one, by path."""
        ...

    def messages(self, role: str, session: str = "") -> list[ThreadMessage]:
        """Return the messages of a role (`agent` is every agent's), without their text, the newest first."""
        ...

    def costs(self, by: str, since: str) -> list[Cost]:
        """Return what was used since a moment, by `session`, `model`, `agent` or `day`. Raises UsageError."""
        ...

    def history(self) -> Mapping[NotePath, tuple[bytes, int]]:
        """Return when commits last changed the notes of HEAD's tree, as `put_history` was given it."""
        ...

    def committed_notes(self) -> int:
        """Return how many notes have their date from a commit."""
        ...

    def warnings(self) -> list[tuple[str, str]]:
        """Return (path, warning) of every note that was not understood in full."""
        ...

    def meta(self, key: str) -> str:
        """Return a value stored with `set_meta`, or an empty string."""
        ...

    def dump(self) -> Iterator[str]:
        """Yield the canonical dump: equal for equal (files, HEAD, settings, model), whatever happened in between."""
        ...

    def dump_word(self, line: str) -> list[str]:
        """Return the places that a line of the dump sums up, each with its note; empty where it sums up nothing."""
        ...


class PreparedNote(Protocol):
    """A note as one kind of index stores it, made without the index itself: plain values that can be pickled."""

    @property
    def path(self) -> NotePath:
        """The note's path."""
        ...

    @property
    def chunk_count(self) -> int:
        """How many chunks the note has."""
        ...


class IndexWriter(IndexReader, Protocol):
    """One write transaction: all of it is committed when its context ends, or none."""

    def put_note(
        self, note: PreparedNote, stamp: FileStamp, parsed_by: str, pause: Callable[[], None] = lambda: None
    ) -> PutResult:
        """Replace all rows of a note and its stamp. Passages that are new get a cached vector or are queued for one.

        `pause` is called before each step and may raise to end the work, and the transaction with it.
        """
        ...

    def put_stamp(self, path: NotePath, stamp: FileStamp) -> None:
        """Replace the stamp alone: the file was touched and reads the same."""
        ...

    def put_history(self, notes: Mapping[NotePath, tuple[bytes, int]]) -> None:
        """Replace when commits last changed the notes of HEAD's tree: each blob's name, and seconds since 1970.

        A note whose content has that name is dated so; no other row of it changes.
        """
        ...

    def delete_note(self, path: NotePath, pause: Callable[[], None] = lambda: None) -> None:
        """Forget a note; `pause` as above. Its vectors stay in the cache."""
        ...

    def prepare_space(self, space: EmbeddingSpace) -> int:
        """Make sure that `space` is built: active if it is the first, else beside the active one.

        Returns how many passages got a cached vector.
        """
        ...

    def put_vectors(
        self, space: EmbeddingSpace, vectors: Sequence[tuple[PendingPassage, Vector]]
    ) -> list[EmbedderError]:
        """Store computed vectors and take their passages off the queue.

        Returns what is wrong with those that cannot be used (NaN, zero, wrong dimension); their passages stay queued.
        """
        ...

    def put_known_vectors(self, space: EmbeddingSpace, vectors: Sequence[tuple[int, bytes, bytes]]) -> int:
        """Store vectors that were computed before, each with its passage's id and hash; return how many were wanted.

        They are float16 as `VectorCache.get` gives them. A passage that has gone meanwhile gets none.
        """
        ...

    def activate_complete_space(self, space: EmbeddingSpace) -> bool:
        """Let `space` answer searches if nothing is pending in it; return whether it is active now."""
        ...

    def set_meta(self, key: str, value: str, *, quiet: bool = False) -> None:
        """Store a small value of the caller's under a name.

        If `quiet`, alone in its transaction: no generation changes, since no reader keeps what it is about.
        """
        ...

    def set_last_sync(self, moment: str) -> None:
        """Remember when the files were last compared with the index; a transaction of its own."""
        ...


class Index(Protocol):
    """A place that holds notes, chunks and vectors; safe for many readers and one writer at a time."""

    def reading(self) -> AbstractContextManager[IndexReader]:
        """Return a consistent view. Raises IndexFailure when the index cannot be read."""
        ...

    def writing(self) -> AbstractContextManager[IndexWriter]:
        """Begin a write transaction once no other is open. Raises IndexBusy, IndexFailure, FilesystemError."""
        ...

    def check(self, *, is_quick: bool = False) -> None:
        """Read all of the index and compare its tables with each other; if `is_quick`, only count their rows.

        Raises IndexDamaged, having begun it anew.
        """
        ...

    def prepare(self, note: Note, chunks: Sequence[Chunk]) -> PreparedNote:
        """Return what `put_note` is to be given; needs no transaction."""
        ...

    def take_damage(self) -> str:
        """Return what damage was found, and what was done about it, since this was last asked; empty without any."""
        ...

    def take_warnings(self) -> list[str]:
        """Return what had to be done to open the index (set a damaged one aside, say) since this was last asked."""
        ...

    def compact(self, *, bulk: bool) -> None:
        """Give back the space of what was deleted, where that is worth its while; after a bulk load also tidy up."""
        ...

    def beside(self, *, keep_vectors: bool) -> Index:
        """Return a new, empty index next to this one, with a copy of the vector cache if it is kept."""
        ...

    def take_over(self, other: Index) -> None:
        """Become `other`, an index made by `beside`, in one step; `other` is closed."""
        ...

    def discard(self) -> None:
        """Close an index made by `beside` and remove it."""
        ...

    def close(self) -> None:
        """Close every connection."""
        ...


class VectorCache(Protocol):
    """Vectors of all of a user's memory roots, by space and content hash. No method raises for a fault of the cache."""

    def identity(self) -> str:
        """Return what tells this cache from one that takes its place; empty while it cannot be used."""
        ...

    def get(self, space: EmbeddingSpace, hashes: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Return the vectors that are known of these hashes, as little-endian float16 of unit length."""
        ...

    def put(
        self, space: EmbeddingSpace, vectors: Sequence[tuple[bytes, Vector | bytes]], *, replace: bool = False
    ) -> bool:
        """Store vectors by hash, as computed or as `get` gives them; those that are there stay, unless `replace`.

        What is no vector is left out. Returns False when nothing could be stored.
        """
        ...

    def trim(self) -> None:
        """Forget the vectors that were used longest ago where they have become too many."""
        ...

    def take_warnings(self) -> list[str]:
        """Return what was wrong with the cache since this was last asked."""
        ...

    def close(self) -> None:
        """Close every connection."""
        ...


class Live(Protocol):
    """What keeps an index live in the background, as a search sees it."""

    pending_text: int
    """Changed files that are known not to be indexed; a search that compares all files sets it."""

    def watching(self) -> tuple[WatcherState, str]:
        """Return how changes are learned of, and why that is not `live`, or else empty text."""
        ...

    def catch_up(self, seconds: float) -> bool:
        """Index what was reported up to now, for at most so long; return whether all of it is in the index now."""
        ...

    def notice(self) -> None:
        """Be told that a comparison found more than a search could index itself."""
        ...
