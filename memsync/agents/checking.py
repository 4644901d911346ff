"""Runs an agent's hooks as the agent would, with a trial event."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from memsync.agents import agent_named
from memsync.agents.agent import NAME, Agent
from memsync.agents.connecting import is_as_written, places, plugged, read_settings
from memsync.agents.edits import OWN, parsed, text_of, texts_in
from memsync.agents.events import at
from memsync.agents.ingest import never_taken
from memsync.agents.recall_records import CANARY, SESSION_KEYS
from memsync.model.text import count
from memsync.system import clock

DAY_SECONDS = 86_400
HEARD_EVENTS = ("session-start", "prompt")
MAX_SECONDS = 15.0
"""How long the daemon may take to start. Until it answers, a hook prints nothing."""
_PROGRAM = re.compile(r"^const command = (\[.*\])$", re.MULTILINE)
_VERSION = re.compile(r"\d+(?:\.\d+)+")


class Hook(NamedTuple):
    """One of memsync's hooks in a file of an agent; `command` is its command line for a shell."""

    file: str
    event: str
    command: str


def hooks_in(agent: Agent, path: str) -> Iterator[Hook]:
    """Yield memsync's hooks in a file. Raises MemsyncError."""
    text = text_of(path, read_settings(path))
    if path.endswith(".js"):
        if found := _PROGRAM.search(text):
            for event in HEARD_EVENTS:
                yield Hook(path, event, shlex.join([*json.loads(found[1]), event, "--agent", agent.name]))
    elif path.endswith((".json", ".toml")) and NAME in text:
        for line in texts_in(parsed(path, text)):
            if (own := OWN.search(line)) and own["agent"] == agent.name:
                yield Hook(path, own["event"], line)


def installed(agent: Agent, folder: Path) -> list[Hook]:
    """Return memsync's hooks that run in a folder: those of the user, of the project there, and of the plugin."""
    own = (path for project in (None, folder) for _, path in places(agent, project))
    files = dict.fromkeys([*own, *plugged(agent, folder)])
    return [hook for path in files for hook in hooks_in(agent, path)]


def heard(agent: Agent, hook: Hook, folder: Path) -> str:
    """Run a hook, and return the text that would reach the model; empty if the agent cannot read the output."""
    canary = f"{CANARY}{clock.time_ns():x}"
    event = {**dict.fromkeys(SESSION_KEYS, canary), "cwd": str(folder), "hook_event_name": hook.event, "prompt": canary}
    with suppress(ValueError, RecursionError):
        out = _run(["/bin/sh", "-c", hook.command], json.dumps(event).encode(), folder)
        texts = texts_in(json.loads(out)) if out.startswith("{") else [out]
        return next((text for text in texts if canary in text and agent.answer(hook.event, text) == out), "")
    return ""


def faults(agent: Agent, folder: Path, said: dict[str, str], deadline: float) -> Iterator[str]:
    """Yield a sentence for each fault that keeps memsync from working in an agent.

    Runs the hooks, and puts into `said` the text that the model would get at each event. Repeats the first hook until
    the daemon answers it, or until `deadline` (in seconds of time.monotonic).
    """
    hooks = [hook for hook in installed(agent, folder) if hook.event in HEARD_EVENTS]
    others = [hook for name in agent.reads_too for hook in installed(agent_named(name), folder)]
    own = [*(path for _, path in places(agent, None)), *plugged(agent)]
    for hook in hooks:
        if hook.file not in own and not is_as_written(agent, hook.file):  # a clone may bring any command
            yield f"its hook for {hook.event} in {hook.file} was not tried, because memsync did not write this file"
            continue
        while not (text := heard(agent, hook, folder)) and not said and time.monotonic() < deadline:
            time.sleep(0.5)
        if text:
            said[hook.event] = text
        else:
            yield f"its hook for {hook.event} in {hook.file} delivers nothing"
    for event, number in Counter(hook.event for hook in hooks).items():
        if number > 1 or any(other.event == event for other in others):
            files = ", ".join(hook.file for hook in (*hooks, *others) if hook.event == event)
            cure = f": run memsync agents connect {agent.name}" * bool(plugged(agent))
            yield f"{event} would be answered twice, by the hooks in {files}{cure}"
    yield from _obstacles(agent)
    yield from _lost_servers(agent)
    if lost := never_taken(agent, clock.file_seconds() - DAY_SECONDS):
        yield f"memsync has not read {count(lost, 'transcript')} older than a day: run memsync ingest"


def untried_version(agent: Agent) -> str:
    """Return a sentence about an agent's version; empty if memsync was tried with it."""
    version = version_of(agent)
    if agent.tried and version == agent.tried:
        return ""
    tried = f"was tried with {agent.tried}" if agent.tried else "was never tried with it"
    return f"its version is {version or f'unknown ({agent.program} --version prints none)'}; memsync {tried}"


def version_of(agent: Agent) -> str:
    """Return the version that an agent's program prints; empty if it prints none."""
    found = _VERSION.search(_run([agent.program, "--version"], b"", Path.home()))
    return found[0] if found else ""


def _run(command: list[str], given: bytes, folder: Path) -> str:
    """Return what a program prints; empty if it fails."""
    try:
        done = subprocess.run(  # noqa: S603 (because the user's own agent runs it, too)
            command, input=given, capture_output=True, check=True, timeout=MAX_SECONDS, cwd=folder
        )
        return done.stdout.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError):
        return ""


def _lost_servers(agent: Agent) -> Iterator[str]:
    """Yield a sentence for each entry that starts memsync's MCP server from a path that no longer exists."""
    for _, path in places(agent, None):
        if path.endswith((".json", ".toml")):
            for server in _servers(parsed(path, text_of(path, read_settings(path)))):
                command = server["command"]
                program = command[0] if isinstance(command, list) and command else command
                if isinstance(program, str) and program.startswith("/") and not os.path.exists(program):
                    yield f"its MCP server in {path} runs {program}, which does not exist: connect again, or remove it"


def _servers(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the entries of memsync's MCP server in a settings file."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from [inner] if key == NAME and at(inner, "command") else _servers(inner)


def _obstacles(agent: Agent) -> Iterator[str]:
    for obstacle in agent.obstacles:
        path = str(agent.home() / obstacle.file)
        value = at(parsed(path, text_of(path, read_settings(path))), *obstacle.keys)
        if value is not None and obstacle.is_bad(value):
            yield f"{obstacle.reason} ({path})"
