"""Basic types and enumerations that the whole package uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntFlag, StrEnum
from functools import lru_cache
from typing import NewType

from memsync.model.text import quoted

NotePath = NewType("NotePath", str)
"""A note's name: its path relative to the memory root, with forward slashes."""


def citation(path: str, start_line: int, end_line: int) -> str:
    """Return `path:line` or `path:first-last`."""
    return f"{path}:{start_line}" if start_line == end_line else f"{path}:{start_line}-{end_line}"


def in_root(root: str, citation: str) -> str:
    """Return a citation, or a path, with the name of the registered memory that it is from; an empty name adds none."""
    return f"{root}:{citation}" if root else citation


Scalar = str | int | float | bool | None
JsonValue = Scalar | Sequence["JsonValue"] | Mapping[str, "JsonValue"]


class Kind(StrEnum):
    """The kind of a note, by its path or its front matter."""

    SOUL = "soul"
    MEMORY = "memory"
    DAILY = "daily"
    THREAD = "thread"
    PROMPT = "prompt"
    NOTE = "note"


class Tier(StrEnum):
    """How long a note matters: `personal` is never pruned, `task` is pruned after a while."""

    PERSONAL = "personal"
    PROJECT = "project"
    TASK = "task"


THREAD_STATUSES = ("active", "paused", "completed", "archived")
"""The statuses that a thread can have."""

MEMORY_KINDS = frozenset({Kind.SOUL, Kind.MEMORY, Kind.DAILY, Kind.THREAD})


def is_remembered(kind: str, tier: str) -> bool:
    """Tell whether a note records facts, which people search for one by one; all other notes are reference notes."""
    return kind in MEMORY_KINDS or tier == Tier.PERSONAL


class Form(StrEnum):
    """What a chunk contains, which decides how it is found.

    `text`: one entry, found by its words and by meaning. `heading`: a heading without text, found only by its words.
    `window`: neighbouring entries of a conversation, found by meaning; each of them also has a `text` chunk. `group`:
    neighbouring items of a long list in a reference note, or of a text with tasks, found by the meaning of all and by
    the words of each. `field`: a line of front matter that is no prose, or what a tool was asked or
    printed, found only by its words.
    """

    TEXT = "text"
    HEADING = "heading"
    WINDOW = "window"
    GROUP = "group"
    FIELD = "field"

    @property
    def is_words_only(self) -> bool:
        """Whether it has no vector and no neighbours."""
        return self in (Form.HEADING, Form.FIELD)


MAX_ORIGIN_CHARS = 60


class Origin(StrEnum):
    """Who wrote a passage, most trusted first. An agent may have a name: `agent:codex`."""

    OWNER = "owner"
    AGENT = "agent"
    IMPORT = "import"
    WEB = "web"
    TOOL = "tool"


@lru_cache(maxsize=1_024)
def named_origin(name: str) -> str:
    """Return the origin of this name: one of Origin, otherwise an agent."""
    name = " ".join(name.lower().split())[:MAX_ORIGIN_CHARS].rstrip(":") or Origin.AGENT
    is_known = name in tuple(Origin) or name.startswith(f"{Origin.AGENT}:")
    return name if is_known else f"{Origin.AGENT}:{name}"


@lru_cache(maxsize=1_024)
def trust(origin: str) -> int:
    """Return how far an origin is trusted: 0 for the owner, less for every other; a web page and a tool alike."""
    return -min(tuple(Origin).index(Origin(origin.partition(":")[0])), 3)


def may_instruct(origin: str) -> bool:
    """Tell whether text of this origin may instruct an agent: not that of an import, a web page or a tool."""
    return trust(origin) >= trust(Origin.AGENT)


_TOLD = dict(zip(Origin, ("", "from an agent", "imported", "from a web page", "tool output"), strict=True))


def told_origin(origin: str, role: str = "") -> str:
    """Return `from codex` or `from a web page`; empty for the owner, and if the role of the message tells it."""
    kind, _, name = origin.partition(":")
    is_told = (name or kind) == role.removeprefix("agent:") or (role and origin == Origin.AGENT)
    if is_told or not name:
        return "" if is_told else _TOLD[Origin(kind)]
    is_clear = name.replace("-", "").isalnum() and name not in (*Origin, "user", "human", "you")
    return f"from {name if is_clear else f'agent {quoted(name)}'}"


class Trait(IntFlag):
    """Properties of an entry's text; in reference notes only ITEM is set."""

    ITEM = 1
    """It is a list item."""
    QUESTION = 2
    """It ends with a question mark."""
    NAMES_TIME = 4
    """It names a moment: a date, a year, a weekday, `last week`."""


class Mode(StrEnum):
    """Which retrievers answer a query."""

    HYBRID = "hybrid"
    KEYWORD = "keyword"
    VECTOR = "vector"


class Fresh(StrEnum):
    """What a search does before it answers.

    `strict`: compares the files with the index and indexes the changes, so that the answer includes all saved files.
    `bounded`: trusts the watcher, or a comparison that is a few seconds old. `none`: uses the index as it is.
    """

    STRICT = "strict"
    BOUNDED = "bounded"
    NONE = "none"


class WatcherState(StrEnum):
    """How the index learns of changes.

    `live`: the operating system reports each change. `polling`: the daemon compares the files every few seconds,
    because their file system reports nothing. `degraded`: watching or the root has a fault. `none`: no daemon.
    """

    NONE = "none"
    LIVE = "live"
    POLLING = "polling"
    DEGRADED = "degraded"
