"""`memsync mcp`: serve the memory to MCP clients, and print their configuration."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

import click

from memsync.cli.common import load
from memsync.cli.output import remark, say
from memsync.errors import NoMemoryRoot, UsageError
from memsync.model.text import printable

if TYPE_CHECKING:
    from pathlib import Path

    from memsync.mcp_server.memories import ServedMemories
    from memsync.settings.load import Settings

PORT = 8737
_HTTP = click.option("--http", "is_http", is_flag=True, help="Serve over HTTP on this machine, with a token.")
_PORT = click.option("--port", type=click.IntRange(0, 65_535), default=PORT, show_default=True, help="Port for --http.")
_ALL_ROOTS = click.option(
    "--all-roots", is_flag=True, help="Serve the registered memories together, and none of its own."
)
_ONLY_THIS_ROOT = click.option("--only-this-root", is_flag=True, help="Let clients reach no registered memory.")
_READ_ONLY = click.option("--read-only", is_flag=True, help="Leave out the tools that write.")


@click.group(invoke_without_command=True)
@_HTTP
@_PORT
@_READ_ONLY
@_ALL_ROOTS
@_ONLY_THIS_ROOT
@click.pass_context
def mcp(
    context: click.Context, is_http: bool, port: int, read_only: bool, all_roots: bool, only_this_root: bool
) -> None:
    """Serve the memory to an MCP client, on standard input and output, until its input ends.

    The daemon answers if one serves this memory, otherwise this process. Clients can also search the registered
    memories (memsync roots), unless --only-this-root is given. Outside a memory root they search those alone.

    \b
    memsync mcp install                 print the configuration for Claude, Codex, Cursor, Gemini, VS Code
    memsync mcp --http                  for clients that cannot start a process
    """
    if context.invoked_subcommand is not None:
        return
    if port != PORT and not is_http:
        raise UsageError("--port requires --http", hint="Write: memsync mcp --http --port …")
    settings = _own_settings(context, all_roots=all_roots, only_this_root=only_this_root)
    gc.disable()  # the MCP SDK makes thousands of classes, and none of them is garbage
    from memsync.mcp_server.memories import ServedMemories
    from memsync.mcp_server.protocol import serve_stdio
    from memsync.memories.opener import Opener

    gc.freeze()
    gc.enable()
    memories = ServedMemories(Opener(lambda: load(context)) if settings is not None else None, is_alone=only_this_root)
    _end_on_signals(memories)
    try:
        if is_http:
            from memsync.mcp_server.http import HOST, PATH, listening, serve_http, token_of

            token = token_of(_keep_dir(settings))
            bound = listening(port)
            remark(f"serving http://{HOST}:{bound.getsockname()[1]}{PATH}")
            serve_http(memories, bound, token, read_only=read_only)
        else:
            import asyncio

            if sys.stdin.isatty():
                remark("this waits for an MCP client, which starts it by itself; to end it, press Ctrl-C")
                remark("to set up a client, run: memsync mcp install")
            asyncio.run(serve_stdio(memories, read_only=read_only))
    finally:
        memories.close()


def _own_settings(context: click.Context, *, all_roots: bool, only_this_root: bool) -> Settings | None:
    """Return the settings of the memory root that a server serves; None if it serves the registered memories alone.

    So a wrong setting is an error before a client waits. Raises UsageError, ConfigError, RootError.
    """
    from memsync.settings.roots import chosen_roots, registered_roots

    if all_roots and only_this_root:
        raise UsageError("--all-roots and --only-this-root cannot be used together", hint="Use one of them.")
    if all_roots:
        chosen_roots()  # raises an error if there are none
        return None
    try:
        return load(context)
    except NoMemoryRoot:
        if only_this_root or not registered_roots():
            raise
        return None


def _keep_dir(settings: Settings | None) -> Path:
    """Return the folder of the token: that of the memory root, or one for the registered memories."""
    from pathlib import Path

    from memsync.system.user_folders import state_folder

    return settings.keep_dir if settings is not None else Path(state_folder()) / "kept" / "registered"


def _end_on_signals(memories: ServedMemories) -> None:
    """End at once on SIGINT or SIGTERM, although a thread still waits for the client's next line.

    A server over HTTP sets its own handlers when it runs.
    """
    import signal

    def end(number: int, _: object) -> None:
        memories.close()
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)


@mcp.command()
@click.argument("client", default="")
@_HTTP
@_PORT
@_READ_ONLY
@_ALL_ROOTS
@_ONLY_THIS_ROOT
@click.pass_context
def install(
    context: click.Context,
    client: str,
    is_http: bool,
    port: int,
    read_only: bool,
    all_roots: bool,
    only_this_root: bool,
) -> None:
    """Print the configuration that CLIENT (default: each common client) needs for this memory. Nothing is written.

    \b
    memsync mcp install
    memsync mcp install claude-code
    memsync mcp install vscode --http
    """
    from memsync.mcp_server.clients import CLIENTS, Target, described

    if client and client not in CLIENTS:
        raise UsageError(f"client {client!r} is not known", hint=f"Write {', '.join(CLIENTS)}.")
    assert context.parent is not None
    group = context.parent.params  # the options before `install`
    read_only, only_this_root = read_only or group["read_only"], only_this_root or group["only_this_root"]
    settings = _own_settings(context, all_roots=all_roots or group["all_roots"], only_this_root=only_this_root)
    if is_http or group["is_http"]:
        for option, is_given in (("--read-only", read_only), ("--only-this-root", only_this_root)):
            if is_given:
                hint = f"Start it with: memsync mcp --http {option}"
                raise UsageError(f"a server over HTTP gets {option} when it is started", hint=hint)
        from memsync.mcp_server.http import HOST, PATH, token_of

        server_port = port if port != PORT else group["port"] or PORT
        target = Target(url=f"http://{HOST}:{server_port}{PATH}", token=token_of(_keep_dir(settings)))
    else:
        target = Target(command=_command(settings, read_only=read_only, only_this_root=only_this_root))
        from memsync.settings.load import deciding_variables

        if names := deciding_variables(os.environ):  # a client does not have this shell's environment
            remark(f"give the client these variables, too: {', '.join(map(printable, names))}")
    say("\n".join(described(name, target) for name in ([client] if client else CLIENTS)), end="")


def _command(settings: Settings | None, *, read_only: bool, only_this_root: bool) -> list[str]:
    """Return the command that serves this memory, or the registered ones; it works in any current folder."""
    program = os.path.abspath(sys.argv[0])
    is_installed = os.path.basename(program) == "memsync" and os.access(program, os.X_OK)
    start = [program] if is_installed else [sys.executable, "-P", "-m", "memsync"]
    flags = {"--read-only": read_only, "--all-roots": settings is None, "--only-this-root": only_this_root}
    options = settings.options if settings is not None else ()
    return [*start, *options, "mcp", *(flag for flag, is_given in flags.items() if is_given)]
