"""What is retired, what repeats itself, what nobody asks for, and how a memory is used."""

from __future__ import annotations

from dataclasses import dataclass

from memsync.model.status import Failure
from memsync.model.vocabulary import Kind, NotePath, Tier


@dataclass(frozen=True, slots=True)
class Retirement:
    """A note that is due to leave for `target`, in archive/, and why; `last_active` is the day it counts from."""

    path: NotePath
    target: NotePath
    last_active: str
    reason: str


@dataclass(frozen=True, slots=True)
class Pruning:
    """What one prune moves or would move, of `notes` notes in all; `failed` stayed where it was.

    `is_refused` says that these are more than a tenth of the notes, which only `force` moves. `moved` are the
    retirements in effect: all that did not fail, and none of them when nothing was to be applied.
    """

    due: tuple[Retirement, ...]
    moved: tuple[Retirement, ...]
    notes: int
    is_refused: bool = False
    failed: tuple[Failure, ...] = ()
    warnings: tuple[str, ...] = ()
    pending_text: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Lines of a note."""

    path: NotePath
    start_line: int
    end_line: int

    @property
    def citation(self) -> str:
        """`path:line` or `path:first-last`."""
        lines = f"{self.start_line}-{self.end_line}" if self.end_line != self.start_line else f"{self.start_line}"
        return f"{self.path}:{lines}"


@dataclass(frozen=True, slots=True)
class Repetition:
    """Passages of several notes that say the same, or nearly; `text` quotes the first place.

    `score` is their cosine, 1 for what differs in links, attributes or nothing; with `is_equal` every
    character is the same.
    """

    score: float
    places: tuple[Place, ...]
    text: str
    is_equal: bool = False


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Repetitions, those of the highest score first, then by path.

    Passages that wait for their vector were compared by their text alone, and so were the shortest `left_out`, where
    there are more than are compared with each other.
    """

    repetitions: tuple[Repetition, ...]
    pending_text: int = 0
    pending_vectors: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class NoteUse:
    """How often a note was in an answer or was read, and when last (ISO 8601, UTC; empty: never)."""

    path: NotePath
    retrieved: int = 0
    last_retrieved: str = ""
    last_active: str = ""


@dataclass(frozen=True, slots=True)
class Stale:
    """Notes that are old and that nobody asked for, the oldest first. `counted_since`: when counting began."""

    notes: tuple[NoteUse, ...]
    counted_since: str
    warnings: tuple[str, ...] = ()
    pending_text: int = 0


@dataclass(frozen=True, slots=True)
class NoteAbout:
    """A note by its path, and what its head and its place say of it."""

    path: NotePath
    title: str
    kind: Kind
    tier: Tier
    last_active: str
    pinned: bool
    archived: bool


@dataclass(frozen=True, slots=True)
class Notes:
    """Notes, by path."""

    notes: tuple[NoteAbout, ...]
    pending_text: int = 0


@dataclass(frozen=True, slots=True)
class Collection:
    """A folder of notes, with what its own README.md says in its front matter. `last_active` is of its latest note."""

    folder: str
    title: str
    description: str
    notes: int
    last_active: str


@dataclass(frozen=True, slots=True)
class Collections:
    """The folders that hold notes, by name."""

    collections: tuple[Collection, ...]
    pending_text: int = 0


@dataclass(frozen=True, slots=True)
class Growth:
    """What the index held on a day. Sizes in bytes."""

    day: str
    notes: int
    passages: int
    index_bytes: int


@dataclass(frozen=True, slots=True)
class AskedQuery:
    """A question that was asked; kept only where the settings say so."""

    at: str
    text: str
    hits: int


@dataclass(frozen=True, slots=True)
class Stats:
    """How a memory was used since `since` (ISO 8601, UTC): searches and their latency in milliseconds.

    `most_retrieved` counts since counting began (`counted_since`); `never_retrieved` are the first of `never_count`.
    """

    since: str
    counted_since: str
    searches: int
    empty: int
    p50_ms: float
    p95_ms: float
    most_retrieved: tuple[NoteUse, ...]
    never_retrieved: tuple[NoteUse, ...]
    never_count: int
    growth: tuple[Growth, ...]
    queries: tuple[AskedQuery, ...] = ()
    warnings: tuple[str, ...] = ()
    pending_text: int = 0
