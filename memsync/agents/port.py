"""What memsync knows about an agent: the port that each agent's module fills."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from memsync.agents.events import About, Event, Record

NAME = "memsync"
"""The name of memsync in the settings of agents. A member of this name that is there already is the user's own."""
HOOK_SECONDS = 5
"""How long an agent waits for a hook; one that starts the daemon takes about a second."""
Caller = Callable[[str], str]
"""Returns the command line of memsync's hook for an event, quoted for a shell."""


Entries = Callable[[Sequence[str], Caller], dict[str, Any]]
"""Returns what memsync adds to a settings file, given memsync's own program."""


class SetupFile(NamedTuple):
    """A file by which an agent is connected: its place for the user, and in a project (None: it has none).

    If `entries` returns a text, it is the whole of a file that is memsync's own.
    """

    user: Callable[[], Path] | None
    project: str | None
    entries: Entries | Callable[[Sequence[str], Caller], str]


class Obstacle(NamedTuple):
    """A value in an agent's settings file, below its home, that makes memsync useless; `says` tells why, in words."""

    file: str
    keys: tuple[str, ...]
    is_bad: Callable[[Any], bool]
    says: str


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
    returns the name of a session, from the path of its transcript.
    """

    name: str
    title: str
    tried: str
    home: Callable[[], Path]
    read: Callable[[Record, About], Iterable[Event]]
    memory: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    own_folder: Callable[[str], str] = lambda folder: ""
    answer: Callable[[str, str], str] = lambda event, text: text
    fold: Callable[[Iterable[Record]], list[Record]] | None = None
    session_name: Callable[[str], str] = stem

    setup: tuple[SetupFile, ...] = ()
    """The files by which it is connected."""
    afterwards: str = ""
    """What the user has to do after connecting, in a sentence."""
    program: str = ""
    """The program that prints its version with --version; empty if it has none."""
    reads_too: tuple[str, ...] = ()
    """The agents whose hooks it runs, too."""
    obstacles: tuple[Obstacle, ...] = ()
    data: Callable[[], Path] | None = None
    """The folder of its transcripts, if that is not its home."""
    memory_setting: str = ""
    """The key in the user's settings.json that names another folder for the notes that it writes by itself."""


def folder(variable: str, usual: str) -> Callable[[], Path]:
    """Return a function that returns the folder that an environment variable names; without it, one in the home."""

    def named() -> Path:
        return Path(os.environ.get(variable) or os.path.join(os.path.expanduser("~"), usual))

    return named


def below(folder: Callable[[], Path], *names: str) -> Callable[[], Path]:
    """Return a function that returns a place below a folder."""
    return lambda: folder().joinpath(*names)


def grouped(events: Mapping[str, str], seconds: int = HOOK_SECONDS) -> Entries:
    """Return hooks in the form of Claude Code; `events` are the agent's names of the events of memsync."""

    def entries(_: Sequence[str], call: Caller) -> dict[str, Any]:
        form = {"type": "command", "timeout": seconds}
        return {"hooks": {name: [{"hooks": [{**form, "command": call(event)}]}] for event, name in events.items()}}

    return entries


def server(key: str, **more: Any) -> Entries:
    """Return the entry for memsync's MCP server, which the agent starts, in the object under a key."""
    return lambda program, call: {key: {NAME: {"command": program[0], "args": [*program[1:], "mcp"], **more}}}


def as_file(*parts: Entries, **more: Any) -> Callable[[Sequence[str], Caller], str]:
    """Return the text of a whole file in JSON with these entries, and more members."""
    return lambda program, call: json.dumps({**more, **united(*parts)(program, call)}, indent=2) + "\n"


def united(*parts: Entries) -> Entries:
    """Return the entries of several functions as one, which must not have the same outer keys."""
    return lambda program, call: {key: value for part in parts for key, value in part(program, call).items()}


def plugin(name: str, agent: str) -> Callable[[Sequence[str], Caller], str]:
    """Return a plugin in JavaScript that runs memsync's hooks: the file of this name in `plugins/`."""
    file = resources.files("memsync.agents").joinpath("plugins", name)

    def text(program: Sequence[str], _: Caller) -> str:
        return file.read_text().replace('["memsync"]', json.dumps([*program, "hook"]), 1).replace("AGENT", agent)

    return text


def specific(names: Mapping[str, str]) -> Callable[[str, str], str]:
    """Return an `answer` in the envelope of Claude Code, under the agent's names of the events."""

    def answer(event: str, text: str) -> str:
        return json.dumps({"hookSpecificOutput": {"hookEventName": names[event], "additionalContext": text}})

    return answer


def under(key: str) -> Callable[[str, str], str]:
    """Return an `answer` that is a JSON object with the text under one key."""
    return lambda event, text: json.dumps({key: text})
