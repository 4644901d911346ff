"""What the curator proposes: changes to notes, each with the lines that it is from."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Literal

from msgspec import Struct

from memsync.model.status import Failure
from memsync.model.vocabulary import NotePath


class Act(StrEnum):
    """What a change does: adds an item, strikes a line through, ticks a task off, or moves a note to archive/."""

    ADD = "add"
    STRIKE = "strike"
    TICK = "tick"
    ARCHIVE = "archive"


class Proposed(Struct, frozen=True, forbid_unknown_fields=True):
    """One change to a note.

    `sources` are the citations that it is from. ADD puts `text` into a section, and says what it supersedes (a
    citation), if anything; STRIKE and TICK change the line of the note that says `text`, which was on `line`.
    """

    act: Act
    note: NotePath
    sources: tuple[str, ...]
    text: str = ""
    section: str = ""
    line: int = 0
    supersedes: str = ""
    reason: str = ""
    state: Literal["open", "accepted", "rejected"] = "open"


class Proposal(Struct, frozen=True):
    """Changes that a person may accept. `by` is `rules`, the name of a command, or an agent; `made` is ISO 8601.

    `refused` lists the changes that failed the checks, and why; `failed` those that could not be applied just now.
    """

    computed: ClassVar = ("number",)

    made: str
    by: str
    changes: tuple[Proposed, ...]
    refused: tuple[str, ...] = ()
    path: str = ""
    warnings: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()

    @property
    def number(self) -> int:
        """Its number, from its path; 0 if it has no change and so no file."""
        digits = self.path.rpartition("/")[2].removesuffix(".json")
        return int(digits) if digits.isdigit() else 0


class Proposals(Struct, frozen=True):
    """Proposals, the oldest first. `failed` files are no proposals that can be read."""

    proposals: tuple[Proposal, ...]
    failed: tuple[Failure, ...] = ()
    warnings: tuple[str, ...] = ()
