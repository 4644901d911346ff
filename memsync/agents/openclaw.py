"""OpenClaw: its folders and formats."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memsync.agents.agent import NAME, Agent, Obstacle, Reader, SetupFile, as_file, below, folder, server
from memsync.agents.events import About, Record, SessionEvent, Who, answered, at, list_at, text_at, words_of
from memsync.agents.plugin_files import HEAD, SKILL, as_skill, command_files, extension, script

_OF_PROGRAM = re.compile(
    r"^(?:System: \[\d{4}-[^\n]*|\[message_id: [^\n]*\])$"
    r"|^[^\n]{1,80} \(untrusted[^\n]{0,20}\):\n```json\n[^`]{0,4000}\n```$"
    r"|\A\s*\[[A-Z][^\]\n]{0,200}\d{4}-\d\d-\d\d[ T]\d\d:\d\d[^\]\n]{0,20}\] ",
    re.MULTILINE,
)
"""What OpenClaw writes into a user's message: who sent it and when."""


def read(record: Record, about: About) -> Iterator[SessionEvent]:
    """Return the events of a line."""
    kind, time, message = record.get("type"), record.get("timestamp"), record.get("message")
    role, content, message_id = text_at(message, "role"), at(message, "content"), text_at(record, "id")
    if kind == "session":
        parent = text_at(record, "parentSession")
        about.learn(session=record.get("id"), cwd=record.get("cwd"), parent=os.path.basename(parent)[:100])
    elif kind == "model_change":
        about.learn(model=record.get("modelId"))
    elif kind in ("compaction", "branch_summary"):
        yield SessionEvent(Who.SYSTEM, text_at(record, "summary") or "The agent compacted the conversation here.", time)
    elif kind != "message":
        return
    elif role == "user":
        yield SessionEvent(Who.USER, _OF_PROGRAM.sub("", words_of(content)).strip("\n"), time)
    elif role == "toolResult":
        yield SessionEvent(Who.UNSEEN, words_of(content), time, text_at(message, "toolCallId"))
    elif role == "assistant":
        tokens = ("input", "cacheWrite", "cacheRead", "output")
        yield from answered(message, message_id, time, about, tokens, at(message, "usage", "cost", "total"))


HOME = folder("OPENCLAW_STATE_DIR", ".openclaw")
_extension = below(HOME, "extensions", NAME)


# Without this access, OpenClaw does not run the plugin's hook at a prompt.
_ACCESS = {"enabled": True, "hooks": {"allowConversationAccess": True}}
_HEAD = {"id": NAME, **HEAD, "skills": ["skills"], "configSchema": {"type": "object", "properties": {}}}
_PLUGIN = {
    "openclaw.plugin.json": as_file(server("mcpServers"), **_HEAD),
    "package.json": as_file(**HEAD, type="module", openclaw={"extensions": ["./index.js"]}),
    "index.js": script("openclaw.js"),
    **SKILL,
    **command_files("skills/{}/SKILL.md", as_skill),
}


def _does_not_load(plugins: Any) -> bool:
    return at(plugins, "enabled") is False or NAME not in (at(plugins, "allow") or [NAME])


def _plugged(read: Reader, _: Path | None) -> Iterator[Path]:
    plugins = at(read(HOME() / "openclaw.json"), "plugins")
    for place in [_extension(), *(Path(str(path)) for path in list_at(plugins, "load", "paths"))]:
        is_own = at(read(place / "openclaw.plugin.json"), "id") == NAME
        is_installed = (place / "README.md").exists()  # `connect` writes none
        if is_own and is_installed and at(plugins, "entries", NAME, "enabled") is not False:
            yield place / "index.js"


AGENT = Agent(
    name="openclaw",
    title="OpenClaw",
    tried="2026.9.6",
    home=HOME,
    memory=("workspace/**/*.md",),
    sessions=("agents/*/agent/openclaw-agent.sqlite", "agents/*/sessions/*.jsonl"),
    loaded=("AGENTS.md", "MEMORY.md", "SOUL.md", "USER.md"),
    setup=(
        *extension(_extension, _PLUGIN),
        SetupFile(
            below(HOME, "openclaw.json"), None, lambda program, call: {"plugins": {"entries": {NAME: _ACCESS}}}, True
        ),
    ),
    plugin=_PLUGIN,
    plugged=_plugged,
    unplug="openclaw plugins uninstall memsync",
    program="openclaw",
    obstacles=(
        Obstacle(
            "openclaw.json",
            ("plugins",),
            _does_not_load,
            "plugins.enabled or plugins.allow stops OpenClaw from loading memsync",
        ),
        Obstacle(
            "openclaw.json",
            (),
            lambda file: at(file, "plugins", "entries", NAME, "hooks", "allowConversationAccess") is not True,
            "OpenClaw runs none of memsync's hooks before you allow it: openclaw config set "
            "plugins.entries.memsync.hooks.allowConversationAccess true",
        ),
    ),
    read=read,
)
