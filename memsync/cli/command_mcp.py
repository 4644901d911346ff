"""`memsync mcp`: serve the memory to MCP clients, and print their configuration."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

import click

from memsync.cli.common import load
from memsync.cli.output import remark, say
from memsync.errors import UsageError
from memsync.model.text import printable

if TYPE_CHECKING:
    from memsync.mcp_server.protocol import MemoryOpener
    from memsync.settings.load import Settings

PORT = 8737
_HTTP = click.option("--http", "is_http", is_flag=True, help="Serve over HTTP on this machine, with a token.")
_PORT = click.option("--port", type=click.IntRange(0, 65_535), default=PORT, show_default=True, help="Port for --http.")
_READ_ONLY = click.option("--read-only", is_flag=True, help="Leave out the tools that write.")


@click.group(invoke_without_command=True)
@_HTTP
@_PORT
@_READ_ONLY
@click.pass_context
def mcp(context: click.Context, is_http: bool, port: int, read_only: bool) -> None:
    """Serve the memory to an MCP client, on standard input and output, until its input ends.

    The daemon answers if one serves this memory, otherwise this process.

    \b
    memsync mcp install                 print the configuration for Claude, Codex, Cursor, Gemini, VS Code
    memsync mcp --http                  for clients that cannot start a process
    """
    if context.invoked_subcommand is not None:
        return
    if port != PORT and not is_http:
        raise UsageError("--port requires --http", hint="Write: memsync mcp --http --port …")
    settings = load(context)  # report a wrong setting before a client waits
    gc.disable()  # the MCP SDK makes thousands of classes, and none of them is garbage
    from memsync.mcp_server.protocol import MemoryOpener, serve_stdio

    gc.freeze()
    gc.enable()
    opener = MemoryOpener(lambda: load(context))
    _end_on_signals(opener)
    try:
        if is_http:
            from memsync.mcp_server.http import HOST, PATH, listening, serve_http, token_of

            token = token_of(settings.keep_dir)
            bound = listening(port)
            remark(f"serving http://{HOST}:{bound.getsockname()[1]}{PATH}")
            serve_http(opener, bound, token, read_only=read_only)
        else:
            import asyncio

            asyncio.run(serve_stdio(opener, read_only=read_only))
    finally:
        opener.close()


def _end_on_signals(opener: MemoryOpener) -> None:
    """End at once on SIGINT or SIGTERM, although a thread still waits for the client's next line.

    A server over HTTP sets its own handlers when it runs.
    """
    import signal

    def end(number: int, _: object) -> None:
        opener.close()
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)


@mcp.command()
@click.argument("client", default="")
@_HTTP
@_PORT
@_READ_ONLY
@click.pass_context
def install(context: click.Context, client: str, is_http: bool, port: int, read_only: bool) -> None:
    """Print the configuration that CLIENT (default: each common client) needs for this memory. Nothing is written.

    \b
    memsync mcp install
    memsync mcp install claude-code
    memsync mcp install vscode --http
    """
    from memsync.mcp_server.clients import CLIENTS, Target, described

    if client and client not in CLIENTS:
        raise UsageError(f"client {client!r} is not known", hint=f"Write {', '.join(CLIENTS)}.")
    settings = load(context)
    assert context.parent is not None
    group = context.parent.params  # the options before `install`
    read_only = read_only or group["read_only"]
    if is_http or group["is_http"]:
        if read_only:
            hint = "Start it with: memsync mcp --http --read-only"
            raise UsageError("a server over HTTP gets --read-only when it is started", hint=hint)
        from memsync.mcp_server.http import HOST, PATH, token_of

        server_port = port if port != PORT else group["port"] or PORT
        target = Target(url=f"http://{HOST}:{server_port}{PATH}", token=token_of(settings.keep_dir))
    else:
        target = Target(command=_command(settings, read_only=read_only))
        from memsync.settings.load import deciding_variables

        if names := deciding_variables(os.environ):  # a client does not have this shell's environment
            remark(f"give the client these variables, too: {', '.join(map(printable, names))}")
    say("\n".join(described(name, target) for name in ([client] if client else CLIENTS)), end="")


def _command(settings: Settings, *, read_only: bool) -> list[str]:
    """Return the command that serves this memory; it works in any current folder."""
    program = os.path.abspath(sys.argv[0])
    is_installed = os.path.basename(program) == "memsync" and os.access(program, os.X_OK)
    start = [program] if is_installed else [sys.executable, "-P", "-m", "memsync"]
    return [*start, *settings.options, "mcp", *(["--read-only"] if read_only else [])]
