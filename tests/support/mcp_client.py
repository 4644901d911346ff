"""The MCP SDK's own client, connected to a server in this process, and what it gets."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
from mcp.client.client import Client
from mcp.shared.message import SessionMessage
from mcp.types import Implementation, jsonrpc_message_adapter

from memsync.mcp_server.memories import ServedMemories
from memsync.mcp_server.messages import line_of, parsed
from memsync.mcp_server.protocol import McpServer, Peer
from memsync.memory import MemoryApi

Talk = Callable[[Client], Awaitable[None]]


@asynccontextmanager
async def _connected(server: McpServer) -> AsyncIterator[Any]:
    """Yield the streams of a transport; each message passes as the bytes that a client would send."""
    to_server, asked = anyio.create_memory_object_stream[SessionMessage](100)
    to_client, answers = anyio.create_memory_object_stream[SessionMessage | Exception](100)
    peer = Peer()

    async def serve() -> None:
        async with asked, to_client:
            async for sent in asked:
                message = parsed(sent.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
                answer = await anyio.to_thread.run_sync(server.answer, message, peer)
                if answer is not None:
                    await to_client.send(SessionMessage(jsonrpc_message_adapter.validate_json(line_of(answer))))

    async with anyio.create_task_group() as group:
        group.start_soon(serve)
        async with to_server, answers:
            yield answers, to_server
        group.cancel_scope.cancel()


def client_of(memories: ServedMemories, *, read_only: bool = False, name: str = "tests") -> Client:
    """Return a client of a server in this process; `name` is that of its program."""
    server = McpServer(memories, read_only=read_only)
    return Client(_connected(server), client_info=Implementation(name=name, version="1"))


def talk(memory: MemoryApi, say: Talk, *, read_only: bool = False, name: str = "tests") -> None:
    """Let a client talk to a server for one memory."""

    async def run() -> None:
        async with client_of(ServedMemories(memory), read_only=read_only, name=name) as client:
            await say(client)

    anyio.run(run)


def text_of(result: Any) -> str:
    """Return the texts that a model gets."""
    assert result.structured_content is None, "some clients would give a model this instead of the text"
    return "\n\n".join(one.text for one in result.content)


def hits_in(result: Any) -> list[str]:
    """Return the citation of each hit."""
    return re.findall(r"^(?!>)(\S.*)  \(", text_of(result), re.MULTILINE)
