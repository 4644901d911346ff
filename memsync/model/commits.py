"""The memory as it was: commits, versions of a text, who wrote a line, and what changed between two states."""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import ClassVar

from msgspec import Struct

from memsync.model.vocabulary import NotePath, Origin, citation

SHORT = 12
"""How many characters of a commit's name a citation has."""
CITED_AT: ContextVar[str] = ContextVar("cited_at", default="")
"""The commit that an operation is asked about, for citations within a text: they count in its budget of tokens."""
_PLACE = re.compile(r"(.*?)((?::\d+(?:-\d+)?)?)", re.DOTALL)


def cited_at(place: str, commit: str) -> str:
    """Return the citation of a place in a commit: `path@commit:line`; unchanged if `commit` is empty."""
    match = _PLACE.fullmatch(place)
    return f"{match[1]}@{commit[:SHORT]}{match[2]}" if match and commit else place


class Commit(Struct, frozen=True):
    """A commit: its full name, when it was made (ISO 8601), its author's name and the first line of its message.

    Without a name it stands for the files as they are now.
    """

    name: str = ""
    time: str = ""
    author: str = ""
    subject: str = ""

    @property
    def short(self) -> str:
        """The beginning of its name, as citations have it."""
        return self.name[:SHORT]


class Version(Struct, frozen=True):
    """What a commit made of a note, or of lines in it: its `text` from `start_line` on, `added` and `removed` lines.

    For a whole note, `text` is empty. `notes` counts the notes that a commit changed in the history of the memory,
    which has nothing else of them.
    """

    computed: ClassVar = ("citation",)

    commit: Commit
    path: NotePath = NotePath("")
    start_line: int = 0
    end_line: int = 0
    text: str = ""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    notes: int = 0

    @property
    def citation(self) -> str:
        """`path@commit:first-last`; empty in the history of the memory."""
        lines = citation(self.path, self.start_line, self.end_line) if self.start_line else self.path
        return cited_at(lines, self.commit.name) if self.path else ""


class Versions(Struct, frozen=True):
    """The versions of a note, of lines in it or of the memory, newest first; `warnings` say what is missing."""

    versions: tuple[Version, ...]
    warnings: tuple[str, ...] = ()


class BlamedLine(Struct, frozen=True):
    """A line, the commit that wrote it (none yet: without a name), its author, and its session, if any."""

    line: int
    text: str
    commit: Commit
    origin: str = Origin.OWNER
    session: str = ""


class Blame(Struct, frozen=True):
    """Who wrote each line of a note, and when; `at` is the commit that was asked for, empty for the files now."""

    path: NotePath
    lines: tuple[BlamedLine, ...]
    at: str = ""
    warnings: tuple[str, ...] = ()


class Stated(Struct, frozen=True):
    """A statement: a paragraph, a list item or a line of front matter, with its lines and its text on one line."""

    start_line: int
    end_line: int
    text: str


class Changed(Struct, frozen=True):
    """What changed under one heading of a note: statements that only the later state has, and only the earlier one."""

    path: NotePath
    heading_path: tuple[str, ...]
    learnt: tuple[Stated, ...] = ()
    dropped: tuple[Stated, ...] = ()


class Diff(Struct, frozen=True):
    """What the memory learnt and dropped from one state to another, by note and heading.

    A statement that only moved is in neither. `after` has no name if the files are meant as they are now.
    """

    before: Commit
    after: Commit
    changes: tuple[Changed, ...]
    warnings: tuple[str, ...] = ()


class Digest(Struct, frozen=True):
    """What the memory learnt and dropped, as Markdown."""

    text: str
    before: Commit
    after: Commit
    learnt: int
    dropped: int
    warnings: tuple[str, ...] = ()
