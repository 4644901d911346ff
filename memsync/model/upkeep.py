"""Results of upkeep: archived, duplicate and unused notes, lists of notes and folders, usage statistics."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from memsync.model.status import Failure
from memsync.model.vocabulary import Kind, NotePath, Tier, citation
from memsync.model.written import NoteLine


class Retirement(Struct, frozen=True):
    """A note to move to `target`, in archive/, and why; `last_active` is the day from which its age counts."""

    path: NotePath
    target: NotePath
    last_active: str
    reason: str


class Pruning(Struct, frozen=True):
    """The notes that a prune moves or would move, of `notes` notes in all; `failed` notes stay where they were.

    `is_refused`: they are more than a tenth of the notes, which only `force` moves. `moved` are the retirements that
    were carried out: none unless they were `applied`.
    """

    due: tuple[Retirement, ...]
    moved: tuple[Retirement, ...]
    notes: int
    is_refused: bool = False
    failed: tuple[Failure, ...] = ()
    warnings: tuple[str, ...] = ()
    pending_text: int = 0
    applied: bool = False


class NoteLines(Struct, frozen=True):
    """Lines of a note."""

    path: NotePath
    start_line: int
    end_line: int

    @property
    def citation(self) -> str:
        """`path:line` or `path:first-last`."""
        return citation(self.path, self.start_line, self.end_line)


class ForgottenPart(NoteLines, frozen=True):
    """Lines of a note that belong to a user.

    `what` is `thread` (the whole note), `message`, `preferences` (a section under `user:NAME`), `section` or `item`.
    """

    what: str


class Forgetting(Struct, frozen=True):
    """What belongs to a user. `counts` counts `parts` by `what`, and `notes` the notes that have them.

    `done` are the notes that were changed: none unless it was `applied`. `failed` notes are as they were.
    """

    user: str
    parts: tuple[ForgottenPart, ...]
    counts: Mapping[str, int]
    notes: int
    done: tuple[NotePath, ...] = ()
    failed: tuple[Failure, ...] = ()
    warnings: tuple[str, ...] = ()
    pending_text: int = 0
    applied: bool = False


class Restoring(Struct, frozen=True):
    """The notes that were put back as they were. `failed` notes have changed since, and their copies are still kept."""

    restored: tuple[NotePath, ...]
    failed: tuple[Failure, ...] = ()
    warnings: tuple[str, ...] = ()
    pending_text: int = 0


class Purge(Struct, frozen=True):
    """What was deleted for good: copies of `notes`, and from the journal and the statistics `appends` and `queries`."""

    notes: int = 0
    appends: int = 0
    queries: int = 0


class Repetition(Struct, frozen=True):
    """Passages of several notes that are equal or nearly so; `text` quotes the first place.

    `score` is their cosine; 1 if they differ at most in links and attributes. `is_equal`: every character is the same.
    """

    score: float
    places: tuple[NoteLines, ...]
    text: str
    is_equal: bool = False


class Duplicates(Struct, frozen=True):
    """Repetitions, highest score first, then by path.

    Only equality of text was checked for the passages that wait for their vector, and for the shortest `left_out`
    passages if there are too many to compare them all.
    """

    repetitions: tuple[Repetition, ...]
    pending_text: int = 0
    pending_vectors: int = 0
    left_out: int = 0
    warnings: tuple[str, ...] = ()


class Side(NoteLine, frozen=True):
    """One statement of a contradiction: its place, date (ISO 8601, empty if none is written), origin and text."""

    date: str
    origin: str
    text: str


class Contradiction(Struct, frozen=True):
    """Two statements that are about the same thing and differ. `id` depends on their texts only.

    A statement without a date counts as the older one.
    """

    id: str
    older: Side
    newer: Side


class Contradictions(Struct, frozen=True):
    """The contradictions in `notes` notes, without the `dismissed` ones. `failed` notes could not be read."""

    contradictions: tuple[Contradiction, ...]
    notes: int = 0
    dismissed: int = 0
    failed: tuple[Failure, ...] = ()
    pending_text: int = 0


class Finding(NoteLine, frozen=True):
    """What is wrong on a line of a note; `rule` is one of features.checking.RULES. `is_fixed`: it was repaired."""

    rule: str
    message: str
    is_fixed: bool = False


class Checked(Struct, frozen=True):
    """What is wrong in `notes` notes, by path and line; `failed` notes could not be read.

    `format` is how to print it: `text`, `github` or `json`. `ignored` counts the findings that the settings leave out.
    """

    findings: tuple[Finding, ...]
    notes: int
    format: str = "text"
    failed: tuple[Failure, ...] = ()
    pending_text: int = 0
    ignored: int = 0


class LinkPlace(NoteLine, frozen=True):
    """A link on a line of the note `path`, as it is written; `note` is the file that it means, empty if it is dead."""

    target: str
    anchor: str
    label: str
    note: NotePath = NotePath("")


class SimilarNote(Struct, frozen=True):
    """A note about the same as another one; `score` is their cosine, a mean over their passages."""

    path: NotePath
    title: str
    score: float


class NoteLinks(Struct, frozen=True):
    """The links of a note: those in it that mean a file (`out`) or nothing (`unresolved`), and those to it (`into`).

    `similar` are notes about the same that are not linked with it either way, most similar first.
    """

    path: NotePath
    out: tuple[LinkPlace, ...]
    into: tuple[LinkPlace, ...]
    unresolved: tuple[LinkPlace, ...]
    similar: tuple[SimilarNote, ...] = ()
    warnings: tuple[str, ...] = ()
    pending_text: int = 0


class MovedFile(Struct, frozen=True):
    """A file and its new path."""

    path: NotePath
    target: NotePath


class ChangedLine(Struct, frozen=True):
    """A line of a note before and after a change; `path` is the note's path before it."""

    path: NotePath
    line: int
    before: str
    after: str


