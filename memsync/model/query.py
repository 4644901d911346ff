"""Queries, and the candidates that retrievers return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from memsync.model.filters import Filters
from memsync.model.note import Entry
from memsync.model.vocabulary import Form, Fresh, JsonValue, Kind, Mode, NotePath, Origin, Tier

BUDGET_HITS = 50
"""Limit of hits of a search with a budget of tokens."""
MAX_HITS = 1_000
MAX_TOKENS = 1_000_000
LATEST_GENERATION = 2**63 - 1
LOCAL_PROVIDERS = frozenset({"minilm", "multilingual", "fastembed"})
"""The providers of models that run on this machine; those of plugins begin with `local:`."""
_COSINE_UNRELATED, _LIKENESS_UNRELATED, _LIKENESS_PER_COSINE = 0.75, 0.06, 5.3


class EmbeddingSpace(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that decides what a vector means. Vectors of different spaces are never compared.

    `dimension` is the number of float32 components; `revision` tells releases of a model apart.
    """

    provider: str
    model: str
    revision: str
    dimension: int
    query_prefix: str = ""
    passage_prefix: str = ""

    @property
    def name(self) -> str:
        """The space as one line; names are equal exactly when the spaces are."""
        parts = [self.provider, self.model, self.revision, str(self.dimension), "unit"]
        if self.query_prefix or self.passage_prefix:
            parts.append(f"{self.query_prefix!r}/{self.passage_prefix!r}")
        return "|".join(parts)

    @property
    def description(self) -> str:
        """The space as JSON text; `described` reads it."""
        import json

        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def described(description: str) -> EmbeddingSpace:
        """Return the space with this description. Raises msgspec.DecodeError."""
        return msgspec.json.decode(description, type=EmbeddingSpace)

    @property
    def is_remote(self) -> bool:
        """Whether the model may run on another machine: text of local-only notes must never be embedded in this space.

        Also true for a server on this machine, because memsync cannot know where that sends the text.
        """
        return self.provider not in LOCAL_PROVIDERS and not self.provider.startswith("local:")

    @property
    def has_narrow_cosines(self) -> bool:
        """Whether `likeness` differs from the cosine: E5 models, known by their prefixes, give cosines over 0.7."""
        return self.passage_prefix == "passage: "

    def likeness(self, cosine: float) -> float:
        """Convert a cosine to the built-in model's scale: about 0 for unrelated texts, 0.5 for a question's answer.

        A hit's score is computed from this and the keyword score. docs/measuring.md has the measured cosines.
        """
        if not self.has_narrow_cosines:
            return cosine
        return _LIKENESS_UNRELATED + (cosine - _COSINE_UNRELATED) * _LIKENESS_PER_COSINE


def names_tag(filter_tag: str, tag: str) -> bool:
    """Tell whether the tag of a filter matches a tag of a note: the same tag or a parent of it, ignoring case."""
    filter_tag, tag = filter_tag.lower(), tag.lower()
    return tag == filter_tag or tag.startswith(f"{filter_tag}/")


def is_between(moment: str, after: str, before: str) -> bool:
    """Tell whether a moment is between two others, inclusive; an empty bound does not limit it.

    All are ISO dates or datetimes, or only a year or a month; a bound compares only as many characters as it has.
    """
    return moment[: len(after)] >= after and (not before or moment[: len(before)] <= before)


class TimeHint(Struct, frozen=True):
    """A time that a question names, in the words of the question.

    It runs from the day `after` to the day `before`, inclusive; empty for no bound.
    """

    words: str
    after: str = ""
    before: str = ""

    def covers(self, moment: str) -> bool:
        """Tell whether a moment, as ISO text, is within this time."""
        return is_between(moment, self.after, self.before)


class EmbeddedQuestion(Struct, frozen=True):
    """The vector of a question: floats of unit length in the embedding space of the name `space`."""

    space: str
    vector: tuple[float, ...]


class SearchRequest(Struct, frozen=True):
    """A search as its caller asks for it; None, or no mode, stands for the setting of the memory that answers.

    `filters` are names and values, besides those in `query`. With `tokens`, hits that exceed this budget are left out.
    `generation` is the state of the index that the answer must include. `question` is a vector of another memory that
    was asked the same: a memory with the same embedding space need not embed the question again. A search that is not
    `counted` does not count as a use of the notes, for example while a person is still typing.
    """

    query: str = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_HITS)] | None = None
    mode: Mode | None = None
    tokens: Annotated[int, Meta(ge=1, le=MAX_TOKENS)] | None = None
    min_score: Annotated[float, Meta(ge=0, le=1)] | None = None
    rerank: bool = False
    fresh: Fresh = Fresh.STRICT
    generation: Annotated[int, Meta(ge=0, le=LATEST_GENERATION)] = 0
    filters: tuple[tuple[str, str], ...] = ()
    question: EmbeddedQuestion | None = None
    counted: bool = True


class Query(Struct, frozen=True):
    """A parsed query.

    `text` is for the embedding model, `words` for the word index, both without the filters. `alternatives` are other
    forms of these words, which raise a score, but whose absence does not lower it. A hit must contain each phrase word
    for word, and no exclusion. Entries dated at one of `times` get a small bonus. `request` is what it was
    parsed from: hits with a score under its `min_score` are left out; if that is None and a model answers, under the
    setting `search.min_score`. With its `rerank` a cross-encoder reads the first hits.
    """

    text: str
    words: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    exclusions: tuple[str, ...] = ()
    filters: Filters = Filters()
    limit: int = 10
    mode: Mode = Mode.HYBRID
    warnings: tuple[str, ...] = ()
    times: tuple[TimeHint, ...] = ()
    request: SearchRequest = SearchRequest()


class Candidate(NamedTuple):
    """One chunk that a retriever returned: its rank (from 1) and its score, higher is better.

    `item` is the number (from 1) of the entry of a group whose words matched, 0 if the whole chunk matched.

    A keyword score is a share of the maximum that the query's words could give; a vector score is a cosine. Both are
    about 0 to 1 for any index and any query, so that fusion can add them.
    """

    chunk_id: int
    rank: int
    score: float
    item: int = 0


class IndexedNote(NamedTuple):
    """A note as the index stores it.

    `date` is from its text or name and may be empty. `last_time` is the latest time of an entry of a daily log or a
    message of a thread, empty without any. `changed_ns` is when a commit gave the note its content, or its mtime.
    """

    path: NotePath
    kind: Kind
    tier: Tier
    title: str
    date: str
    last_time: str
    pinned: bool
    archived: bool
    front_matter: Mapping[str, JsonValue]
    mtime_ns: int
    changed_ns: int


class IndexedChunk(NamedTuple):
    """A chunk as the index stores it, with fields of its note; hits are made from it.

    `note_date` is from the note's text or name and may be empty; `changed_ns` is as in IndexedNote. `identity` is the
    note's size, mtime_ns, ctime_ns and inode when it was indexed. `content_hash` is empty for a heading; `opening` has
    the stems of the first words as numbers. A NamedTuple, because every search makes several hundred.
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
    changed_ns: int
    identity: tuple[int, int, int, int]
    form: str = Form.TEXT
    opening: Sequence[int] = ()
    local_only: bool = False
    origin: str = Origin.OWNER

    @property
    def date(self) -> str:
        """The note's date, otherwise the local time of its last change, as ISO text."""
        return self.note_date or datetime.fromtimestamp(self.changed_ns // 10**9).isoformat(timespec="minutes")
