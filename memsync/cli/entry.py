"""The `memsync` process: a plain search is answered by the daemon at once, everything else goes to click."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

INTERRUPTED_EXIT_CODE = 130
INTERRUPTED = "Interrupted. Nothing was damaged; run the command again to finish."
GLOBAL_OPTIONS = ("--config", "--root")


def run() -> NoReturn:
    """Run the command line and end at once.

    Nothing is left to do by then, and letting the interpreter take its modules down costs as much as a served search.
    """
    gc.disable()  # a served search ends before there is anything to collect
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a note may hold what the terminal's encoding does not
    try:
        code = answer_plainly(sys.argv[1:])
        if code is None:
            code = _run_click()
    except KeyboardInterrupt:  # before click is there, or while a daemon is asked without it
        sys.stderr.write(f"\nmemsync: {INTERRUPTED}\n")
        code = INTERRUPTED_EXIT_CODE
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _run_click() -> int:
    from memsync.cli.main import main

    gc.enable()
    try:
        main()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    return 0


def answer_plainly(arguments: Sequence[str]) -> int | None:
    """Let the daemon answer a search that is written plainly, and return the exit code; None for anything else.

    Whatever goes wrong before the first line is printed is left to click, which says it properly.
    """
    config, root, position = None, None, 0
    while position + 1 < len(arguments) and arguments[position] in GLOBAL_OPTIONS:
        if arguments[position] == "--config":
            config = arguments[position + 1]
        else:
            root = arguments[position + 1]
        position += 2
    if arguments[position : position + 1] != ["search"] or "_MEMSYNC_COMPLETE" in os.environ:
        return None
    from memsync.cli.asked import read_plainly

    asked = read_plainly(arguments[position + 1 :])
    if asked is None:
        return None
    from memsync.errors import MemsyncError
    from memsync.settings import load_settings
    from memsync.wiring import connect_to_search

    try:
        settings = load_settings(config=asked.config or config, root=asked.root or root)
        if settings.warnings or not settings["daemon.use"]:
            return None
        with connect_to_search(settings) as memory:
            result = asked.of(memory, settings.root_name)
    except (MemsyncError, OSError):
        return None
    try:
        code = asked.show(result)
        sys.stdout.flush()
    except OSError as error:
        return after_failed_output(error)
    return code


def looks_like_option(argument: str) -> bool:
    """Tell whether an argument is written as an option: `-x`, `--name`, `--name=value`, but not `-` or "- an item"."""
    name = argument.partition("=")[0]
    return len(name) > 1 and name.startswith("-") and name.split() == [name]


def after_failed_output(error: OSError) -> int:
    """Return the exit code for output that could not be written: 0 when its reader (`| head`) has what it wanted."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter tries again, and complains
    if isinstance(error, BrokenPipeError):
        return 0
    from memsync.cli.text import printable, say
    from memsync.errors import FilesystemError

    say(f"memsync: {printable(str(error.filename or 'the answer'))}: {error.strerror}", err=True)
    return FilesystemError.exit_code
