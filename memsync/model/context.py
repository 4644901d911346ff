"""A context: what an agent is given to read before it answers, within a budget of tokens."""

from __future__ import annotations

from dataclasses import dataclass

from memsync.model.vocabulary import NotePath


@dataclass(frozen=True, slots=True)
class ContextPassage:
    """Lines of a note, quoted whole. `tokens` are those of its text alone."""

    path: NotePath
    start_line: int
    end_line: int
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class ContextPart:
    """One part of a context, in the order of docs/context.md; `tokens` count its heading and citations, too."""

    name: str
    tokens: int
    passages: tuple[ContextPassage, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a part would have held of one note, had the budget been larger."""

    part: str
    path: NotePath
    passages: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Context:
    """The assembled text, never over `budget` word pieces of the built-in model, and what it is made of.

    `pending_text` changed files are not in it yet.
    """

    text: str
    tokens: int
    budget: int
    parts: tuple[ContextPart, ...]
    left_out: tuple[LeftOut, ...]
    warnings: tuple[str, ...] = ()
    pending_text: int = 0
