"""Codex: its folders and formats."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memsync.agents.agent import (
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
)
from memsync.agents.events import (
    About,
    Record,
    SessionEvent,
    Who,
    at,
    call,
    count_at,
    moment_of,
    object_at,
    spent,
    text_at,
    words_of,
)
from memsync.agents.plugin_files import HEAD, SKILL, as_skill, command_files

_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")
_ANSWERS = ("function_call_output", "custom_tool_call_output")
_OF_EDITOR, _REQUEST = "# Context from my IDE setup:", "## My request for Codex:"
"""An editor's extension puts the open files before what the user typed."""
_OF_THE_PROJECT = "# AGENTS.md instructions"
_USER_TEXT = "user.text"
"""How Codex marks a message that the user typed. Older versions mark nothing."""


def read(record: Record, about: About) -> Iterator[SessionEvent]:
    """Return the events of a line. Messages are in `response_item`; `event_msg` repeats them, with the tokens."""
    kind, time, payload = record.get("type"), record.get("timestamp"), record.get("payload")
    inner = text_at(payload, "type")
    if kind == "session_meta":
        own = at(payload, "id") or at(payload, "session_id")
        if about.session not in ("", own):  # a fork begins with a copy of another session
            return
        about.learn(begun=moment_of(time), session=own, cwd=at(payload, "cwd"), branch=at(payload, "git", "branch"))
        about.learn(parent=at(payload, "source", "subagent", "thread_spawn", "parent_thread_id"))
    elif kind == "turn_context":
        about.learn(model=at(payload, "model"), cwd=at(payload, "cwd"))
    elif kind == "compacted":
        yield SessionEvent(
            Who.SYSTEM, text_at(payload, "message") or "The agent compacted the conversation here.", time
        )
    elif kind == "event_msg" and inner == "token_count":
        total = count_at(payload, "info", "total_token_usage", "total_tokens")
        if total and total == about.total:  # only the limits of the account changed
            return
        about.total = total
        last = at(payload, "info", "last_token_usage")
        cached = count_at(last, "cached_input_tokens")
        yield spent(
            f"{about.key or time} {total}", (count_at(last, "input_tokens"), count_at(last, "output_tokens"), cached)
        )
    elif kind == "response_item":
        yield from _said(payload, inner, time)


def _said(payload: Any, inner: str, time: Any) -> Iterator[SessionEvent]:
    if inner in _CALLS:
        given = at(payload, "arguments") or at(payload, "input") or at(payload, "action")
        yield call(at(payload, "name") or inner, given, time, at(payload, "call_id"))
    elif inner in _ANSWERS:
        output = at(payload, "output")
        yield SessionEvent(Who.UNSEEN, words_of(at(output, "content") or output), time, text_at(payload, "call_id"))
    elif text_at(payload, "role") == "assistant":
        yield SessionEvent(Who.ASSISTANT, words_of(at(payload, "content")), time)
    elif text_at(payload, "role") == "user":
        text = words_of(at(payload, "content"))
        if text.startswith(_OF_EDITOR):
            text = text.rpartition(_REQUEST)[2].strip() or text
        kinds = at(payload, "internal_chat_message_metadata_passthrough", "content_item_kinds")
        is_said = _USER_TEXT in kinds if isinstance(kinds, list) else not text.startswith(_OF_THE_PROJECT)
        yield SessionEvent(Who.USER if is_said else Who.UNSEEN, text, time)


HOME = folder("CODEX_HOME", ".codex")
EVENTS = {"session-start": "SessionStart", "prompt": "UserPromptSubmit"}
SECONDS = 3
"""Codex allows at most this time for the hook at the end of a session."""
_hooks = grouped({**EVENTS, "session-end": "SessionEnd"}, SECONDS)


def _plugged(read: Reader, _: Path | None) -> Iterator[Path]:
    for key, plugin in object_at(read(HOME() / "config.toml"), "plugins").items():
        if key.startswith(f"{NAME}@") and at(plugin, "enabled") is not False:
            copies = HOME().glob(f"plugins/cache/{key.partition('@')[2]}/{NAME}/*/hooks/hooks.json")
            yield from sorted(copies, key=os.path.getmtime)[-1:]


AGENT = Agent(
    name="codex",
    title="Codex",
    tried="0.171.0",
    home=HOME,
    memory=("AGENTS.md", "memories/**/*.md"),
    sessions=("sessions/*/*/*/rollout-*.jsonl",),
    loaded=("AGENTS.md",),
    answer=specific(EVENTS),
    setup=(
        SetupFile(below(HOME, "hooks.json"), ".codex/hooks.json", _hooks),
        SetupFile(below(HOME, "config.toml"), ".codex/config.toml", server("mcp_servers")),
    ),
    plugin={
        ".codex-plugin/plugin.json": as_file(
            **HEAD, skills="./skills/", mcpServers="./.mcp.json", hooks="./hooks/hooks.json"
        ),
        ".mcp.json": as_file(server("mcpServers")),
        "hooks/hooks.json": as_file(_hooks),
        **SKILL,
        **command_files("skills/{}/SKILL.md", as_skill),
    },
    plugged=_plugged,
    unplug="codex plugin remove memsync",
    afterwards="Codex runs no hook before you trust it: start codex, and type /hooks.",
    program="codex",
    obstacles=(
        Obstacle("config.toml", ("features", "hooks"), is_false, "[features] hooks = false turns all hooks off"),
    ),
    read=read,
)
