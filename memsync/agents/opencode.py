"""OpenCode: its folders and formats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from memsync.agents.agent import NAME, Agent, Reader, SetupFile, as_file, below, folder
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
from memsync.agents.plugin_files import HEAD, SKILL, script


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


def _plugged(read: Reader, folder: Path | None) -> Iterator[Path]:
    folders = [SETTINGS(), *([folder, folder / ".opencode"] if folder else [])]
    for place in (folder / name for folder in folders for name in ("opencode.json", "opencode.jsonc")):
        for listed in list_at(read(place), "plugin"):
            spec = listed[0] if isinstance(listed, list) and listed else listed
            package = place.parent / str(spec).removeprefix("file://")
            if at(read(package / "package.json"), "name") == NAME:
                yield package / "index.js"


_script = script("opencode.js")


AGENT = Agent(
    name="opencode",
    title="OpenCode",
    tried="1.18.33",
    home=SETTINGS,
    data=folder("OPENCODE_DATA_DIR", ".local/share/opencode"),
    memory=("AGENTS.md",),
    sessions=("opencode.db",),
    loaded=("AGENTS.md",),
    setup=(SetupFile(below(SETTINGS, "plugins", "memsync.js"), ".opencode/plugins/memsync.js", _script),),
    plugin={"package.json": as_file(**HEAD, type="module", main="index.js"), "index.js": _script, **SKILL},
    plugged=_plugged,
    unplug="delete it from `plugin` in opencode.json",
    program="opencode",
    read=read,
)
