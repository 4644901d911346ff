"""What a write did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from memsync.model.vocabulary import NotePath


@dataclass(frozen=True, slots=True)
class Written:
    """One write: the note and the line on which what was written begins.

    `generation` names a state of the index that has it, for `search(generation=…)`; it is 0 when the note is so large
    that it is indexed later, or could not be: a strict search looks for it all the same, and says when it is missing.
    `commit` is the git commit, empty when there is none.
    """

    computed: ClassVar = ("citation",)

    path: NotePath
    line: int
    generation: int = 0
    commit: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def citation(self) -> str:
        """`path:line`, as search results have it."""
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Overwritten:
    """Something that was appended to a note and is not in it any more, as far as whole lines tell.

    `appended_at` is ISO 8601, UTC; `similar` is true when the note has a line in its place: it was edited. With
    `note_deleted` there is no such note any more, as somebody may have wanted.
    """

    id: str
    path: NotePath
    appended_at: str
    text: str
    similar: bool
    note_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Preference:
    """`- key: value` in preferences.md; `user` is empty for what holds for everybody."""

    key: str
    value: str
    line: int
    user: str = ""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A learned pattern: a list item with class `pattern`, how often and when it was observed, how sure it is."""

    path: NotePath
    line: int
    text: str
    type: str
    key: str
    count: int
    confidence: float
    first: str
    last: str
