"""Conversations from elsewhere, read into one shape: memsync's own JSON Lines, the exports of ChatGPT and Claude."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from memsync.model.vocabulary import JsonValue


@dataclass(slots=True)
class Turn:
    """One message: `time` as it is written in the thread, empty for none; `attributes` are texts."""

    role: str
    text: str
    time: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ConversationText:
    """One conversation. `source` tells where it is from, and so finds it again; empty for memsync's own format.

    `place` says where in the file it begins. `named` counts, by kind, what has no text: it is only named in a message.
    """

    name: str
    head: dict[str, JsonValue] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    source: str = ""
    place: str = ""
    named: Counter[str] = field(default_factory=Counter)


MAX_REASON_CHARS = 500


class Unusable(Exception):
    """One line or conversation cannot be used, for this reason."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line or a conversation that is left out: where it stands, and why."""

    place: str
    reason: str

    def __str__(self) -> str:
        """Return both in one line."""
        return f"{self.place}: {shortened(self.reason)}"


def shortened(reason: str) -> str:
    """Return what a complaint says, however long what it quotes is."""
    return reason if len(reason) <= MAX_REASON_CHARS else f"{reason[:MAX_REASON_CHARS]}…"
