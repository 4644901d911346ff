"""A question and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from memsync.model.notes import Entry
from memsync.model.sync import Failure
from memsync.model.vocabulary import Kind, Mode, NotePath, Tier


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

    `note_date` is from the note's text or name and may be empty. `identity` is the note's size, mtime_ns, ctime_ns and
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
    note_date: str
    importance: float
    pinned: bool
    identity: tuple[int, int, int, int]

    @property
    def date(self) -> str:
        """The note's date, else its mtime in local time, as ISO text."""
        return self.note_date or datetime.fromtimestamp(self.identity[1] // 10**9).isoformat(timespec="minutes")


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
