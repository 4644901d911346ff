"""The vocabulary: every value that crosses from one room to another.

Lines count from 1 and spans include both ends. Times are ISO 8601 text as the file gives them, without a zone
unless the file names one. A `score` is higher-is-better; a `distance`, lower-is-better, never leaves its backend.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, NamedTuple, NewType

NotePath = NewType("NotePath", str)
"""A note's name: its path relative to the memory root, with forward slashes."""

Scalar = str | int | float | bool | None
JsonValue = Scalar | Sequence["JsonValue"] | Mapping[str, "JsonValue"]


class Kind(StrEnum):
    """What a note is, by its path or its front matter."""

    SOUL = "soul"
    MEMORY = "memory"
    DAILY = "daily"
    THREAD = "thread"
    PROMPT = "prompt"
    NOTE = "note"


class Tier(StrEnum):
    """How long a note matters: `personal` is never pruned, `task` is pruned after a while."""

    PERSONAL = "personal"
    PROJECT = "project"
    TASK = "task"


class Mode(StrEnum):
    """Which retrievers answer a query."""

    HYBRID = "hybrid"
    KEYWORD = "keyword"
    VECTOR = "vector"


# ---------------------------------------------------------------------------------------------- notes


@dataclass(frozen=True, slots=True)
class FileStamp:
    """What `stat` said of a file when it was read, and the SHA-256 of what was read.

    `stamped_ns` is the wall clock at that moment: a file whose mtime is within two seconds of it may have been
    written again in the same clock tick, so its stamp proves nothing and it is read again.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    digest: bytes
    stamped_ns: int

    @property
    def identity(self) -> tuple[int, int, int, int]:
        """The part that `stat` can compare without reading."""
        return (self.size, self.mtime_ns, self.ctime_ns, self.inode)


@dataclass(frozen=True, slots=True)
class Section:
    """The text under one heading; lines `start_line`..`end_line` of the file, the heading line included.

    `heading_path` runs from the outermost heading to this one and is empty above the first heading. `role` and
    `time` are set in a message of a thread, `time` also in a timed section of a daily log.
    """

    heading_path: tuple[str, ...]
    start_line: int
    end_line: int
    role: str = ""
    time: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Link:
    """A wiki link (`[[target#anchor|label]]`) or a Markdown link, on its line."""

    target: str
    anchor: str
    label: str
    line: int
    wiki: bool


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag without its `#`. Line 0 means that it tags the whole note, else the entry that stands on that line."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Block:
    """A run of lines that chunking keeps whole if it fits: a paragraph, fence, table row, list item or quote.

    `children` are the smaller blocks it is cut into when it does not fit. `entry` marks what a reader takes as one
    small thing of its own (a list item): neighbouring entries are retrieved together, in overlapping windows.
    `time` is set on a timed entry of a daily log.
    """

    start_line: int
    end_line: int
    entry: bool = False
    children: tuple[Block, ...] = ()
    time: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Note:
    """One parsed file.

    `lines` are the file's lines without their ends; `sections` cover every line of the body; `blocks[i]` are the
    blocks of `sections[i]`. `cuts` maps a line to the column at which its attribute braces begin, which are metadata
    and not text. `head_lines` counts the lines of the front matter, fences included; `head_is_text` says that they
    are to be searched like the body.
    """

    path: NotePath
    title: str
    kind: Kind
    tier: Tier
    lines: tuple[str, ...]
    sections: tuple[Section, ...]
    blocks: tuple[tuple[Block, ...], ...]
    front_matter: Mapping[str, JsonValue]
    head_lines: int = 0
    head_is_text: bool = False
    cuts: Mapping[int, int] = field(default_factory=dict)
    tags: tuple[Tag, ...] = ()
    links: tuple[Link, ...] = ()
    aliases: tuple[str, ...] = ()
    date: str = ""
    session: str = ""
    importance: float = 0.5
    pinned: bool = False
    archived: bool = False
    warnings: tuple[str, ...] = ()


class Entry(NamedTuple):
    """A part of a section that a hit is made of: one small list item, or a run of larger blocks that fits one chunk.

    `position` counts the section's entries from 0; `window_count` says how many windows (chunks of several entries)
    hold it, 0 for an entry that is found only by itself. `token_count` is in word pieces of the built-in model. `tags`
    are its own, its section's and the note's.
    """

    start_line: int
    end_line: int
    position: int
    window_count: int
    token_count: int
    time: str = ""
    attributes: Mapping[str, str] = MappingProxyType({})
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A contiguous line span of one section or message: what is retrieved.

    `text` is the passage, which is embedded: the span's words without attributes, link targets and URLs. `words` is
    what the word index gets: the same with link targets and URLs. `entries` cover the span; a chunk of several is a
    window, and each of its entries also has a chunk of its own. `start_column` and
    `end_column` (from 0, end exclusive) are set only where one line is too long for a chunk and had to be cut; they
    are both 0 otherwise.
    """

    ordinal: int
    section: int
    start_line: int
    end_line: int
    text: str
    words: str
    heading_path: tuple[str, ...] = ()
    role: str = ""
    entries: tuple[Entry, ...] = ()
    start_column: int = 0
    end_column: int = 0

    @property
    def content_hash(self) -> bytes:
        """SHA-256 of the passage: what a vector is kept under."""
        return hashlib.sha256(self.text.encode()).digest()


