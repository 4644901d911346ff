"""`memsync mcp`: the memory for MCP clients, and how they are told of it."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from memsync.cli.common import load
from memsync.cli.output import printable, say
from memsync.errors import UsageError

if TYPE_CHECKING:
    from memsync.mcp_server.memories import MemoryOpener
    from memsync.settings.load import Settings

PORT = 8737
_HTTP = click.option("--http", "is_http", is_flag=True, help="Over HTTP on this machine, with a token.")
_PORT = click.option("--port", type=click.IntRange(0, 65_535), default=PORT, show_default=True, help="Port for --http.")
_READ_ONLY = click.option("--read-only", is_flag=True, help="Without the tools that write.")


@click.group(invoke_without_command=True)
@_HTTP
@_PORT
@_READ_ONLY
@click.pass_context
def mcp(context: click.Context, is_http: bool, port: int, read_only: bool) -> None:
    """Serve the memory to an MCP client, on standard input and output, until its input ends.

    The daemon answers where one serves this memory, else this process does.

    \b
    memsync mcp install                 what to tell Claude, Codex, Cursor, Gemini, VS Code
    memsync mcp --http                  for clients that cannot start a process
    """
    if context.invoked_subcommand is not None:
        return
    if port != PORT and not is_http:
        raise UsageError("--port requires --http", hint="Write: memsync mcp --http --port …")
    settings = load(context)  # a wrong setting is told before a client waits
    gc.disable()  # the protocol's library makes thousands of classes, none of which is garbage
    from memsync.mcp_server.memories import MemoryOpener
    from memsync.mcp_server.protocol import serve_stdio

    gc.freeze()
    gc.enable()
    opener = MemoryOpener(lambda: load(context))
    _end_on_signals(opener)
    try:
        if is_http:
            _serve_http(opener, settings, port, read_only=read_only)
        else:
            import asyncio

            asyncio.run(serve_stdio(opener, read_only=read_only))
    finally:
        opener.close()


def _end_on_signals(opener: MemoryOpener) -> None:
    """End at once when told to: else the thread that waits for the client's next line would be waited for.

    A server by HTTP has its own way to end, once it runs.
    """
    import signal

    def end(number: int, _: object) -> None:
        opener.close()
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)


def _serve_http(opener: MemoryOpener, settings: Settings, port: int, *, read_only: bool) -> None:
    from memsync.mcp_server.http import HOST, PATH, listening, serve_http, token_of

    token = token_of(settings.keep_dir)
    bound = listening(port)
    say(f"memsync: serving http://{HOST}:{bound.getsockname()[1]}{PATH}", err=True)
    serve_http(opener, bound, token, read_only=read_only)


@mcp.command()
@click.argument("client", default="")
@_HTTP
@_PORT
@_READ_ONLY
@click.pass_context
def install(context: click.Context, client: str, is_http: bool, port: int, read_only: bool) -> None:
    """Print the configuration of CLIENT for this memory, or of every common one. Nothing is written.

    \b
    memsync mcp install
    memsync mcp install claude-code
    memsync mcp install vscode --http
    """
    from memsync.mcp_server.clients import CLIENTS, Target, described

    if client and client not in CLIENTS:
        raise UsageError(f"client {client!r} is not known", hint=f"Write {', '.join(CLIENTS)}.")
    settings = load(context)
    is_http = is_http or _of_group(context, "is_http")
    read_only = read_only or _of_group(context, "read_only")
    if is_http:
        if read_only:
            hint = "Start it with: memsync mcp --http --read-only"
            raise UsageError("whether a server writes is decided where it is started", hint=hint)
        from memsync.mcp_server.http import HOST, PATH, token_of

        own_port = port if port != PORT else _of_group(context, "port") or PORT
        target = Target(url=f"http://{HOST}:{own_port}{PATH}", token=token_of(settings.keep_dir))
    else:
        target = Target(command=_command(settings, read_only=read_only))
        _say_environment()
    say("\n".join(described(name, target) for name in ([client] if client else CLIENTS)), end="")


def _of_group(context: click.Context, name: str) -> Any:
    """Return an option as it was given before `install`."""
    return context.parent.params.get(name) if context.parent is not None else None


def _command(settings: Settings, *, read_only: bool) -> list[str]:
    """Return the command that serves this memory from whatever folder a client starts it in."""
    own = os.path.abspath(sys.argv[0])
    is_installed = os.path.basename(own) == "memsync" and os.access(own, os.X_OK)
    start = [own] if is_installed else [sys.executable, "-P", "-m", "memsync"]
    return [*start, *settings.options, "mcp", *(["--read-only"] if read_only else [])]


def _say_environment() -> None:
    """Say what a client will not know, as it does not have this shell's environment."""
    from memsync.settings.load import deciding_variables

    names = deciding_variables(os.environ)
    if names:
        say(f"memsync: give the client these variables, too: {', '.join(map(printable, names))}", err=True)
