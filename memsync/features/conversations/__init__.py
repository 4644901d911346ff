"""Conversations to import: memsync's own JSON Lines and the exports of ChatGPT and Claude, in one format."""

from __future__ import annotations

from dataclasses import dataclass, field

from memsync.model.text import shortened
from memsync.model.vocabulary import JsonValue


@dataclass(slots=True)
class Turn:
    """One message. `time` is the text that the thread will have, empty for none; `attributes` are texts."""

    role: str
    text: str
    time: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ConversationText:
    """One conversation.

    `source` identifies it across imports; it is empty for memsync's own format. `place` says where in the file it
    begins.
    """

    name: str
    head: dict[str, JsonValue] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    source: str = ""
    place: str = ""


MAX_REASON_CHARS = 500
"""A reason may quote a long text."""


class Unusable(Exception):
    """One line or conversation cannot be used; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line or a conversation that was left out: its place in the file, and why."""

    place: str
    reason: str

    def __str__(self) -> str:
        """Return both in one line."""
        return f"{self.place}: {shortened(self.reason, MAX_REASON_CHARS)}"