class Moving(Struct, frozen=True):
    """The files that a run moves or would move, and the lines of notes that name them. `failed` are as they were.

    If it is `undone`, the files were moved back.
    """

    moves: tuple[MovedFile, ...]
    lines: tuple[ChangedLine, ...]
    failed: tuple[Failure, ...] = ()
    warnings: tuple[str, ...] = ()
    pending_text: int = 0
    applied: bool = False
    undone: bool = False


class NoteUse(Struct, frozen=True):
    """How often a note was retrieved (in an answer or read), and when last (ISO 8601, UTC; empty: never)."""

    path: NotePath
    retrieved: int = 0
    last_retrieved: str = ""
    last_active: str = ""


class Stale(Struct, frozen=True):
    """Notes neither edited nor retrieved recently, oldest first. `counted_since`: when counting began."""

    notes: tuple[NoteUse, ...]
    counted_since: str
    warnings: tuple[str, ...] = ()
    pending_text: int = 0


class NoteAbout(Struct, frozen=True):
    """A note in a list of notes."""

    path: NotePath
    title: str
    kind: Kind
    tier: Tier
    last_active: str
    pinned: bool
    archived: bool


class Notes(Struct, frozen=True):
    """Notes, by path."""

    notes: tuple[NoteAbout, ...]
    pending_text: int = 0
    warnings: tuple[str, ...] = ()


class Collection(Struct, frozen=True):
    """A folder of notes, described by its README.md. `last_active` is that of its most recently active note."""

    folder: str
    title: str
    description: str
    notes: int
    last_active: str


class Collections(Struct, frozen=True):
    """The folders that hold notes, by name, and how many notes have each tag, as it is written."""

    collections: tuple[Collection, ...]
    pending_text: int = 0
    warnings: tuple[str, ...] = ()
    tags: Mapping[str, int] = {}


class NoteNames(Struct, frozen=True):
    """What links may call a note, besides its path: its title, and `others` (aliases, and a `name`)."""

    path: NotePath
    title: str
    others: tuple[str, ...] = ()
    archived: bool = False


class Names(Struct, frozen=True):
    """What links and tags may name: the notes by path, and how many notes have each tag.

    `generation` numbers the state of the index; notes and tags are empty if the caller knows that one.
    """

    generation: int
    notes: tuple[NoteNames, ...] = ()
    tags: Mapping[str, int] = {}
    pending_text: int = 0


class Days(Struct, frozen=True):
    """How many entries the logs have on each day that has any: ISO date -> entries, in order."""

    days: Mapping[str, int]
    pending_text: int = 0
    warnings: tuple[str, ...] = ()


class DayOfSearches(Struct, frozen=True):
    """The searches of a day (UTC): how many, how many of them found nothing, and the median of their milliseconds."""

    day: str
    searches: int
    empty: int
    p50_ms: float


class Growth(Struct, frozen=True):
    """The size of the index on a day; `index_bytes` is None if the index is in a database."""

    day: str
    notes: int
    passages: int
    index_bytes: int | None


class AskedQuery(Struct, frozen=True):
    """A past query; stored only if the settings allow it."""

    at: str
    text: str
    hits: int


class Stats(Struct, frozen=True):
    """How a memory was used since `since` (ISO 8601, UTC): searches and their latency in milliseconds.

    `most_retrieved` counts since counting began (`counted_since`); `never_retrieved` are the first of `never_count`.
    `by_day` has the days with searches, in order.
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
    by_day: tuple[DayOfSearches, ...] = ()
    queries: tuple[AskedQuery, ...] = ()
    warnings: tuple[str, ...] = ()
    pending_text: int = 0
