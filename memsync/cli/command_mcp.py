"""`memsync mcp`: serve the memory to MCP clients, and print their configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from memsync.cli.common import own_program
from memsync.cli.output import remark, say
from memsync.cli.serve_mcp import keep_dir, own_settings, serve
from memsync.errors import UsageError
from memsync.model.text import printable
from memsync.system.extras import require

if TYPE_CHECKING:
    from memsync.settings.load import Settings

SECTION = "Set up"

PORT = 8737


@click.command()
@click.argument("action", type=click.Choice(["", "install"]), default="", metavar="[install]")
@click.argument("client", default="", metavar="[CLIENT]")
@click.option("--http", "is_http", is_flag=True, help="Serve over HTTP on this machine, with a token.")
@click.option("--port", type=click.IntRange(0, 65_535), help=f"Port for --http. [default: {PORT}]")
@click.option("--read-only", is_flag=True, help="Leave out the tools that write.")
@click.option("--all-roots", is_flag=True, help="Serve the registered memories together, and none of its own.")
@click.option("--only-this-root", is_flag=True, help="Let clients reach no registered memory.")
@click.pass_context
def mcp(
    context: click.Context,
    /,
    action: str,
    client: str,
    is_http: bool,
    port: int | None,
    all_roots: bool,
    **limits: bool,
) -> None:
    """Serve the memory to an MCP client, on standard input and output, until its input ends.

    The daemon answers if one serves this memory, otherwise this process. Clients can also search the registered
    memories (memsync roots), unless --only-this-root is given. Outside a memory root they search those alone.

    With `install`, print the configuration that CLIENT (default: each common client) needs for this memory and these
    options. Nothing is written.

    \b
    memsync mcp install                 for Claude, Codex, Cursor, Gemini, VS Code
    memsync mcp install claude-code
    memsync mcp install vscode --http
    memsync mcp --http                  for clients that cannot start a process
    """
    if port is not None and not is_http:
        raise UsageError("--port requires --http", hint="Write: memsync mcp --http --port …")
    alone = limits["only_this_root"]
    settings = own_settings(context.obj.config, context.obj.root, all_roots=all_roots, only_this_root=alone)
    port = PORT if port is None else port
    if action:
        _install(client, settings, port if is_http else None, limits)
    else:
        serve(settings, port if is_http else None, **limits)


def _install(client: str, settings: Settings | None, port: int | None, limits: Mapping[str, bool]) -> None:
    """Print the configuration of a client, or of each; `limits` are the options that a server may get."""
    from memsync.mcp_server.clients import CLIENTS, Target, described

    if client and client not in CLIENTS:
        raise UsageError(f"client {client!r} is not known", hint=f"Write {', '.join(CLIENTS)}.")
    flags = [f"--{name.replace('_', '-')}" for name, is_given in limits.items() if is_given]
    if port is not None:
        if flags:
            hint = f"Start it with: memsync mcp --http {flags[0]}"
            raise UsageError(f"a server over HTTP gets {flags[0]} when it is started", hint=hint)
        require("web", "memsync mcp --http")
        from memsync.mcp_server.http import PATH, TOKEN
        from memsync.web.serving import HOST, token_of

        target = Target(url=f"http://{HOST}:{port}{PATH}", token=token_of(keep_dir(settings), TOKEN))
    else:
        target = Target(command=_command(settings, flags))
        from memsync.system.user_folders import deciding_variables

        if names := deciding_variables(os.environ):  # a client does not have this shell's environment
            remark(f"give the client these variables, too: {', '.join(map(printable, names))}")
    say("\n".join(described(name, target) for name in ([client] if client else CLIENTS)), end="")


def _command(settings: Settings | None, flags: Sequence[str]) -> list[str]:
    """Return the command that serves this memory, or the registered ones; it works in any current folder."""
    if settings is None:
        return [*own_program(), "mcp", "--all-roots", *flags]
    return [*own_program(), *settings.options, "mcp", *flags]
