"""A context: the text that an agent reads before it answers, within a budget of tokens."""

from __future__ import annotations

from msgspec import Struct

from memsync.model.upkeep import NoteLines
from memsync.model.vocabulary import NotePath, Origin


class ContextPassage(NoteLines, frozen=True):
    """Whole lines of a note. `tokens` counts its text without the citation; `origin` is as that of a hit."""

    text: str
    tokens: int
    origin: str = Origin.OWNER


class ContextPart(Struct, frozen=True):
    """One part of a context, in the order of docs/agents.md; `tokens` includes its heading and citations."""

    name: str
    tokens: int
    passages: tuple[ContextPassage, ...]


class LeftOut(Struct, frozen=True):
    """How many passages of a note did not fit into a part, and their tokens."""

    part: str
    path: NotePath
    passages: int
    tokens: int


class Context(Struct, frozen=True):
    """The assembled text, at most `budget` tokens of the built-in model, and its parts.

    `pending_text`: how many changed files it does not include yet.
    """

    text: str
    tokens: int
    budget: int
    parts: tuple[ContextPart, ...]
    left_out: tuple[LeftOut, ...]
    warnings: tuple[str, ...] = ()
    pending_text: int = 0
