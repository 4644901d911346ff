"""Gemini CLI: its folders and formats."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from memsync.agents.agent import (
    HOOK_SECONDS,
    NAME,
    Agent,
    Obstacle,
    Reader,
    SetupFile,
    as_file,
    below,
    folder,
    grouped,
    is_false,
    server,
    specific,
    united,
)
from memsync.agents.events import (
    About,
    Record,
    SessionEvent,
    Who,
    at,
    call,
    count_at,
    list_at,
    parts_of,
    spent,
    text_at,
    words_of,
)
from memsync.agents.plugin_files import HEAD, SKILL, as_toml, command_files, extension
from memsync.agents.sources import opened


def fold(records: Iterable[Record]) -> list[Record]:
    """Return the head of a session and its messages.

    A later record replaces the message with the same id. A `$set` record updates the head, and replaces or adds the
    messages that it contains.
    """
    head: dict[str, Any] = {}
    messages: dict[str, Record] = {}
    for record in records:
        change = at(record, "$set") if "$set" in record else record
        listed = at(change, "messages")
        if isinstance(listed, list) or not text_at(record, "id"):
            head.update(change if isinstance(change, dict) else {})
        for message in listed if isinstance(listed, list) else [record]:
            if isinstance(message, dict) and text_at(message, "id"):
                messages[message["id"]] = message
    head.pop("messages", None)
    return [head, *messages.values()]


def read(record: Record, about: About) -> Iterator[SessionEvent]:
    """Return the events of the head or of a message."""
    kind, time, message_id = record.get("type"), record.get("timestamp"), text_at(record, "id")
    if "sessionId" in record:
        about.learn(session=record["sessionId"])
    elif kind == "user":
        yield SessionEvent(Who.USER, words_of(record.get("content")), time)
    elif kind == "gemini":
        about.learn(model=record.get("model"))
        yield SessionEvent(Who.ASSISTANT, words_of(record.get("content")), time, message_id)
        for made in parts_of(record.get("toolCalls")):
            yield call(made.get("name"), made.get("args"), time, made.get("id"))
            for part in parts_of(made.get("result")):
                output = text_at(part, "functionResponse", "response", "output")
                yield SessionEvent(Who.UNSEEN, output, time, text_at(made, "id"))
        used = record.get("tokens")
        counts = (count_at(used, "input"), count_at(used, "output"), count_at(used, "cached"))
        yield spent(message_id, counts)


def ran_in(path: str) -> str:
    """Return the folder of a session; its digest if an older version named it by that."""
    place = os.path.dirname(os.path.dirname(path))
    with suppress(OSError), opened(os.path.join(place, ".project_root")) as file:
        return file.read(4_096).decode("utf-8", "replace").strip()
    return os.path.basename(place)


HOME = below(folder("GEMINI_CLI_HOME", ""), ".gemini")
EVENTS = {"session-start": "SessionStart", "prompt": "BeforeAgent"}
_MILLISECONDS = HOOK_SECONDS * 1000
_hooks = grouped({**EVENTS, "compaction": "PreCompress", "session-end": "SessionEnd"}, _MILLISECONDS)
_server = server("mcpServers")
_PLUGIN = {
    "gemini-extension.json": as_file(_server, **HEAD),
    "hooks/hooks.json": as_file(_hooks),
    **SKILL,
    **command_files("commands/{}.toml", as_toml),
}


def _plugged(read: Reader, _: Path | None) -> Iterator[Path]:
    place = HOME() / "extensions" / NAME
    installed = read(place / ".gemini-extension-install.json")  # Gemini writes it, but `connect` does not
    overrides = list_at(read(place.with_name("extension-enablement.json")), NAME, "overrides")
    if installed and f"!{HOME().parent}/*" not in overrides:
        yield Path(text_at(installed, "source") if at(installed, "type") == "link" else place, "hooks", "hooks.json")


AGENT = Agent(
    name="gemini",
    title="Gemini CLI",
    tried="0.61.0",
    home=HOME,
    memory=("GEMINI.md",),
    sessions=("tmp/*/chats/session-*.json", "tmp/*/chats/session-*.jsonl"),
    loaded=("GEMINI.md",),
    answer=specific(EVENTS),
    setup=(
        SetupFile(None, ".gemini/settings.json", united(_hooks, _server)),
        *extension(below(HOME, "extensions", NAME), _PLUGIN),
    ),
    plugin=_PLUGIN,
    plugged=_plugged,
    unplug="gemini extensions uninstall memsync",
    program="gemini",
    obstacles=(
        Obstacle(
            "settings.json", ("hooksConfig", "enabled"), is_false, "hooksConfig.enabled = false turns all hooks off"
        ),
    ),
    read=read,
    fold=fold,
    ran_in=ran_in,
)
