"""Answers: hits and how fresh they are, or lines of a note."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from memsync.model.commits import SHORT, cited_at
from memsync.model.filters import Filters
from memsync.model.query import TimeHint
from memsync.model.vocabulary import Kind, Mode, NotePath, Origin, Tier, WatcherState, citation, in_root

SUPERSEDED_BY = "superseded by "
"""Precedes a citation in the validity of a text."""
IN_PART = "line "
"""How the validity of a text begins of which only a line does not hold."""


class Rank(Struct, frozen=True):
    """The rank (from 1) that one retriever gave a hit, and its raw score."""

    rank: int
    score: float


def holds(validity: str) -> bool:
    """Tell from the words about its validity whether a text holds, maybe without one of its lines."""
    return not validity or validity.startswith(IN_PART)


class Hit(Struct, frozen=True):
    """One hit: lines `start_line`..`end_line` of `path`, as they were in the file when it was returned.

    `date` is what the text, its note or the note's name says. If none of them says one, it is empty, and `changed`
    is when the note was last changed: the time of its commit, or its mtime. `score` is from 0 to 1; the hits of a
    query of filters alone have none, which is 0 here and absent in JSON. `also` has the citations of equal
    passages, which are no hits of their own. `ranks` has an entry for each retriever that found it (`keyword`,
    `vector`), and for the cross-encoder if it read it (`rerank`, its score from 0 to 1). `text` quotes the file;
    `snippet` is the part around the matched words; `highlights` are (start, end) offsets into the snippet. `parts`
    are the summands of the score that hits are ordered by (docs/search.md). `root` is the name of the registered
    memory that it is from, empty in the answer of one memory. `verified` is false if the text is from a database
    and was not compared with the file. `local_only` tells that its note must not leave this machine. `origin` is
    who wrote it: of Origin, an agent by its name (`agent:codex`). `validity` says why the text does not hold now
    (`superseded by decisions/x.md:12`, `valid until 2026-05-01`); empty if nothing says so. `differs` has the
    citations of statements among the first passages found that contradict one of its own. In a thread, `text` is
    what a message says, without the heading, and `id` and `attributes` are those of the message. `at` begins the
    name of the commit whose file it quotes; empty for the file as it is now.
    """

    computed: ClassVar = ("citation",)
    optional: ClassVar = (
        "root", "verified", "score", "also", "local_only", "validity", "differs", "id", "attributes", "at", "changed"
    )  # fmt: skip

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
    score: float = 0.0
    ranks: Mapping[str, Rank] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    root: str = ""
    verified: bool = True
    also: tuple[str, ...] = ()
    local_only: bool = False
    origin: str = Origin.OWNER
    validity: str = ""
    differs: tuple[str, ...] = ()
    id: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    at: str = ""
    changed: str = ""

    @property
    def holds(self) -> bool:
        """Whether the text holds now, as far as the notes say; one of its lines may not."""
        return holds(self.validity)

    @property
    def citation(self) -> str:
        """`path:line` or `path:first-last`; `NAME:path:line` in a registered memory, `path@commit:line` in a commit."""
        return in_root(self.root, cited_at(citation(self.path, self.start_line, self.end_line), self.at))

    def with_citations(self, changed: Callable[[str], str]) -> Hit:
        """Return this hit with each citation of another place changed."""
        also, differs = (tuple(map(changed, places)) for places in (self.also, self.differs))
        before, by, place = self.validity.partition(SUPERSEDED_BY)
        return replace(self, also=also, differs=differs, validity=f"{before}{by}{changed(place)}" if by else before)


class Freshness(Struct, frozen=True):
    """How current an answer is.

    `scanned_at`: when the files were last compared with the index (ISO 8601, UTC). `pending_text`: changed files not
    indexed yet. `pending_vectors`: passages searchable by word but not yet by meaning. `generation` numbers the state
    of the index that answered. `watcher`: what keeps the index current (`none` without a daemon: every search compares
    the files itself). `reason`: why `watcher` is not `live`, otherwise empty.
    """

    computed: ClassVar = ("stale",)

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


class Explanation(Struct, frozen=True):
    """How an answer came about: the parsed filters, the times that the question names, milliseconds of each stage."""

    filters: Filters
    times: tuple[TimeHint, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)


class RootAnswer(Struct, frozen=True):
    """What one memory contributed to an answer of several.

    `hits`: how many of the answer's hits are from it. `model`: the embedding space that it searched, empty if it
    searched by words alone. `error`: why it gave no answer, otherwise empty.
    """

    name: str
    hits: int
    milliseconds: float
    model: str = ""
    error: str = ""


class SearchResult(Struct, frozen=True):
    """The hits, the mode that was actually used, how fresh the answer is, and warnings for the caller.

    `model` is the embedding space that the scores are from, empty if the search was by words alone or if several
    memories use different ones. `roots` has an entry for each memory of an answer of several, and is empty otherwise.
    `verified` is false if a memory answered from a database without its files. `not_shared` counts the local-only notes
    that were not searched, because others can read the index. `at` is the commit that was searched, and `at_time` when
    it was made; empty if the files were searched as they are now. `also_searched` are words of the notes that were
    searched in place of words that no note has, such as `receive` for `recieve`.
    """

    optional: ClassVar = ("roots", "verified", "not_shared", "at", "at_time", "also_searched")

    hits: tuple[Hit, ...]
    mode: Mode
    freshness: Freshness
    warnings: tuple[str, ...] = ()
    explain: Explanation = Explanation(Filters())
    model: str = ""
    roots: tuple[RootAnswer, ...] = ()
    verified: bool = True
    not_shared: int = 0
    at: str = ""
    at_time: str = ""
    also_searched: tuple[str, ...] = ()

    @property
    def found_where(self) -> str:
        """What an answer without hits says after "nothing found": whether all files were searched."""
        if self.freshness.stale:
            return " in the files that were searched"
        if not self.verified:
            return "; not all answers are from files"
        if self.at:
            return f"; the notes were searched as they were in {self.at[:SHORT]}"
        return "; the files were searched as they are now" + ", except the local-only ones" * bool(self.not_shared)


class Excerpt(Struct, frozen=True):
    """Lines of one note, as `get` returns them: `text` quotes `start_line`..`end_line` of `line_count` lines.

    `root` is the name of the registered memory that it is from, empty in the answer of one memory. `verified` is false
    if the text is from a database and was not compared with the file. `at` begins the name of the commit that it is
    from; empty for the file as it is now.
    """

    optional: ClassVar = ("root", "verified", "warnings", "at")

    path: NotePath
    start_line: int
    end_line: int
    line_count: int
    text: str
    root: str = ""
    verified: bool = True
    warnings: tuple[str, ...] = ()
    at: str = ""
