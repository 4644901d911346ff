"""A model by script, on loopback: it calls `memory_search` once, and then says what it was told to say.

It speaks the four forms in which agents ask models: Anthropic's messages, OpenAI's responses and chat completions, and
Google's generateContent; as server-sent events, or as one JSON document to who does not stream.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

TOOL = "memory_search"
DEFERRED = re.compile(rf"mcp__\w+__{TOOL}")
"""Claude Code tells the model only the names of tools, which it finds with the tool ToolSearch."""
Events = list[tuple[str, dict[str, Any]]]
"""The name of each event, where the form has one, and its data."""


class Call(NamedTuple):
    """A call of a tool."""

    namespace: str
    name: str
    arguments: dict[str, str]


@dataclass
class Script:
    """What the model asks `memory_search`, what it says at the end, and the requests that it got."""

    question: str
    last_words: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """The paths of other requests, which get an empty object."""

    def turn(self, request: dict[str, Any]) -> Call | None:
        """Return the tool that is to be called next; None if it is time to speak."""
        self.requests.append(request)
        text, tools = json.dumps(request), request.get("tools") or []
        if self.question in text:
            return None
        found = _tool(tools, TOOL)
        deferred = DEFERRED.search(text)
        if found or not deferred or not (finder := _tool(tools, "ToolSearch")):
            return found and found._replace(arguments={"query": self.question})
        if f"select:{deferred[0]}" not in text:
            return finder._replace(arguments={"query": f"select:{deferred[0]}"})
        return Call("", deferred[0], {"query": self.question})


def _tool(tools: list[dict[str, Any]], end: str, namespace: str = "") -> Call | None:
    """Return the tool whose name ends so, as the agent offers it."""
    for tool in tools:
        function = tool.get("function")
        name = str((function if isinstance(function, dict) else tool).get("name", ""))
        if name.endswith(end):
            return Call(namespace, name, {})
        inner = _tool(tool.get("tools") or tool.get("functionDeclarations") or [], end, name)
        if inner is not None:
            return inner
    return None


def _anthropic(script: Script, request: dict[str, Any]) -> Events:
    call = script.turn(request)
    usage = {"input_tokens": 900, "output_tokens": 9}
    content, part = (
        (
            {"type": "tool_use", "id": f"toolu_{len(script.requests)}", "name": call.name, "input": {}},
            {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)},
        )
        if call
        else ({"type": "text", "text": ""}, {"type": "text_delta", "text": script.last_words})
    )
    message = {
        "id": f"msg_{len(script.requests)}",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": [],
    }
    end = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    if not request.get("stream"):
        whole = {**content, "input": call.arguments} if call else {**content, "text": script.last_words}
        return [("", {**message, "content": [whole], **end, "usage": usage})]
    events: Events = [
        ("message_start", {"message": {**message, "stop_reason": None, "usage": usage}}),
        ("content_block_start", {"index": 0, "content_block": content}),
        ("content_block_delta", {"index": 0, "delta": part}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": end, "usage": usage}),
        ("message_stop", {}),
    ]
    return [(name, {"type": name, **data}) for name, data in events]


def _responses(script: Script, request: dict[str, Any]) -> Events:
    call = script.turn(request)
    item: dict[str, Any] = (
        {
            "type": "function_call",
            "id": f"fc_{len(script.requests)}",
            "call_id": f"call_{len(script.requests)}",
            "name": call.name,
            "arguments": json.dumps(call.arguments),
        }
        if call
        else {
            "type": "message",
            "id": f"msg_{len(script.requests)}",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": script.last_words, "annotations": []}],
        }
    )
    item |= {"namespace": call.namespace} if call and call.namespace else {}
    usage = {"input_tokens": 900, "output_tokens": 9, "total_tokens": 909}
    response = {
        "id": f"resp_{len(script.requests)}",
        "object": "response",
        "status": "completed",
        "output": [item],
        "usage": usage,
    }
    if not request.get("stream"):
        return [("", response)]
    events: Events = [
        ("response.created", {"response": {**response, "status": "in_progress", "output": []}}),
        ("response.output_item.added", {"output_index": 0, "item": item}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": response}),
    ]
    return [(name, {"type": name, **data}) for name, data in events]


def _chat(script: Script, request: dict[str, Any]) -> Events:
    said: dict[str, Any] = {"content": script.last_words}
    if call := script.turn(request):
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        said = {
            "content": None,
            "tool_calls": [
                {"index": 0, "id": f"call_{len(script.requests)}", "type": "function", "function": function}
            ],
        }
    end = "tool_calls" if call else "stop"
    chunk = {"id": f"chat_{len(script.requests)}", "created": 1, "model": request["model"], "object": "chat.completion"}
    usage = {"prompt_tokens": 900, "completion_tokens": 9, "total_tokens": 909}
    message = {"role": "assistant", **said}
    if not request.get("stream"):
        return [("", {**chunk, "choices": [{"index": 0, "message": message, "finish_reason": end}], "usage": usage})]
    chunk["object"] += ".chunk"
    return [
        ("", {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}),
        ("", {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": end}], "usage": usage}),
    ]


def _gemini(script: Script, request: dict[str, Any]) -> Events:
    call = script.turn(request)
    part = {"functionCall": {"name": call.name, "args": call.arguments}} if call else {"text": script.last_words}
    content = {"role": "model", "parts": [part]}
    usage = {"promptTokenCount": 900, "candidatesTokenCount": 9, "totalTokenCount": 909}
    return [("", {"candidates": [{"index": 0, "content": content, "finishReason": "STOP"}], "usageMetadata": usage})]


FORMS = {
    "/messages": _anthropic,
    "/responses": _responses,
    "/chat/completions": _chat,
    ":generateContent": _gemini,
    ":streamGenerateContent": _gemini,
}


class _Handler(BaseHTTPRequestHandler):
    script: Script
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer what is no question to the model: lists of models, settings."""
        self.script.others.append(f"GET {self.path}")
        self._send("application/json", b'{"data": [], "models": []}')

    def do_POST(self) -> None:
        """Answer as the model."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        form = next((form for end, form in FORMS.items() if path.endswith(end)), None)
        if form is None:
            self.script.others.append(f"POST {self.path}")
            self._send("application/json", b'{"input_tokens": 9, "totalTokens": 9}')
            return
        request = json.loads(body)
        events = form(self.script, request)
        if request.get("stream") or "alt=sse" in self.path:
            self._send("text/event-stream", b"".join(_sent(*event) for event in events))
        else:
            self._send("application/json", json.dumps(events[0][1]).encode())

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def _sent(name: str, data: Mapping[str, Any]) -> bytes:
    return (f"event: {name}\n" if name else "").encode() + f"data: {json.dumps(data)}\n\n".encode()


@contextmanager
def model(script: Script) -> Iterator[str]:
    """Run a model on loopback. Returns its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"script": script}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
