"""Conversations and their costs: views of thread notes, which are the only place that stores them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct, field

from memsync.model.vocabulary import NotePath


class Usage(Struct, frozen=True):
    """The sum over some messages: how many, tokens in and out, and US dollars."""

    messages: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0


class Thread(Struct, frozen=True):
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


class Session(Struct, frozen=True):
    """The threads of a session. Status is that of the latest thread, and so are user and project if it names them."""

    session: str
    user: str
    project: str
    status: str
    last_active: str
    threads: tuple[NotePath, ...]
    usage: Usage


class ThreadMessage(Struct, frozen=True):
    """One message; `text` is empty if only headings were requested. Lines include both ends."""

    path: NotePath
    session: str
    start_line: int
    end_line: int
    role: str
    time: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    text: str = ""


class NewMessage(Struct, frozen=True):
    """A message to append: its text is kept to the letter. `time` is ISO 8601, now if empty."""

    role: str
    text: str
    time: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


class Conversation(Struct, frozen=True):
    """A thread with its own prompt, its summary, and the requested messages, oldest first."""

    optional: ClassVar = ("warnings",)

    thread: Thread
    prompt: str
    summary: str
    messages: tuple[ThreadMessage, ...]
    warnings: tuple[str, ...] = ()


class Neighbours(Struct, frozen=True):
    """The messages before and after lines of a thread, oldest first."""

    before: tuple[ThreadMessage, ...] = ()
    after: tuple[ThreadMessage, ...] = ()


class Cost(Struct, frozen=True):
    """The usage of one session, model, agent or day; `key` is empty for messages that name none."""

    key: str
    usage: Usage


class Threads(Struct, frozen=True):
    """Threads as of now; `pending_text`: how many changed notes the answer does not include yet.

    `warnings` says how many local-only notes it does not include, because the index is shared.
    """

    threads: tuple[Thread, ...]
    pending_text: int
    warnings: tuple[str, ...] = ()


class Sessions(Struct, frozen=True):
    """Sessions, most recently active first."""

    sessions: tuple[Session, ...]
    pending_text: int
    warnings: tuple[str, ...] = ()


class Costs(Struct, frozen=True):
    """Costs by key, highest first (days in order), and their total."""

    costs: tuple[Cost, ...]
    total: Usage
    pending_text: int
    warnings: tuple[str, ...] = ()


class Messages(Struct, frozen=True):
    """Messages of one role, newest first."""

    messages: tuple[ThreadMessage, ...]
    pending_text: int
    warnings: tuple[str, ...] = ()
