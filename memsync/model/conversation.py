"""Conversations and what they cost: views over thread notes, which alone hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memsync.model.vocabulary import NotePath


@dataclass(frozen=True, slots=True)
class Usage:
    """What some messages used: tokens in and out, and US dollars."""

    messages: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread note: its front matter, how many messages it has, and when the last one was written (ISO 8601).

    `session` is the thread's own name when its front matter names none; `source` is where it was imported from.
    """

    path: NotePath
    title: str
    session: str
    user: str
    project: str
    status: str
    archived: bool
    last_active: str
    usage: Usage
    source: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """The threads that share a session. User, project and status are those of the thread that was active last."""

    session: str
    user: str
    project: str
    status: str
    last_active: str
    threads: tuple[NotePath, ...]
    usage: Usage


@dataclass(frozen=True, slots=True)
class ThreadMessage:
    """One message; `text` is empty where only its heading was asked for. Lines include both ends."""

    path: NotePath
    session: str
    start_line: int
    end_line: int
    role: str
    time: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A thread with its own prompt, its summary, and the messages that were asked for, the oldest first."""

    thread: Thread
    prompt: str
    summary: str
    messages: tuple[ThreadMessage, ...]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The messages around lines of a thread, the oldest first: those before, and those behind."""

    before: tuple[ThreadMessage, ...] = ()
    after: tuple[ThreadMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class Cost:
    """What everything under one key used: a session, a model, an agent or a day; empty for what names none."""

    key: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Threads:
    """Threads as of now; `pending_text` changed notes are not in the answer yet."""

    threads: tuple[Thread, ...]
    pending_text: int


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions, the last active first."""

    sessions: tuple[Session, ...]
    pending_text: int


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs by key, the dearest first (days in order), and all of them together."""

    costs: tuple[Cost, ...]
    total: Usage
    pending_text: int


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of some role, the newest first."""

    messages: tuple[ThreadMessage, ...]
    pending_text: int
