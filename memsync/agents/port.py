"""What memsync knows about an agent: the port that each agent's module fills."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from memsync.agents.events import About, Event, Record, no_events


def stem(path: str) -> str:
    """Return a file's name without its ending."""
    return os.path.splitext(os.path.basename(path))[0]


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent, with the version that its forms were tried with.

    `home` returns its folder. `memory` and `sessions` are glob patterns below it: of the Markdown notes that the agent
    writes by itself, and of its transcripts.

    `loaded` are the names of files that the agent reads by itself at the start of a session. `own_folder` returns the
    folder of a project in the memory that is registered under the agent's name, empty if it keeps all in one. `answer`
    returns what a hook prints, so that the agent adds a text to its context at an event.

    `read` returns the events of one record of a transcript, and tells `About` what it says about the session. `fold`
    returns the records of a transcript that says some things again; without it, each line is a record. `session_name`
    returns the name of a session, from the path of its transcript. `is_database`: one file has all sessions.
    """

    name: str
    title: str
    tried: str
    home: Callable[[], Path]
    memory: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    own_folder: Callable[[str], str] = lambda folder: ""
    answer: Callable[[str, str], str] = lambda event, text: text
    read: Callable[[Record, About], Iterable[Event]] = no_events
    fold: Callable[[Iterable[Record]], list[Record]] | None = None
    session_name: Callable[[str], str] = stem
    is_database: bool = False


def folder(variable: str, usual: str) -> Callable[[], Path]:
    """Return a function that returns the folder that an environment variable names; without it, one in the home."""

    def named() -> Path:
        return Path(os.environ.get(variable) or os.path.join(os.path.expanduser("~"), usual))

    return named


def specific(names: Mapping[str, str]) -> Callable[[str, str], str]:
    """Return an `answer` in the envelope of Claude Code, under the agent's names of the events."""

    def answer(event: str, text: str) -> str:
        return json.dumps({"hookSpecificOutput": {"hookEventName": names[event], "additionalContext": text}})

    return answer


def under(key: str) -> Callable[[str, str], str]:
    """Return an `answer` that is a JSON object with the text under one key."""
    return lambda event, text: json.dumps({key: text})
