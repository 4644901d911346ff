"""The description of an agent, which each agent's module fills in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from memsync.agents.events import About, Record, SessionEvent

NAME = "memsync"
"""The name of memsync's entries in agents' settings. An entry with this name that exists already is the user's own."""
HOOK_SECONDS = 5
"""How long an agent waits for a hook. A hook that starts the daemon takes about a second."""
Caller = Callable[[str], str]
"""Returns the command line of memsync's hook for an event, quoted for a shell."""


Entries = Callable[[Sequence[str], Caller], dict[str, Any]]
"""Returns the entries that memsync adds to a settings file, given memsync's command as words, and a Caller."""
Maker = Callable[[Sequence[str], Caller], str]
"""Returns the whole text of a file that memsync owns, from the same."""
Reader = Callable[[Path], Any]


class SetupFile(NamedTuple):
    """A file that connects an agent with memsync: its path for the user, and its path in a project (None: no file).

    If `entries` returns a text, memsync owns the file, and the text is its whole content. `is_for_plugin`: memsync's
    plugin needs these entries, too.
    """

    user: Callable[[], Path] | None
    project: str | None
    entries: Entries | Maker
    is_for_plugin: bool = False


class Obstacle(NamedTuple):
    """A value in an agent's settings that makes memsync useless; `reason` is a sentence that says why.

    `file` is relative to the agent's home. `is_bad` returns true for a value under `keys` that is an obstacle.
    """

    file: str
    keys: tuple[str, ...]
    is_bad: Callable[[Any], bool]
    reason: str


def is_false(value: Any) -> bool:
    """Tell whether a setting turns something off."""
    return value is False


def stem(path: str) -> str:
    """Return a file's name without its extension."""
    return os.path.splitext(os.path.basename(path))[0]


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent, and the version of it that memsync was tried with.

    `home` returns its folder. `memory` and `sessions` are glob patterns: `memory` matches the Markdown notes in `home`
    that the agent writes by itself, `sessions` its transcripts in `home`, or in `data` if that is set.

    `loaded` names the files that the agent reads by itself at the start of a session. `own_folder` returns the folder
    of a project in the memory that is registered under the agent's name; it is empty if all projects share one folder.
    `answer` returns the output of a hook that makes the agent add a text to its context at an event.

    `read` returns the events of one record of a transcript, and stores the record's facts about the session in `About`.
    `fold` merges the records of a transcript that repeats some of them; without it, each line is a record.
    `session_name` returns the name of a session from the path of its transcript. `ran_in` returns the folder
    in which it ran, if its records do not say that: its path, its path with a dash for each other character, or the
    SHA-256 of its path.
    """

    name: str
    title: str
    tried: str
    home: Callable[[], Path]
    read: Callable[[Record, About], Iterable[SessionEvent]]
    memory: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    own_folder: Callable[[str], str] = lambda folder: ""
    answer: Callable[[str, str], str] = lambda event, text: text
    fold: Callable[[Iterable[Record]], list[Record]] | None = None
    session_name: Callable[[str], str] = stem
    ran_in: Callable[[str], str] = lambda path: ""

    setup: tuple[SetupFile, ...] = ()
    """The files that connect it with memsync."""
    plugin: Mapping[str, Maker] = field(default_factory=dict)
    """The files of memsync as its plugin, by their path in the plugin's folder."""
    plugged: Callable[[Reader, Path | None], Iterable[Path]] = lambda read, folder: ()
    """Returns the files with the hooks of memsync's plugin if the user installed and enabled it, also for one folder.

    It gets a function that parses a settings file; a missing one is empty."""
    unplug: str = ""
    """The command that removes the plugin."""
    afterwards: str = ""
    """A sentence that says what the user must do after connecting; empty for nothing."""
    program: str = ""
    """The program that prints its version with --version; empty if it has none."""
    reads_too: tuple[str, ...] = ()
    """The other agents whose hooks it also runs."""
    obstacles: tuple[Obstacle, ...] = ()
    data: Callable[[], Path] | None = None
    """Returns the folder of its transcripts, if they are not in its home."""
    memory_setting: str = ""
    """The key in the user's settings.json that moves the folder of the agent's own notes; empty if there is none."""


def folder(variable: str, usual: str) -> Callable[[], Path]:
    """Return a function that returns the folder that an environment variable names (default: `usual` in the home)."""

    def named() -> Path:
        return Path(os.environ.get(variable) or os.path.join(os.path.expanduser("~"), usual))

    return named


def below(folder: Callable[[], Path], *names: str) -> Callable[[], Path]:
    """Return a function that returns a path inside a folder."""
    return lambda: folder().joinpath(*names)


def grouped(events: Mapping[str, str], timeout: int = HOOK_SECONDS) -> Entries:
    """Return a function that makes hook entries in the format of Claude Code.

    `events` maps memsync's names of events to the agent's. `timeout` is in the unit that the agent uses.
    """

    def entries(_: Sequence[str], call: Caller) -> dict[str, Any]:
        form = {"type": "command", "timeout": timeout}
        return {"hooks": {name: [{"hooks": [{**form, "command": call(event)}]}] for event, name in events.items()}}

    return entries


def server(key: str, **more: Any) -> Entries:
    """Return a function that makes the entry of memsync's MCP server, in the object under `key`."""
    return lambda program, call: {key: {NAME: {"command": program[0], "args": [*program[1:], "mcp"], **more}}}


def as_file(*parts: Entries, **more: Any) -> Maker:
    """Return a function that makes a whole JSON file from these entries and further members."""
    return lambda program, call: json.dumps({**more, **united(*parts)(program, call)}, indent=2) + "\n"


def united(*parts: Entries) -> Entries:
    """Return a function that merges the entries of several functions. No two of them may share an outer key."""
    return lambda program, call: {key: value for part in parts for key, value in part(program, call).items()}


def specific(names: Mapping[str, str]) -> Callable[[str, str], str]:
    """Return an `answer` function for Claude Code's JSON envelope; `names` maps memsync's events to the agent's."""

    def answer(event: str, text: str) -> str:
        return json.dumps({"hookSpecificOutput": {"hookEventName": names[event], "additionalContext": text}})

    return answer


def under(key: str) -> Callable[[str, str], str]:
    """Return an `answer` function that makes a JSON object with the text under one key."""
    return lambda event, text: json.dumps({key: text})
