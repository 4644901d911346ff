"""Serve a text editor. Like `memsync mcp`, this imports neither click nor an operation: people wait for it."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from memsync.errors import NoMemoryRoot
from memsync.lsp.server import Server
from memsync.lsp.stdio import serve_stdio

if TYPE_CHECKING:
    from memsync.settings.load import Settings


def run(config: str | None, root: str | None) -> int:
    """Serve on standard input and output until the editor ends it, and return the exit code."""

    def settings(folder: str) -> Settings | None:
        from memsync.settings.load import load_settings

        try:
            return load_settings(config=config, root=root, cwd=folder or None)
        except NoMemoryRoot:
            return None

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os._exit(128 + number))
    if sys.stdin.isatty():
        from memsync.cli.output import remark

        remark("this waits for a text editor, which starts it by itself; to end it, press Ctrl-C")
    return serve_stdio(lambda send: Server(send, settings))
