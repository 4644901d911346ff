"""Cursor: its folders and formats."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from memsync.agents.agent import HOOK_SECONDS, Agent, Caller, SetupFile, below, folder, server, under
from memsync.agents.events import About, Record, SessionEvent, Who, at, call, parts_of, text_at, words_of

_ASKED = re.compile(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)


def read(record: Record, about: About) -> Iterator[SessionEvent]:  # noqa: ARG001 (because all readers have these parameters)
    """Return the events of a line, without the open files, rules and dates that Cursor adds to the user's question."""
    content = at(record, "message", "content")
    if record.get("type"):
        return
    if record.get("role") == "user":
        text = words_of(content)
        asked = _ASKED.search(text) if "</user_query>" in text else None
        attached = words_of([part for part in parts_of(content) if part.get("type") != "text"])
        yield SessionEvent(Who.USER, "\n\n".join(filter(None, [asked[1], attached])) if asked else text)
    elif record.get("role") == "assistant":
        for part in parts_of(content):
            if part.get("type") == "tool_use":
                yield call(part.get("name"), part.get("input"), "", part.get("id"))
            elif text := text_at(part, "text"):
                yield SessionEvent(Who.ASSISTANT, text)


HOME = folder("CURSOR_CONFIG_DIR", ".cursor")
EVENTS = {
    "session-start": "sessionStart", "prompt": "beforeSubmitPrompt", "compaction": "preCompact",
    "session-end": "sessionEnd",
}  # fmt: skip


def _hooks(_: Sequence[str], call: Caller) -> dict[str, Any]:
    hooks = {name: [{"command": call(event), "timeout": HOOK_SECONDS}] for event, name in EVENTS.items()}
    return {"version": 1, "hooks": hooks}


AGENT = Agent(
    name="cursor",
    title="Cursor",
    tried="",
    home=HOME,
    memory=("rules/**/*.mdc",),
    sessions=("projects/*/agent-transcripts/**/*.jsonl",),
    loaded=("AGENTS.md",),
    answer=under("additional_context"),
    setup=(
        SetupFile(below(HOME, "hooks.json"), ".cursor/hooks.json", _hooks),
        SetupFile(below(HOME, "mcp.json"), ".cursor/mcp.json", server("mcpServers")),
    ),
    program="cursor",
    reads_too=("claude-code",),
    read=read,
    ran_in=lambda path: path.rpartition("/agent-transcripts/")[0].rpartition("/projects/")[2],
)
