"""Serve MCP clients. Like `memsync hook`, this imports neither click nor an operation: clients wait only briefly."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memsync.errors import MemsyncError, NoMemoryRoot, UsageError
from memsync.mcp_server.memories import ServedMemories
from memsync.mcp_server.protocol import McpServer
from memsync.settings.load import load_settings
from memsync.settings.roots import chosen_roots, registered_roots

if TYPE_CHECKING:
    from pathlib import Path

    from memsync.settings.load import Settings

FLAGS = ("--read-only", "--all-roots", "--only-this-root")


def run(config: str | None, root: str | None, flags: Sequence[str]) -> int:
    """Serve on standard input and output with some of FLAGS, and return the exit code."""
    try:
        alone = "--only-this-root" in flags
        settings = own_settings(config, root, all_roots="--all-roots" in flags, only_this_root=alone)
        serve(settings, None, read_only="--read-only" in flags, only_this_root=alone)
    except MemsyncError as error:
        from memsync.cli.output import report

        report(error)
        return error.exit_code
    return 0


def own_settings(config: str | None, root: str | None, *, all_roots: bool, only_this_root: bool) -> Settings | None:
    """Return the settings of the memory root that a server serves; None if it serves the registered memories alone.

    So a wrong setting is an error before a client waits. Raises UsageError, ConfigError, RootError.
    """
    if all_roots and only_this_root:
        raise UsageError("--all-roots and --only-this-root cannot be used together", hint="Use one of them.")
    if all_roots:
        chosen_roots()  # raises an error if there are none
        return None
    try:
        settings = load_settings(config=config, root=root)
    except NoMemoryRoot:
        if only_this_root or not registered_roots():
            raise
        return None
    for warning in settings.warnings:
        _remark(warning)
    return settings


def serve(settings: Settings | None, port: int | None, *, read_only: bool, only_this_root: bool) -> None:
    """Serve on standard input and output, or over HTTP on `port`; `settings` are those of its own memory."""

    def own() -> Settings:
        from memsync.wiring import recognise_root

        assert settings is not None
        now = settings.load_again()
        recognise_root(now, _remark)
        return now

    memories = ServedMemories(own if settings is not None else None, is_alone=only_this_root)
    server = McpServer(memories, read_only=read_only)
    _end_on_signals(memories)
    try:
        if port is not None:
            from memsync.system.extras import require

            require("web", "memsync mcp --http")
            from memsync.mcp_server.http import PATH, TOKEN, serve_http
            from memsync.web.serving import HOST, listening, token_of

            token = token_of(keep_dir(settings), TOKEN)
            bound = listening(port)
            _remark(f"serving http://{HOST}:{bound.getsockname()[1]}{PATH}")
            serve_http(server, bound, token)
        else:
            from memsync.mcp_server.stdio import serve_stdio

            if sys.stdin.isatty():
                _remark("this waits for an MCP client, which starts it by itself; to end it, press Ctrl-C")
                _remark("to set up a client, run: memsync mcp install")
            serve_stdio(server)
    finally:
        memories.close()


def keep_dir(settings: Settings | None) -> Path:
    """Return the folder of the token: that of the memory root, or one for the registered memories."""
    from pathlib import Path

    from memsync.system.user_folders import state_folder

    return settings.keep_dir if settings is not None else Path(state_folder()) / "kept" / "registered"


def _remark(text: str) -> None:
    from memsync.cli.output import remark
    from memsync.model.text import printable

    remark(printable(text))


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
