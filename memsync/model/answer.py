"""What a caller gets back: hits and how fresh they are, or lines of a note.

Tuples with names, because a served search makes these classes: dataclasses would add a fifth to what it loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from memsync.model.vocabulary import Kind, Mode, NotePath, Tier, WatcherState

if TYPE_CHECKING:
    from memsync.model.search import Filters, TimeHint


class Rank(NamedTuple):
    """Where one retriever placed a hit, with its raw score for explanation."""

    rank: int
    score: float


class Hit(NamedTuple):
    """One answer: lines `start_line`..`end_line` of `path`, as they stood in the file when it was returned.

    `score` runs from 0 to 1. `ranks` has an entry for each retriever that found it (`keyword`, `vector`), and for the
    cross-encoder that read it (`rerank`, its score from 0 to 1). `text` quotes the file; `snippet` is the part around
    the matched words. `highlights` are (start, end) offsets into it. `parts` are those of the sum that hits are ordered
    by (docs/search.md).
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
    parts: Mapping[str, float] = MappingProxyType({})

    @property
    def citation(self) -> str:
        """`path:line` or `path:first-last`."""
        if self.start_line == self.end_line:
            return f"{self.path}:{self.start_line}"
        return f"{self.path}:{self.start_line}-{self.end_line}"


class Freshness(NamedTuple):
    """How far the answer can be trusted to be about the files as they are now.

    `scanned_at`: when the files were last compared with the index (ISO 8601, UTC). `pending_text`: changed files not
    indexed yet; `pending_vectors`: passages searchable by word but not yet by meaning. `generation` numbers the state
    of the index that answered. `watcher`: what keeps the index live (`none` in-process: every search compares for
    itself); `reason`: why that is not `live`, or else empty.
    """

    scanned_at: str
    pending_text: int
    pending_vectors: int
    watcher: WatcherState = WatcherState.NONE
    reason: str = ""
    generation: int = 0

    @property
    def stale(self) -> bool:
        """True when a changed file's text is missing from the answer."""
        return self.pending_text > 0


class SearchResult(NamedTuple):
    """The hits, the mode that was really used, how fresh they are, and what the caller should know.

    `timings` gives the milliseconds of each stage, `filters` the filters as understood, `times` those that the question
    names in passing: all are for `--explain`.
    """

    hits: tuple[Hit, ...]
    mode: Mode
    freshness: Freshness
    warnings: tuple[str, ...] = ()
    timings: Mapping[str, float] = MappingProxyType({})
    filters: Filters | None = None
    times: tuple[TimeHint, ...] = ()


class Excerpt(NamedTuple):
    """Lines of one note, as `get` returns them: `text` quotes `start_line`..`end_line` of `line_count` lines."""

    path: NotePath
    start_line: int
    end_line: int
    line_count: int
    text: str
