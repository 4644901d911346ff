"""Results of writes: what was written, overwritten entries, preferences and patterns."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from memsync.model.vocabulary import NotePath


class NoteLine(Struct, frozen=True):
    """A line of a note."""

    computed: ClassVar = ("citation",)

    path: NotePath
    line: int

    @property
    def citation(self) -> str:
        """`path:line`, as in search results."""
        return f"{self.path}:{self.line}"


class Written(NoteLine, frozen=True):
    """One write: the note, and the line on which the written text begins.

    `generation` names a state of the index that includes it, for `search(generation=…)`. It is 0 if the note is not
    indexed yet, because it is too large or indexing failed; a strict search then indexes it, or warns that it is
    missing. `commit` is the git commit, empty if there is none.
    """

    generation: int = 0
    commit: str = ""
    warnings: tuple[str, ...] = ()


class Overwritten(Struct, frozen=True):
    """An entry that was appended to a note and whose lines are not in the note any more.

    `appended_at` is ISO 8601, UTC. `similar`: somebody may have edited it into another line of the note.
    `note_deleted`: the note does not exist any more, perhaps on purpose. `other_branch`: the branch (or commit) of git
    to which it was appended, if another one is checked out now: git removed it, and it is probably still there.
    """

    id: str
    path: NotePath
    appended_at: str
    text: str
    similar: bool
    note_deleted: bool = False
    other_branch: str = ""

    @property
    def is_restored_unasked(self) -> bool:
        """True if only an editor that saved an old buffer explains the loss."""
        return not (self.similar or self.note_deleted or self.other_branch)


class Preference(Struct, frozen=True):
    """`- key: value` in preferences.md; `user` is empty for everyone."""

    key: str
    value: str
    line: int
    user: str = ""


class Pattern(Struct, frozen=True):
    """A learned pattern: a list item with class `pattern`, with its count, confidence, first and last day."""

    path: NotePath
    line: int
    text: str
    type: str
    key: str
    count: int
    confidence: float
    first: str
    last: str
