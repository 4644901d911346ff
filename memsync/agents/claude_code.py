"""Claude Code: its folders and formats."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from memsync.agents.agent import NAME, Agent, Obstacle, Reader, SetupFile, as_file, below, folder, grouped, server
from memsync.agents.events import (
    About,
    Record,
    SessionEvent,
    Who,
    answered,
    at,
    list_at,
    object_at,
    parts_of,
    text_at,
    words_of,
)
from memsync.agents.plugin_files import AUTHOR, HEAD, SKILL, as_markdown, command_files

_TOKENS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def read(record: Record, about: About) -> Iterator[SessionEvent]:
    """Return the events of a line. Each part of a model's message has its own line, which repeats the usage."""
    kind, time = record.get("type"), record.get("timestamp")
    content = at(record, "message", "content")
    about.learn(session=record.get("sessionId"), cwd=record.get("cwd"), branch=record.get("gitBranch"))
    agent = text_at(record, "agentId") or ("subagent" if record.get("isSidechain") is True else "")
    if kind == "system" and record.get("subtype") == "compact_boundary":
        yield SessionEvent(Who.SYSTEM, "The agent compacted the conversation here.", time)
    elif kind == "attachment" and text_at(record, "attachment", "commandMode") == "prompt":
        yield SessionEvent(Who.USER, words_of(at(record, "attachment", "prompt")), time, agent=agent)
    elif kind == "user":
        for part in parts_of(content):
            if part.get("type") == "tool_result":
                result = words_of(part.get("content"))
                yield SessionEvent(Who.UNSEEN, result, time, text_at(part, "tool_use_id"))
                for who, text in _said(record, result):
                    yield SessionEvent(who, text, time, agent=agent)
        if record.get("isMeta") is not True:
            is_summary = record.get("isCompactSummary") is True
            yield SessionEvent(Who.SYSTEM if is_summary else Who.USER, words_of(content), time, agent=agent)
    elif kind == "assistant" and record.get("isApiErrorMessage") is not True:
        message = record.get("message")
        if at(message, "model") != "<synthetic>":  # which Claude Code itself writes
            cost = record.get("costUSD")
            yield from answered(message, text_at(message, "id"), time, about, _TOKENS, cost, agent)


def _said(record: Record, result: str) -> Iterator[tuple[Who, str]]:
    """Yield what was said instead of running a tool: the agent's questions with the user's answers, and why he refused.

    Claude Code itself says in a field that it was the user: anybody may have written a result's text.
    """
    if record.get("toolDenialKind") == "user-rejected" or record.get("toolUseResult") == "User rejected tool use":
        reason = result.partition("the user said:\n")[2].partition("\n\nNote: The user's next message")[0]
        yield Who.USER, "" if reason.startswith("The user wants to clarify") else reason
    for question, answer in object_at(record, "toolUseResult", "answers").items():
        if list_at(record, "toolUseResult", "questions") and isinstance(answer, str):
            yield Who.ASSISTANT, f"“{' '.join(question.split()).replace('”', '’')}”"
            yield Who.USER, answer


HOME = folder("CLAUDE_CONFIG_DIR", ".claude")
MIN_KEPT_DAYS = 7
"""memsync's daemon can be stopped for a week without missing a transcript."""
EVENTS = {
    "session-start": "SessionStart", "prompt": "UserPromptSubmit", "compaction": "PreCompact",
    "session-end": "SessionEnd",
}  # fmt: skip
_hooks, _server = grouped(EVENTS), server("mcpServers", alwaysLoad=True)  # the first request waits for the tools


def _plugged(read: Reader, folder: Path | None) -> Iterator[Path]:
    places = [HOME() / "settings.json"]
    places += [folder / ".claude" / name for name in ("settings.json", "settings.local.json")] if folder else []
    enabled = {key: is_on for place in places for key, is_on in object_at(read(place), "enabledPlugins").items()}
    copies = object_at(read(HOME() / "plugins" / "installed_plugins.json"), "plugins")
    for key in copies:
        if key.startswith(f"{NAME}@") and enabled.get(key):
            yield from (Path(text_at(one, "installPath"), "hooks", "hooks.json") for one in list_at(copies, key)[-1:])


def _servers() -> Path:
    """Return the file with the user's MCP servers: in HOME if a variable names that, otherwise in the user's home."""
    return HOME() / ".claude.json" if os.environ.get("CLAUDE_CONFIG_DIR") else Path("~/.claude.json").expanduser()


AGENT = Agent(
    name="claude-code",
    title="Claude Code",
    tried="2.1.332",
    home=HOME,
    memory=("CLAUDE.md", "projects/*/memory/**/*.md"),
    sessions=("projects/*/*.jsonl", "projects/*/*/subagents/*.jsonl"),
    loaded=("CLAUDE.md", "MEMORY.md"),
    own_folder=lambda folder: "projects/" + re.sub(r"[^A-Za-z0-9]", "-", folder),
    setup=(
        SetupFile(below(HOME, "settings.json"), ".claude/settings.json", _hooks),
        SetupFile(_servers, ".mcp.json", _server),
    ),
    plugin={
        ".claude-plugin/plugin.json": as_file(**HEAD, author=AUTHOR, license="Apache-2.0"),
        ".mcp.json": as_file(_server),
        "hooks/hooks.json": as_file(_hooks),
        **SKILL,
        **command_files("commands/{}.md", as_markdown),
    },
    plugged=_plugged,
    unplug="claude plugin uninstall memsync",
    program="claude",
    memory_setting="autoMemoryDirectory",
    obstacles=(
        Obstacle("settings.json", ("disableAllHooks",), bool, "disableAllHooks turns all hooks off"),
        Obstacle(
            "settings.json",
            ("cleanupPeriodDays",),
            lambda days: not isinstance(days, int) or days < MIN_KEPT_DAYS,
            f"cleanupPeriodDays is below {MIN_KEPT_DAYS}, so Claude Code may delete transcripts before memsync reads "
            f"them. Set it to {MIN_KEPT_DAYS} or more",
        ),
    ),
    read=read,
)
