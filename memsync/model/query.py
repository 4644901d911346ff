"""A question, and what the retrievers find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from memsync.model.note import Entry
from memsync.model.vocabulary import Form, JsonValue, Kind, Mode, NotePath, Tier

_COSINE_UNRELATED, _LIKENESS_UNRELATED, _LIKENESS_PER_COSINE = 0.75, 0.06, 5.3


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

    @property
    def has_narrow_cosines(self) -> bool:
        """Whether `likeness` differs from the cosine: those of E5 models, known by their prefixes, lie above 0.7."""
        return self.passage_prefix == "passage: "

    def likeness(self, cosine: float) -> float:
        """Return a cosine on the built-in model's scale: about 0 for unrelated texts, 0.5 for a question's answer.

        Keyword scores are added to it, and a hit's score is made of it. docs/benchmarks.md has the cosines measured.
        """
        if not self.has_narrow_cosines:
            return cosine
        return _LIKENESS_UNRELATED + (cosine - _COSINE_UNRELATED) * _LIKENESS_PER_COSINE


def names_tag(wanted: str, tag: str) -> bool:
    """Tell whether a filter's tag names one of a note: the same one, or one above it, in upper or lower case."""
    wanted, tag = wanted.lower(), tag.lower()
    return tag == wanted or tag.startswith(f"{wanted}/")


def is_between(moment: str, after: str, before: str) -> bool:
    """Tell whether a moment lies between two others, both included as far as they are exact; empty: no bound.

    All are ISO dates or datetimes, perhaps only a year or a month.
    """
    return moment[: len(after)] >= after and (not before or moment[: len(before)] <= before)


@dataclass(frozen=True, slots=True)
class TimeHint:
    """A time that a question names in passing, in the words of the question.

    It is from the day `after` to the day `before`, each empty for no bound.
    """

    words: str
    after: str = ""
    before: str = ""

    def covers(self, moment: str) -> bool:
        """Tell whether a moment, as ISO text, is of that time."""
        return is_between(moment, self.after, self.before)


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
    stand in a hit word for word; no exclusion may. Hits whose score is under `min_score` are left out; None: where a
    model answers, all if the best has less than the settings ask for, unless they hold all the words. With `rerank` a
    cross-encoder reads the first hits. What is dated at one of `times` is favoured a little.
    """

    text: str
    words: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    exclusions: tuple[str, ...] = ()
    filters: Filters = Filters()
    limit: int = 10
    mode: Mode = Mode.HYBRID
    warnings: tuple[str, ...] = ()
    min_score: float | None = None
    rerank: bool = False
    times: tuple[TimeHint, ...] = ()


class Candidate(NamedTuple):
    """One chunk that one retriever gave: its rank (from 1) and its score, higher is better.

    `item` is the number (from 1) of the entry of a group whose words were found, 0 where the whole chunk was.

    A keyword score is the share of what the query's words could give at most, a vector score a cosine; both are about
    0 to 1 for any index and any query, which is what lets fusion add them.
    """

    chunk_id: int
    rank: int
    score: float
    item: int = 0


class IndexedNote(NamedTuple):
    """A note as the index knows it: what its text and its front matter say.

    `date` is from its text or name and may be empty; `last_time` is the latest moment that an entry of a daily log or a
    message of a thread names, empty without any. `changed_ns` is when a commit gave the note its content, or its mtime.
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
    """A chunk as the index knows it, with what its note says; what a hit is made of.

    `note_date` is from the note's text or name and may be empty; `changed_ns` is as in IndexedNote. `identity` is the
    note's size, mtime_ns, ctime_ns and inode when it was indexed. `content_hash` is empty for a heading, `opening` has
    the stems of the first words as numbers. A plain tuple, as every search makes some hundreds.
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

    @property
    def date(self) -> str:
        """The note's date, else when it was changed in local time, as ISO text."""
        return self.note_date or datetime.fromtimestamp(self.changed_ns // 10**9).isoformat(timespec="minutes")
