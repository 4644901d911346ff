"""Write the configuration that common MCP clients need, as text that a person pastes into the right place."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

NAME = "memsync"


class Target(NamedTuple):
    """The server that a client connects to: a command to start, or the URL and token of a running server."""

    command: Sequence[str] = ()
    url: str = ""
    token: str = ""

    @property
    def header(self) -> str:
        """The value of the Authorization header."""
        return f"Bearer {self.token}"


class McpClient(NamedTuple):
    """An MCP client: its name, the place of its configuration, and a function that writes the configuration."""

    title: str
    place: str
    configuration: Callable[[Target], str]


def _json(outer: str, target: Target, url_key: str = "url", **more: Any) -> str:
    if target.url:
        server = {**more, url_key: target.url, "headers": {"Authorization": target.header}}
    else:
        command, *arguments = target.command
        server = {"command": command, "args": arguments}
    return json.dumps({outer: {NAME: server}}, indent=2, ensure_ascii=False)


def _claude_code(target: Target) -> str:
    if target.url:
        header = shlex.quote(f"Authorization: {target.header}")
        return f"claude mcp add --transport http {NAME} {target.url} --header {header}"
    return f"claude mcp add {NAME} -- {shlex.join(target.command)}"


def _claude_desktop(target: Target) -> str:
    if target.url:
        return "# Claude Desktop starts its servers itself, without HTTP. Run: memsync mcp install claude-desktop"
    return _json("mcpServers", target)


def _codex(target: Target) -> str:
    if target.url:
        headers = f'http_headers = {{ "Authorization" = {json.dumps(target.header)} }}'
        return f"[mcp_servers.{NAME}]\nurl = {json.dumps(target.url)}\n{headers}"
    command, *arguments = target.command
    listed = json.dumps(arguments, ensure_ascii=False)
    return f"[mcp_servers.{NAME}]\ncommand = {json.dumps(command, ensure_ascii=False)}\nargs = {listed}"


CLIENTS = {
    "claude-code": McpClient("Claude Code", "run in a shell", _claude_code),
    "claude-desktop": McpClient("Claude Desktop", "claude_desktop_config.json", _claude_desktop),
    "codex": McpClient("Codex", "~/.codex/config.toml", _codex),
    "cursor": McpClient("Cursor", ".cursor/mcp.json or ~/.cursor/mcp.json", lambda target: _json("mcpServers", target)),
    "gemini": McpClient(
        "Gemini CLI", "~/.gemini/settings.json", lambda target: _json("mcpServers", target, url_key="httpUrl")
    ),
    "vscode": McpClient("VS Code", ".vscode/mcp.json", lambda target: _json("servers", target, type="http")),
}


def described(name: str, target: Target) -> str:
    """Return the configuration for the client of this name in `CLIENTS`, under a line that says where it belongs."""
    client = CLIENTS[name]
    return f"# {client.title}: {client.place}\n{client.configuration(target)}\n"
