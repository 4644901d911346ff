"""OpenClaw: its folders and formats."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from memsync.agents.agent import NAME, Agent, Caller, Obstacle, SetupFile, below, folder, plugin
from memsync.agents.events import About, Record, SessionEvent, Who, answered, at, text_at, words_of

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


def _entries(program: Sequence[str], _: Caller) -> dict[str, Any]:
    return {
        # without this access, OpenClaw does not run the plugin's hook at a prompt
        "plugins": {"entries": {NAME: {"enabled": True, "hooks": {"allowConversationAccess": True}}}},
        "mcp": {"servers": {NAME: {"command": program[0], "args": [*program[1:], "mcp"]}}},
    }


def _does_not_load(plugins: Any) -> bool:
    return at(plugins, "enabled") is False or NAME not in (at(plugins, "allow") or [NAME])


AGENT = Agent(
    name="openclaw",
    title="OpenClaw",
    tried="2026.9.6",
    home=HOME,
    memory=("workspace/**/*.md",),
    sessions=("agents/*/agent/openclaw-agent.sqlite", "agents/*/sessions/*.jsonl"),
    loaded=("AGENTS.md", "MEMORY.md", "SOUL.md", "USER.md"),
    setup=(
        SetupFile(below(_extension, "openclaw.plugin.json"), None, plugin("openclaw.plugin.json", "openclaw")),
        SetupFile(below(_extension, "package.json"), None, plugin("openclaw.package.json", "openclaw")),
        SetupFile(below(_extension, "index.js"), None, plugin("openclaw.js", "openclaw")),
        SetupFile(below(HOME, "openclaw.json"), None, _entries),
    ),
    program="openclaw",
    obstacles=(
        Obstacle(
            "openclaw.json",
            ("plugins",),
            _does_not_load,
            "plugins.enabled or plugins.allow stops OpenClaw from loading memsync",
        ),
    ),
    read=read,
)
