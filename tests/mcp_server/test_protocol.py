"""The protocol itself: every version, every wrong message, and what happens while a call runs."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from memsync.mcp_server.http import _App
from memsync.mcp_server.memories import ServedMemories
from memsync.mcp_server.messages import MAX_MESSAGE_BYTES, Refused, line_of, parsed, reply
from memsync.mcp_server.protocol import BATCHES, HANDSHAKES, STATELESS, McpServer, Peer
from memsync.mcp_server.stdio import Conversation
from memsync.mcp_server.tools import MAX_TOKENS
from memsync.memory import Memory, MemoryApi
from tests.conftest import COUNTER, Write
from tests.support.daemon_process import until
from tests.support.mcp_client import hits_in, talk, text_of

META: dict[str, Any] = {f"io.modelcontextprotocol/{name}": {} for name in ("protocolVersion", "clientCapabilities")}
ENVELOPE = {**META, "io.modelcontextprotocol/protocolVersion": STATELESS}
PING = b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}'
STARTS = 7
MOST_CPU = 2.5
"""Times the CPU time of `import click`."""


def message(method: str, number: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def answered(sent: Any, version: str = HANDSHAKES[-1]) -> Any:
    """Return the answer of a server without memories to a message, given as bytes or as a value."""
    try:
        value = parsed(sent if isinstance(sent, bytes) else json.dumps(sent).encode())
    except Refused as refused:
        return reply(None, error=refused.error)
    answer = McpServer(ServedMemories(None), read_only=False).answer(value, Peer(version))
    return None if answer is None else json.loads(line_of(answer))


WRONG: dict[str, tuple[Any, Any, int]] = {
    "garbage": (b"garbage", None, -32700),
    "half": (b'{"jsonrpc": "2.0", "id": 1, "meth', None, -32700),
    "not UTF-8": (b'{"jsonrpc": "2.0", "id": "\xff", "method": "ping"}', None, -32700),
    "deep": (b"[" * 100_000, None, -32700),
    "long number": (b'{"jsonrpc": "2.0", "method": "ping", "id": ' + b"9" * 5_000 + b"}", None, -32700),
    "not a number": (b'{"jsonrpc": "2.0", "method": "ping", "id": NaN}', None, -32700),
    "too long": (PING + b" " * MAX_MESSAGE_BYTES, None, -32600),
    "a text": ("ping", None, -32600),
    "null": (None, None, -32600),
    "empty": ({}, None, -32600),
    "no version of JSON-RPC": ({"id": 1, "method": "ping"}, 1, -32600),
    "method is a number": (message(7), 1, -32600),  # type: ignore[arg-type]  # because it is wrong
    "id is null": (message("ping", None), None, -32600),
    "id is a float": (message("ping", 1.5), None, -32600),
    "id is a bool": (message("ping", True), None, -32600),
    "id is a list": (message("ping", [1]), None, -32600),
    "empty batch": ([], None, -32600),
    "batch": ([message("ping")], None, -32600),
    "params are a list": ({**message("ping"), "params": [1]}, 1, -32602),
    "unknown method": (message("tools/forget", "a"), "a", -32601),
    "prompts": (message("prompts/list"), 1, -32601),
    "no tool": (message("tools/call"), 1, -32602),
    "tool is a number": (message("tools/call", name=1), 1, -32602),
    "unknown tool": (message("tools/call", name="x" * 10_000), 1, -32602),
    "arguments are a list": (message("tools/call", name="memory_search", arguments=[1]), 1, -32602),
    "no uri": (message("resources/read"), 1, -32602),
    "no version": (message("initialize"), 1, -32602),
    "no envelope": (message("server/discover"), 1, -32602),
    "no capabilities": (message("tools/list", _meta={"io.modelcontextprotocol/protocolVersion": STATELESS}), 1, -32602),
    "version is an object": (message("tools/list", _meta=META), 1, -32602),
    "unknown version": (message("tools/list", _meta={k: v or "3000-01-01" for k, v in META.items()}), 1, -32022),
    "ping is gone": (message("ping", _meta=ENVELOPE), 1, -32601),
    "initialize is gone": (message("initialize", _meta=ENVELOPE), 1, -32601),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_message_gets_its_error(name: str) -> None:
    """With its id if that can be used, in few words."""
    sent, number, code = WRONG[name]
    answer = answered(sent)
    assert (answer["id"], answer["error"]["code"]) == (number, code)
    assert len(json.dumps(answer)) < 1_000


def test_message_that_asks_nothing_gets_no_answer() -> None:
    """Notifications, known or not, and answers."""
    for sent in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}},
        {"jsonrpc": "2.0", "method": "nothing", "params": [1]},
        {"jsonrpc": "2.0", "id": 3, "result": {}},
        {"jsonrpc": "2.0", "id": 3, "error": {"code": 1, "message": "x"}},
    ):
        assert answered(sent) is None


def test_every_version_of_the_sdk_is_spoken() -> None:
    """The version that is asked for if it is known, otherwise the newest that begins so."""
    assert (HANDSHAKES, (STATELESS,)) == (HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS)
    for asked, got in (*zip(HANDSHAKES, HANDSHAKES, strict=True), (STATELESS, HANDSHAKES[-1]), ("1", HANDSHAKES[-1])):
        assert answered(message("initialize", protocolVersion=asked), "")["result"]["protocolVersion"] == got
    assert answered(message("tools/list"), "")["error"]["code"] == -32600
    assert answered(message("ping"), "")["result"] == {}
    assert answered(message("tools/list", _meta=ENVELOPE), "")["result"]["resultType"] == "complete"
    assert answered(message("server/discover", _meta=ENVELOPE), "")["result"]["supportedVersions"] == [STATELESS]


def test_batch_is_answered_in_the_version_that_has_batches() -> None:
    """Each message of it, if it asks something."""
    silent = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answers = answered([message("ping"), silent, 7, message("nope", "b")], BATCHES)
    assert [(one["id"], "result" in one) for one in answers] == [(1, True), (None, False), ("b", False)]
    assert answered([silent, silent], BATCHES) is None


# ---------------------------------------------------------------------------------------- while a call runs


class _Slow(McpServer):
    """A server whose calls wait until they may go on."""

    def __init__(self) -> None:
        super().__init__(ServedMemories(None), read_only=False)
        self.may_go_on = threading.Event()
        self.started = list[Any]()

    def _called(self, method: str, params: dict[str, Any], client: str) -> dict[str, Any]:
        if method == "tools/call":
            self.started.append(params["name"])
            assert self.may_go_on.wait(60)
        return {}


def test_slow_call_holds_up_nothing() -> None:
    """Not a ping, and no other call. At the end of input each gets its answer, also one that the client cancels."""
    reading, writing = os.pipe()
    server = _Slow()
    with os.fdopen(reading) as answers, os.fdopen(writing, "wb") as out:

        def send(answer: Any) -> None:
            out.write(line_of(answer))
            out.flush()

        conversation = Conversation(server, send)
        sent = [message("initialize", 0, protocolVersion="2025-06-18")]
        sent += [message("tools/call", number, name=number) for number in (1, "1", 3)]
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "1"}}
        for one in (*sent, cancel, message("ping", 4)):
            conversation.take(json.dumps(one).encode())
        assert [json.loads(answers.readline())["id"] for _ in range(2)] == [0, 4]
        until(lambda: len(server.started) >= 2, "calls run at once")
        server.may_go_on.set()
        conversation.end()
        assert {json.loads(answers.readline())["id"] for _ in range(3)} == {1, "1", 3}
        out.flush()


def test_a_process_goes_on_after_every_line(root: Path, write: Write) -> None:
    """Long and half lines, lines that are not UTF-8; a call gets its answer although the input has ended."""
    write("zoo.md", "A zebra.\n")
    call = message("tools/call", 9, name="memory_search", arguments={"query": "zebra \ud800"})
    hello = json.dumps(message("initialize", 0, protocolVersion="2025-06-18")).encode()
    padded = PING[:-1] + b', "params": {"x": "' + b"x" * 10_000_000 + b'"}}'
    lines = [b"\xff\xfe", b"", b"   ", b"x" * (2 * MAX_MESSAGE_BYTES + 5), hello, padded, PING + b"\r"]
    text = b"\n".join([*lines, json.dumps(call).encode(), PING[:-3]])
    command = [sys.executable, "-m", "memsync", "--root", str(root), "mcp"]
    environ = {**os.environ, "MEMSYNC_SEARCH_MODE": "keyword", "MEMSYNC_DAEMON_USE": "false"}
    done = subprocess.run(command, input=text, capture_output=True, timeout=120, check=False, env=environ)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["id"] for one in answers if one["id"] != 9] == [None, None, 0, 7, 7, None]
    (found,) = [one for one in answers if one["id"] == 9]
    assert "zoo.md:1" in found["result"]["content"][0]["text"]
    assert (done.returncode, done.stderr) == (0, b"")


def test_server_is_ready_before_a_client_asks_its_model(root: Path) -> None:
    """The answers to `initialize` and `tools/list` cost little more CPU time than `import click`, measured in turn."""
    asked = [message("initialize", 0, protocolVersion="2025-06-18"), message("tools/list")]
    text = "".join(f"{json.dumps(one)}\n" for one in asked)
    serve = [sys.executable, "-m", "memsync", "--root", str(root), "mcp"]

    def cpu_seconds(command: list[str]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert command != serve or "memory_search" in done.stdout
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    cpu_seconds(serve)  # compiles what is not compiled yet
    pairs = [(cpu_seconds(serve), cpu_seconds([sys.executable, "-c", "import click"])) for _ in range(STARTS)]
    assert median(ours / click for ours, click in pairs) <= MOST_CPU, pairs


# ------------------------------------------------------------------------------------------------- HTTP

HEADERS = {
    "authorization": "Bearer secret",
    "host": "127.0.0.1:80",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}
MODERN = {"mcp-protocol-version": STATELESS, "mcp-method": "tools/list"}
LISTED = json.dumps(message("tools/list", _meta=ENVELOPE)).encode()
READ = json.dumps(message("resources/read", _meta=ENVELOPE, uri="other:é")).encode()
NOTHING = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'
NEAR_TOKENS = (
    "", "Bearer", "secret", "Bearer ", "Bearer secre", "Bearer secrets", "Bearer ecret", "Bearer SECRET",
    "Basic secret", "Bearersecret", "bearersecret", "Bearer secretsecret", "Bearer  secret",
)  # fmt: skip
"""Headers that are nearly right, but give no access."""


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (200, {}, PING),
        (200, {"accept": "*/*", "host": "LOCALHOST:80", "origin": "http://localhost:80"}, PING),
        (200, {"content-type": "application/json; charset=utf-8", "accept": "text/html, application/*;q=0.1"}, PING),
        *((200, {"mcp-protocol-version": version}, PING) for version in HANDSHAKES),
        (200, {}, b"[" + PING + b"]"),
        (200, {}, json.dumps(message("nope")).encode()),
        (202, {}, NOTHING),
        (202, {}, b'{"jsonrpc": "2.0", "id": 1, "result": {}}'),
        (202, {}, b"[" + NOTHING + b"]"),
        (400, {"mcp-protocol-version": HANDSHAKES[-1]}, b"[" + PING + b"]"),
        (400, {}, b"garbage"),
        (400, {}, b'{"id": 1}'),
        (400, {"mcp-protocol-version": "3000-01-01"}, PING),
        *((401, {"authorization": given}, PING) for given in NEAR_TOKENS),
        (403, {"origin": "http://evil.example"}, PING),
        (403, {"origin": "null"}, PING),
        (404, {"": "/"}, PING),
        (406, {"accept": "text/event-stream"}, PING),
        (406, {"accept": ""}, PING),
        (413, {}, b" " * (MAX_MESSAGE_BYTES + 1)),
        (415, {"content-type": "text/plain"}, PING),
        (421, {"host": "evil.example:80"}, PING),
        (405, {":": "GET"}, b""),
        (405, {":": "DELETE"}, b""),
        (200, MODERN, LISTED),
        (202, MODERN, NOTHING),
        (400, MODERN, json.dumps(message("tools/list")).encode()),
        (400, {}, LISTED),
        (400, {**MODERN, "mcp-method": "tools/call"}, LISTED),
        (400, {**MODERN, "mcp-method": "resources/read"}, READ),
        (400, {**MODERN, "mcp-method": "resources/read", "mcp-name": "=?base64?b3RoZXI6w6k=?="}, READ),
        (404, {**MODERN, "mcp-method": "nope"}, json.dumps(message("nope", _meta=ENVELOPE)).encode()),
    ],
)
def test_http_answers_with_the_status_that_the_protocol_names(
    status: int, headers: dict[str, str], body: bytes
) -> None:
    """For each method, header and message."""
    given = {**HEADERS, **headers}
    path, method = given.pop("", "/mcp"), given.pop(":", "POST")
    sent = [(name.encode(), value.encode()) for name, value in given.items()]
    got = list[dict[str, Any]]()

    async def ask() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(part: Any) -> None:
            got.append(part)

        app = _App(McpServer(ServedMemories(None), read_only=False), "secret", 80)
        await app({"type": "http", "method": method, "path": path, "headers": sent}, receive, send)

    anyio.run(ask)
    assert got[0]["status"] == status
    assert not [name for name, _ in got[0]["headers"] if name.startswith(b"access-control")]
    assert bool(got[1]["body"]) == (status != 202)
    assert "mcp-name" not in headers or b"other:" in got[1]["body"], "the header was understood"


# ------------------------------------------------------------------------------------------- long answers


@pytest.mark.slow
@pytest.mark.parametrize("word", ["heron ", "鷺"])
def test_no_answer_is_longer_than_a_model_should_read(
    make_memory: Callable[..., Memory], write: Write, word: str
) -> None:
    """In any script, a long answer is cut, says so, and says how to get the rest."""
    for number in range(40):
        text = "\n\n".join(f"heron {number} {part} {word * (1_500 // len(word))}" for part in range(4))
        write(f"{number}.md", f"# Heron\n\n{text}\n")
        write(f"links/{number}-{'x' * 200}.md", "[[0]]\n")
    write("MEMORY.md", "\n\n".join(f"## {number}\n\n{word * 400}" for number in range(200)))
    memory = make_memory()

    async def say(client: Client) -> None:
        for tool, arguments in (
            ("memory_search", {"query": '"heron"', "limit": 50}),
            ("memory_search", {"query": '"heron"', "limit": 1_000, "tokens": 1_000_000}),
            ("memory_get", {"location": "MEMORY.md"}),
            ("memory_context", {"budget": 1_000_000}),
            ("memory_links", {"note": "0.md"}),
        ):
            result = await client.call_tool(tool, arguments)
            text = text_of(result)
            assert not result.is_error
            assert max(COUNTER.count([text])[0], len(text.encode()) // 6) <= MAX_TOKENS, tool
            if tool != "memory_links" and arguments.get("limit") != 50:  # these may fit
                assert "left out" in text or "To read the remaining lines" in text, (tool, text[-500:])
            assert tool != "memory_search" or hits_in(result)

    talk(memory, say)


def test_short_answer_is_whole(own: MemoryApi, write: Write) -> None:
    """Nothing says that anything is missing."""
    write("a.md", "".join(f"- The heron has {number} eggs.\n" for number in range(20)))

    async def say(client: Client) -> None:
        for tool, arguments in (
            ("memory_search", {"query": '"heron"', "limit": 50}),
            ("memory_get", {"location": "a.md"}),
        ):
            text = text_of(await client.call_tool(tool, arguments))
            assert "left out" not in text and "remaining" not in text and "19 eggs" in text

    talk(own, say)
