"""Claude Code: its folders and forms."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memsync.agents.events import About, Event, Record, Who, at, call, count_at, parts_of, text_at, words_of
from memsync.agents.port import Agent, folder


def read(record: Record, about: About) -> Iterator[Event]:
    """Return the events of a line. A message of the model has a line for each part, each with the message's usage."""
    kind, time = record.get("type"), record.get("timestamp")
    content = at(record, "message", "content")
    about.learn(session=record.get("sessionId"), cwd=record.get("cwd"), branch=record.get("gitBranch"))
    agent = text_at(record, "agentId") or ("subagent" if record.get("isSidechain") is True else "")
    if agent:
        about.learn(parent=record.get("sessionId"))
    if kind == "system" and record.get("subtype") == "compact_boundary":
        yield Event(Who.SYSTEM, "The agent compacted the conversation here.", time)
    elif kind == "attachment" and text_at(record, "attachment", "commandMode") == "prompt":
        yield Event(Who.USER, words_of(at(record, "attachment", "prompt")), time, agent=agent)
    elif kind == "user":
        for part in parts_of(content):
            if part.get("type") == "tool_result":
                yield Event(Who.UNSEEN, words_of(part.get("content")), time, text_at(part, "tool_use_id"))
        if record.get("isMeta") is not True:
            is_summary = record.get("isCompactSummary") is True
            yield Event(Who.SYSTEM if is_summary else Who.USER, words_of(content), time, agent=agent)
    elif kind == "assistant" and record.get("isApiErrorMessage") is not True:
        yield from _answered(record, about, agent)


def _answered(record: Record, about: About, agent: str) -> Iterator[Event]:
    message, time = record.get("message"), record.get("timestamp")
    message_id = text_at(message, "id")
    about.learn(model=at(message, "model"))
    for part in parts_of(at(message, "content")):
        if part.get("type") == "text":
            yield Event(Who.ASSISTANT, words_of([part]), time, message_id, agent=agent)
        elif part.get("type") == "tool_use":
            yield call(part.get("name"), part.get("input"), time, part.get("id"), agent=agent)
        else:
            yield Event(Who.UNSEEN, text_at(part, "thinking"))
    usage = at(message, "usage")
    cached = count_at(usage, "cache_read_input_tokens")
    new = count_at(usage, "input_tokens") + count_at(usage, "cache_creation_input_tokens")
    cost = record.get("costUSD")
    used = (new + cached, count_at(usage, "output_tokens"), cached)
    yield Event(Who.USAGE, id=message_id, used=used, cost=cost if isinstance(cost, float) else 0.0)


AGENT = Agent(
    name="claude-code",
    title="Claude Code",
    tried="2.1.330",
    home=folder("CLAUDE_CONFIG_DIR", ".claude"),
    memory=("CLAUDE.md", "projects/*/memory/**/*.md"),
    sessions=("projects/*/*.jsonl", "projects/*/*/subagents/*.jsonl"),
    loaded=("CLAUDE.md", "MEMORY.md"),
    own_folder=lambda folder: re.sub(r"[^A-Za-z0-9]", "-", folder),
    read=read,
)