# ----------------------------------------------------------------------------------------------- sync


class ChangeType(StrEnum):
    """What happened to a file since it was last indexed."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Change:
    """One file to index again or to forget."""

    type: ChangeType
    path: NotePath


@dataclass(frozen=True, slots=True)
class Failure:
    """A path that could not be handled, and why; the note's last indexed state stays as it was."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What one sync did. `failed` is empty when the index equals the files."""

    added: int = 0
    changed: int = 0
    deleted: int = 0
    unchanged: int = 0
    vectors_computed: int = 0
    vectors_reused: int = 0
    vectors_pending: int = 0
    failed: tuple[Failure, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0


class IndexedFile(NamedTuple):
    """An indexed note's stamp, and what parsed it: parser version and the settings that parsing depends on.

    A plain tuple, because every search compares all of them with the files.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    digest: bytes
    stamped_ns: int
    parsed_by: str


@dataclass(frozen=True, slots=True)
class PendingPassage:
    """A passage that waits for its vector, and a note that holds it.

    Its text waits with it after its note was indexed; None means that it is to be read from the note again, as when a
    new space is built. Once embedded, a text stands in its file only.
    """

    passage_id: int
    content_hash: bytes
    path: NotePath
    text: str | None


@dataclass(frozen=True, slots=True)
class PutResult:
    """What storing one note meant for vectors: passages queued for one, and passages that had one in the cache."""

    queued: int
    reused: int


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """What an index holds; `vectors` and `pending` are of the active space, sizes in bytes."""

    notes: int
    chunks: int
    passages: int
    vectors: int
    pending: int
    active_space: str
    building_space: str
    building_pending: int
    index_bytes: int


# --------------------------------------------------------------------------------------------- search


@dataclass(frozen=True, slots=True)
class EmbeddingSpace:
    """Everything that decides what a vector means. Vectors of two spaces are never compared.

    `dimension` is the number of float32 components; `revision` tells two releases of one model apart.
    """

    provider: str
    model: str
    revision: str
    dimension: int
    query_prefix: str = ""
    passage_prefix: str = ""

    @property
    def name(self) -> str:
        """One line that is equal exactly when the spaces are."""
        parts = [self.provider, self.model, self.revision, str(self.dimension), "unit"]
        if self.query_prefix or self.passage_prefix:
            parts.append(f"{self.query_prefix!r}/{self.passage_prefix!r}")
        return "|".join(parts)


@dataclass(frozen=True, slots=True)
class Filters:
    """What narrows a search inside each retriever. Empty means no narrowing; several values of one filter are OR.

    `folders` end in a slash. `after` and `before` are ISO dates or datetimes, both inclusive of the day they name.
    `where` pairs are compared as text against chunk attributes and front matter. `archived` asks for retired notes too.
    """

    kinds: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    path_globs: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    after: str = ""
    before: str = ""
    where: tuple[tuple[str, str], ...] = ()
    archived: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """What a person asked, understood.

    `text` is what the model embeds, `words` what the word index looks up, both without the filters. Each phrase must
    stand in a hit word for word; no exclusion may.
    """

    text: str
    words: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    exclusions: tuple[str, ...] = ()
    filters: Filters = Filters()
    limit: int = 10
    mode: Mode = Mode.HYBRID
    warnings: tuple[str, ...] = ()


class Candidate(NamedTuple):
    """One chunk that one retriever gave: its rank (from 1) and its score, higher is better.

    A keyword score is the share of what the query's words could give at most, a vector score a cosine; both are about
    0 to 1 for any index and any query, which is what lets fusion add them.
    """

    chunk_id: int
    rank: int
    score: float


class IndexedChunk(NamedTuple):
    """A chunk as the index knows it, with what its note says; what a hit is made of.

    `date` is the note's: from its text or name, else its mtime. `identity` is the note's size, mtime_ns, ctime_ns and
    inode when it was indexed. A plain tuple, because every search makes some hundreds.
    """

    chunk_id: int
    path: NotePath
    section: int
    start_line: int
    end_line: int
    start_column: int
    end_column: int
    content_hash: bytes
    heading_path: Sequence[str]
    role: str
    entries: Sequence[Entry]
    kind: str
    tier: str
    title: str
    date: str
    importance: float
    pinned: bool
    identity: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Rank:
    """Where one retriever placed a hit, with its raw score for explanation."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer: lines `start_line`..`end_line` of `path`, as they stood in the file when it was returned.

    `score` runs from 0 to 1. `ranks` has an entry for each retriever that found it (`keyword`, `vector`). `text`
    quotes the file; `snippet` is the part around the matched words. `highlights` are (start, end) offsets into it.
    """

    path: NotePath
    start_line: int
    end_line: int
    heading_path: tuple[str, ...]
    kind: Kind
    tier: Tier
    title: str
    date: str
    role: str
    tags: tuple[str, ...]
    text: str
    snippet: str
    highlights: tuple[tuple[int, int], ...]
    score: float
    ranks: Mapping[str, Rank]

    @property
    def citation(self) -> str:
        """`path:line` or `path:first-last`."""
        if self.start_line == self.end_line:
            return f"{self.path}:{self.start_line}"
        return f"{self.path}:{self.start_line}-{self.end_line}"


@dataclass(frozen=True, slots=True)
class Freshness:
    """How far the answer can be trusted to be about the files as they are now.

    `scanned_at`: when the files were last compared with the index (ISO 8601, UTC). `pending_text`: changed files not
    indexed yet; `pending_vectors`: passages searchable by word but not yet by meaning. `watcher`: who keeps the index
    live (`none` in-process: every search scans for itself).
    """

    scanned_at: str
    pending_text: int
    pending_vectors: int
    watcher: Literal["none", "live", "polling", "degraded"] = "none"

    @property
    def stale(self) -> bool:
        """True when a changed file's text is missing from the answer."""
        return self.pending_text > 0


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits, the mode that was really used, how fresh they are, and what the caller should know.

    `timings` gives the milliseconds of each stage, `filters` the filters as understood; both are for `--explain`.
    """

    hits: tuple[Hit, ...]
    mode: Mode
    freshness: Freshness
    warnings: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    filters: Filters = Filters()


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of one note, as `get` returns them: `text` quotes `start_line`..`end_line` of `line_count` lines."""

    path: NotePath
    start_line: int
    end_line: int
    line_count: int
    text: str


@dataclass(frozen=True, slots=True)
class Status:
    """What the index holds. Sizes in bytes; `space` names the embedding space that answers searches now."""

    root: str
    index_path: str
    notes: int
    chunks: int
    passages: int
    vectors: int
    pending_vectors: int
    space: str
    building_space: str
    building_pending: int
    index_bytes: int
    last_sync: str
    warnings: tuple[Failure, ...] = ()
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """The first line at which two canonical dumps differ: the index's and the one rebuilt beside it."""

    line: int
    indexed: str
    rebuilt: str
