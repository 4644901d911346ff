"""Copilot CLI: its folders and formats."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from memsync.agents.agent import HOOK_SECONDS, Agent, Caller, SetupFile, as_file, below, folder, server, under
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
    """Return the events of a line."""
    kind, time, data = record.get("type"), record.get("timestamp"), record.get("data")
    if kind in ("session.start", "session.resume"):
        about.learn(session=at(data, "sessionId"), cwd=at(data, "context", "cwd"), model=at(data, "selectedModel"))
        about.learn(branch=at(data, "context", "branch"))
    elif kind == "session.model_change":
        about.learn(model=at(data, "newModel"))
    elif kind == "user.message":
        said = [text_at(data, "content"), words_of(at(data, "attachments"))]
        yield SessionEvent(Who.USER, "\n\n".join(filter(None, said)), time)
    elif kind == "assistant.message":
        message_id = text_at(data, "messageId")
        yield SessionEvent(Who.ASSISTANT, text_at(data, "content"), time, message_id)
        for made in parts_of(at(data, "toolRequests")):
            yield call(made.get("name"), made.get("arguments"), time, made.get("toolCallId"))
        yield spent(message_id, (0, count_at(data, "outputTokens"), 0))
    elif kind == "tool.execution_complete":
        yield SessionEvent(Who.UNSEEN, text_at(data, "result", "content"), time, text_at(data, "toolCallId"))
    elif kind == "session.compaction_complete":
        yield SessionEvent(
            Who.SYSTEM, text_at(data, "summaryContent") or "The agent compacted the conversation here.", time
        )


HOME = folder("COPILOT_HOME", ".copilot")
EVENTS = {"session-start": "sessionStart", "prompt": "userPromptSubmitted", "session-end": "sessionEnd"}


def _hooks(_: Sequence[str], call: Caller) -> dict[str, Any]:
    form = {"type": "command", "timeoutSec": HOOK_SECONDS}
    return {"hooks": {name: [{**form, "bash": call(event)}] for event, name in EVENTS.items()}}


AGENT = Agent(
    name="copilot",
    title="Copilot CLI",
    tried="1.0.102",
    home=HOME,
    memory=("copilot-instructions.md",),
    sessions=("session-state/*/events.jsonl",),
    loaded=("copilot-instructions.md", "AGENTS.md"),
    answer=under("additionalContext"),
    setup=(
        SetupFile(below(HOME, "hooks", "memsync.json"), ".github/hooks/memsync.json", as_file(_hooks, version=1)),
        SetupFile(below(HOME, "mcp-config.json"), None, server("mcpServers", type="local", tools=["*"])),
    ),
    program="copilot",
    read=read,
    session_name=lambda path: os.path.basename(os.path.dirname(path)),  # because every transcript is events.jsonl
)
