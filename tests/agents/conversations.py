"""One conversation in the form of each agent: a question, what the model said and did, and what a tool printed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ASKED = "Where does the heron nest?"
SAID = "I look into the notes."
DONE = "In the tall alder."
PRINTED = "birds.md: the alder"
THOUGHT = "The user likes herons."
INJECTED = "<memsync-recall>\n- an old line\n</memsync-recall>"
CALL = {"path": "birds.md"}
AT = "2026-11-20T10:00:00Z"

Lines = list[dict[str, Any]]


def claude_code(cwd: str, session: str = "s1") -> Lines:
    """Return the lines of a session of Claude Code."""
    common = {"sessionId": session, "cwd": cwd, "gitBranch": "main", "timestamp": AT}
    usage = {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 3}
    parts: list[dict[str, Any]] = [{"type": "thinking", "thinking": THOUGHT}, {"type": "text", "text": SAID}]
    parts.append({"type": "tool_use", "id": "t1", "name": "Read", "input": CALL})
    result = {"type": "tool_result", "tool_use_id": "t1", "content": PRINTED}
    return [
        {"type": "user", "message": {"content": f"{INJECTED}\n{ASKED}"}, **common},
        *({"type": "assistant", "message": {"id": "m1", "model": "m", "content": [part], "usage": usage}, **common}
          for part in parts),
        {"type": "user", "message": {"content": [result]}, **common},
        {"type": "assistant", "message": {"id": "m2", "model": "m", "usage": usage,
                                          "content": [{"type": "text", "text": DONE}]}, **common},
    ]  # fmt: skip


def _codex(cwd: str) -> Lines:
    def item(**payload: Any) -> dict[str, Any]:
        return {"timestamp": AT, "type": "response_item", "payload": payload}

    def counted(total: int, second: int) -> dict[str, Any]:
        last = {"input_tokens": 8, "output_tokens": 2, "cached_input_tokens": 3}
        info = {"last_token_usage": last, "total_token_usage": {"total_tokens": total}}
        at = AT.replace("00Z", f"{second:02}Z")
        return {"timestamp": at, "type": "event_msg", "payload": {"type": "token_count", "info": info}}

    def said(text: str) -> dict[str, Any]:
        return item(type="message", role="assistant", content=[{"type": "output_text", "text": text}])

    git = {"branch": "main"}
    return [
        {"timestamp": AT, "type": "session_meta", "payload": {"id": "s1", "cwd": cwd, "git": git}},
        {"timestamp": AT, "type": "turn_context", "payload": {"model": "m"}},
        item(type="message", role="user", content=[{"type": "input_text", "text": "# AGENTS.md instructions\nx"}]),
        item(type="message", role="user", content=[{"type": "input_text", "text": f"{ASKED}\n{INJECTED}"}]),
        item(type="reasoning", summary=[{"type": "summary_text", "text": THOUGHT}]),
        said(SAID),
        item(type="function_call", name="Read", arguments=json.dumps(CALL), call_id="t1"),
        counted(10, 1),
        item(type="function_call_output", call_id="t1", output=PRINTED),
        said(DONE),
        counted(20, 2),
        counted(20, 3),
    ]


def _gemini(cwd: str) -> Lines:
    tokens = {"input": 8, "output": 2, "cached": 3}
    call = {"id": "t1", "name": "Read", "args": CALL,
            "result": [{"functionResponse": {"response": {"output": PRINTED}}}]}  # fmt: skip
    first = {"id": "b", "type": "gemini", "timestamp": AT, "model": "m", "content": SAID}
    return [
        {"sessionId": "s1", "startTime": AT},
        {"id": "a", "type": "user", "timestamp": AT, "content": f"{ASKED}\n{INJECTED}"},
        first,
        {**first, "thoughts": [{"description": THOUGHT}], "toolCalls": [call], "tokens": tokens},
        {"id": "c", "type": "gemini", "timestamp": AT, "model": "m", "content": DONE, "tokens": tokens},
    ]


def _copilot(cwd: str) -> Lines:
    def event(kind: str, **data: Any) -> dict[str, Any]:
        return {"type": kind, "timestamp": AT, "data": data}

    call = {"toolCallId": "t1", "name": "Read", "arguments": CALL}
    return [
        event("session.start", sessionId="s1", selectedModel="m", context={"cwd": cwd, "branch": "main"}),
        event("user.message", content=ASKED, transformedContent=f"{INJECTED}\n{ASKED}"),
        event("assistant.message", messageId="m1", content=SAID, toolRequests=[call], outputTokens=2),
        event("tool.execution_complete", toolCallId="t1", result={"content": PRINTED}),
        event("assistant.message", messageId="m2", content=DONE, outputTokens=2),
    ]


def _cursor(cwd: str) -> Lines:
    asked = f"{INJECTED}\n<user_query>\n{ASKED}\n</user_query>"
    call = {"type": "tool_use", "name": "Read", "input": CALL}
    return [
        {"role": "user", "message": {"content": [{"type": "text", "text": asked}]}},
        {"role": "assistant", "message": {"content": [{"type": "text", "text": SAID}, call]}},
        {"role": "assistant", "message": {"content": [{"type": "text", "text": DONE}]}},
    ]


def _openclaw(cwd: str) -> Lines:
    usage = {"input": 5, "cacheRead": 3, "output": 2, "cost": {"total": 0.5}}
    call = {"type": "toolCall", "id": "t1", "name": "Read", "arguments": CALL}
    thought = {"type": "thinking", "thinking": THOUGHT}

    def message(key: str, role: str, content: Any, **more: Any) -> dict[str, Any]:
        return {"type": "message", "id": key, "timestamp": AT, "message": {"role": role, "content": content, **more}}

    return [
        {"type": "session", "id": "s1", "cwd": cwd, "timestamp": AT},
        {"type": "model_change", "modelId": "m"},
        message("a", "user", [{"type": "text", "text": f"{ASKED}\n{INJECTED}"}]),
        message("b", "assistant", [thought, {"type": "text", "text": SAID}, call], usage=usage),
        message("c", "toolResult", [{"type": "text", "text": PRINTED}], toolCallId="t1"),
        message("d", "assistant", [{"type": "text", "text": DONE}], usage=usage),
    ]


def _opencode(path: Path, cwd: str) -> None:
    tokens: dict[str, Any] = {"input": 5, "output": 2, "cache": {"read": 3, "write": 0}}
    call: dict[str, Any] = {"type": "tool", "tool": "Read", "callID": "t1", "state": {"input": CALL, "output": PRINTED}}
    turns: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        ({"role": "user"}, [{"type": "text", "text": INJECTED, "synthetic": True}, {"type": "text", "text": ASKED}]),
        ({"role": "assistant"}, [{"type": "reasoning", "text": THOUGHT}, {"type": "text", "text": SAID}, call]),
        ({"role": "assistant"}, [{"type": "text", "text": DONE}]),
    ]
    with sqlite3.connect(path) as database:
        database.executescript(
            "CREATE TABLE session (id TEXT, directory TEXT, parent_id TEXT);"
            "CREATE TABLE message (id TEXT, session_id TEXT, time_created INT, time_updated INT, data TEXT);"
            "CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, time_updated INT, data TEXT);"
        )
        database.execute("INSERT INTO session VALUES ('s1', ?, NULL)", (cwd,))
        for number, (about, parts) in enumerate(turns):
            about |= {"time": {"created": 1_795_168_800_000}, "modelID": "m", "tokens": tokens}
            row = (f"m{number}", "s1", number, number, json.dumps(about))
            database.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", row)
            for place, part in enumerate(parts):
                own = (f"p{number}{place}", f"m{number}", "s1", number, json.dumps(part))
                database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?)", own)
    database.close()


PLACES = {
    "claude-code": ".claude/projects/-p/s1.jsonl",
    "codex": ".codex/sessions/2026/11/20/rollout-s1.jsonl",
    "gemini": ".gemini/tmp/p/chats/session-s1.jsonl",
    "copilot": ".copilot/session-state/s1/events.jsonl",
    "cursor": ".cursor/projects/p/agent-transcripts/s1/s1.jsonl",
    "openclaw": ".openclaw/agents/main/sessions/s1.jsonl",
    "opencode": ".local/share/opencode/opencode.db",
}
"""Where each agent keeps the session, below the home folder."""
_LINES: Mapping[str, Callable[[str], Lines]] = {
    "claude-code": claude_code, "codex": _codex, "gemini": _gemini, "copilot": _copilot, "cursor": _cursor,
    "openclaw": _openclaw,
}  # fmt: skip


def as_bytes(lines: Lines) -> bytes:
    """Return lines as JSON Lines."""
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def converse(agent: str, cwd: str = "/home/me/pond") -> Path:
    """Write the conversation where the agent keeps it, and return its file."""
    path = Path.home() / PLACES[agent]
    path.parent.mkdir(parents=True, exist_ok=True)
    if agent == "opencode":
        _opencode(path, cwd)
    else:
        path.write_bytes(as_bytes(_LINES[agent](cwd)))
    return path
