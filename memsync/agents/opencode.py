"""OpenCode: its folders and formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from memsync.agents.agent import NAME, Agent, Caller, SetupFile, below, folder, plugin
from memsync.agents.events import (
    About,
    Record,
    SessionEvent,
    Who,
    at,
    call,
    count_at,
    parts_of,
    spent,
    text_at,
    words_of,
)


def read(record: Record, about: About) -> Iterator[SessionEvent]:
    """Return the events of a row of the database: a session, or a message with its parts."""
    data = record.get("data")
    time = at(data, "time", "created")
    row = record.get("session")
    if row is not None:
        about.learn(session=at(row, "id"), cwd=at(row, "directory"), parent=at(row, "parent_id"))
        return
    message_id = text_at(record, "id")
    is_user = at(data, "role") == "user"
    about.learn(model=at(data, "modelID"))
    said = [part for part in parts_of(record.get("parts")) if part.get("synthetic") is not True]
    if is_user:
        yield SessionEvent(Who.USER, words_of(said), time)
    for part in parts_of(record.get("parts")):
        kind = part.get("type")
        if kind == "text" and not is_user and part.get("synthetic") is not True:
            yield SessionEvent(Who.ASSISTANT, text_at(part, "text"), time, message_id)
        elif kind == "tool":
            yield call(at(part, "tool"), at(part, "state", "input"), time, at(part, "callID"))
            yield SessionEvent(Who.UNSEEN, text_at(part, "state", "output"), time, text_at(part, "callID"))
        elif kind == "compaction":
            yield SessionEvent(Who.SYSTEM, "The agent compacted the conversation here.", time)
    tokens = at(data, "tokens")
    cached = count_at(tokens, "cache", "read")
    used = (count_at(tokens, "input") + count_at(tokens, "cache", "write") + cached, count_at(tokens, "output"), cached)
    if not is_user:
        yield spent(message_id, used, at(data, "cost"))


SETTINGS = folder("OPENCODE_CONFIG_DIR", ".config/opencode")


def _config() -> Path:
    """Return the user's settings file: opencode.jsonc if it exists, otherwise opencode.json."""
    place = SETTINGS() / "opencode.jsonc"
    return place if place.exists() else place.with_suffix(".json")


def _server(program: Sequence[str], _: Caller) -> dict[str, Any]:
    return {"mcp": {NAME: {"type": "local", "command": [*program, "mcp"], "enabled": True}}}


_plugin = plugin("opencode.js", "opencode")


AGENT = Agent(
    name="opencode",
    title="OpenCode",
    tried="1.18.33",
    home=SETTINGS,
    data=folder("OPENCODE_DATA_DIR", ".local/share/opencode"),
    memory=("AGENTS.md",),
    sessions=("opencode.db",),
    loaded=("AGENTS.md",),
    setup=(
        SetupFile(below(SETTINGS, "plugins", "memsync.js"), ".opencode/plugins/memsync.js", _plugin),
        SetupFile(_config, "opencode.json", _server),
    ),
    program="opencode",
    read=read,
)
