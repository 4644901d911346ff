"""A model by script, on loopback: it calls `memory_search` once, and then says what it was told to say.

It speaks the four forms in which agents ask models, as server-sent events: Anthropic's messages, OpenAI's responses and
chat completions, and Google's streamGenerateContent.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

TOOL = "memory_search"
MODEL = "scripted"
Request = dict[str, Any]
Events = list[dict[str, Any]]


class Call(NamedTuple):
    """A call of a tool, which may have a namespace."""

    namespace: str
    name: str
    query: str = ""
    through: str = ""

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments. OpenClaw's tool_call calls the tool `through` itself."""
        given = {"query": self.query}
        return {"id": self.through, "args": given} if self.through else given


@dataclass
class Script:
    """What the model asks `memory_search`, what it says at the end, and the requests that it got."""

    question: str
    last_words: str
    requests: list[Request] = field(default_factory=list)

    def turn(self, request: Request) -> Call | str:
        """Return the next call of a tool; or the last words, after the call or if nothing can be called."""
        self.requests.append(request)
        text, tools = json.dumps(request), request.get("tools") or []
        if self.question in text:
            return self.last_words
        return offered(tools, self.question) or self.last_words


def offered(tools: list[dict[str, Any]], question: str = "") -> Call | None:
    """Return the call of `memory_search` that these tools allow: of itself, or through OpenClaw's tool_call."""
    if tool := _tool(tools, TOOL):
        return tool._replace(query=question)
    tool = _tool(tools, "tool_call")
    return tool and tool._replace(query=question, through=f"memsync__{TOOL}")


def _tool(tools: list[dict[str, Any]], end: str, namespace: str = "") -> Call | None:
    """Return the tool whose name ends so, as the agent offers it."""
    for tool in tools:
        name = str(tool.get("name") or (tool.get("function") or {}).get("name", ""))
        if name.endswith(end):
            return Call(namespace, name)
        if inner := _tool(tool.get("tools") or tool.get("functionDeclarations") or [], end, name):
            return inner
    return None


def _anthropic(said: Call | str, number: int) -> Events:
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": said}
    if isinstance(said, Call):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": said.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(said.arguments)}
    usage = {"input_tokens": 900, "output_tokens": 9}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": MODEL, "content": []}
    return [
        {"type": "message_start", "message": {**message, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use" if isinstance(said, Call) else "end_turn"},
            "usage": usage,
        },
        {"type": "message_stop"},
    ]


def _responses(said: Call | str, number: int) -> Events:
    content: Events = [{"type": "output_text", "text": said, "annotations": []}]
    item: dict[str, Any] = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content}
    if isinstance(said, Call):
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": said.name}
        item["arguments"] = json.dumps(said.arguments)
        item |= {"namespace": said.namespace} if said.namespace else {}
    usage = {"input_tokens": 900, "output_tokens": 9, "total_tokens": 909}
    return [
        {"type": "response.created", "response": {"id": f"resp_{number}"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": f"resp_{number}", "output": [item], "usage": usage}},
    ]


def _chat(said: Call | str, number: int) -> Events:
    message: dict[str, Any] = {"role": "assistant", "content": said}
    if isinstance(said, Call):
        function = {"name": said.name, "arguments": json.dumps(said.arguments)}
        call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        message |= {"content": None, "tool_calls": [call]}
    end = "tool_calls" if isinstance(said, Call) else "stop"
    usage = {"prompt_tokens": 900, "completion_tokens": 9, "total_tokens": 909}
    chunk = {"id": f"chat_{number}", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "usage": usage}
    choices: Events = [{"delta": message, "finish_reason": None}, {"delta": {}, "finish_reason": end}]
    return [{**chunk, "choices": [{"index": 0, **choice}]} for choice in choices]


def _gemini(said: Call | str, number: int) -> Events:
    part = {"functionCall": {"name": said.name, "args": said.arguments}} if isinstance(said, Call) else {"text": said}
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    usage = {"promptTokenCount": 900, "candidatesTokenCount": 9, "totalTokenCount": 909}
    return [{"candidates": [candidate], "usageMetadata": usage}]


FORMS = {
    "/messages": _anthropic,
    "/responses": _responses,
    "/chat/completions": _chat,
    ":streamGenerateContent": _gemini,
}


class _Handler(BaseHTTPRequestHandler):
    script: Script
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer what is no question to the model: lists of models, settings."""
        self._send("application/json", b'{"data": [], "models": []}')

    def do_POST(self) -> None:
        """Answer as the model."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        form = next((form for end, form in FORMS.items() if path.endswith(end)), None)
        if form is None:
            self._send("application/json", b'{"input_tokens": 9, "totalTokens": 9}')
            return
        events = form(self.script.turn(json.loads(body)), len(self.script.requests))
        self._send("text/event-stream", b"".join(map(_event, events)))

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def _event(data: dict[str, Any]) -> bytes:
    name = f"event: {data['type']}\n" if "type" in data else ""
    return f"{name}data: {json.dumps(data)}\n\n".encode()


@contextmanager
def model(script: Script) -> Iterator[str]:
    """Run a model on loopback. Yields its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"script": script}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
