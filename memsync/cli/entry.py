"""The `memsync` process. A daemon, if there is one, runs a short command; click runs everything else here.

Programs wait for `memsync hook`, `memsync mcp` and `memsync lsp`, so these start without click.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from memsync.cli.table import SERVED, WRITING
from memsync.cli.typed_line import INTERRUPTED, INTERRUPTED_EXIT_CODE, may_name_roots, served_path, split_global_options

TYPE_CHECKING = False  # and not typing's, because importing it would take a tenth of the time of a served search
if TYPE_CHECKING:
    from typing import NoReturn

    from memsync.client.kept_settings import Served


def run() -> NoReturn:
    """Run the command line and end at once.

    Nothing is left to do then, and an ordinary end of the interpreter takes as long as a served search.
    """
    gc.disable()  # a served search ends before there is anything to collect
    _open_standard_streams()
    if sys.argv[1:2] == ["hook"] and "--help" not in sys.argv:
        with suppress(BaseException):  # an agent takes an exit code for a refusal of the prompt
            from memsync.cli import hook

            hook.run(sys.argv[2:])
        os._exit(0)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a note may have characters that the terminal's encoding lacks
    try:
        code = _serve(sys.argv[1:])
        if code is None:
            code = answer_plainly(sys.argv[1:])
        if code is None:
            code = _run_click()
    except KeyboardInterrupt:  # before click runs
        sys.stderr.write(f"\nmemsync: {INTERRUPTED}\n")
        code = INTERRUPTED_EXIT_CODE
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _open_standard_streams() -> None:
    """Open /dev/null as each standard stream that the caller has closed.

    Otherwise Python has no object for it, and a note could get its descriptor, to which libraries print.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w"))


def _run_click() -> int:
    from memsync.cli.main import main

    gc.enable()
    try:
        main()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    return 0


def _serve(arguments: Sequence[str]) -> int | None:
    """Serve an MCP client or an editor, and return the exit code; None for another command, or if click reads it."""
    options, rest = split_global_options(arguments)
    if rest[:1] not in (["mcp"], ["lsp"]) or "--color" in options or "_MEMSYNC_COMPLETE" in os.environ:
        return None
    if rest in (["lsp"], ["lsp", "--stdio"]):
        from memsync.cli import serve_lsp

        return serve_lsp.run(options.get("--config"), options.get("--root"))
    from memsync.cli import serve_mcp

    if rest[0] != "mcp" or not {*rest[1:]} <= {*serve_mcp.FLAGS}:
        return None
    return serve_mcp.run(options.get("--config"), options.get("--root"), rest[1:])


def answer_plainly(arguments: Sequence[str]) -> int | None:
    """Let the daemon run a short command, and return the exit code; None if click must run it in this process.

    A command that may have written is never run twice: if its answer does not arrive, that is an error.
    """
    options, rest = split_global_options(arguments)
    path = served_path(rest, SERVED)
    if not path or not _may_be_served(path, arguments, rest):
        return None
    from memsync.cli.terminal import show
    from memsync.client.connection import MAYBE_WRITTEN, Client
    from memsync.errors import AnswerLost, DaemonUnavailable, MemsyncError, UsageError

    if options.get("--color", "auto") not in ("auto", "always", "never"):
        return None
    has_asked = False
    try:
        served = _served(options, asks_several=bool(SERVED[path]))
        if served is None:
            return None
        with Client(served.socket, served.digest) as daemon:
            command = _command(rest, options.get("--color", "auto"), served.open_with)
            has_asked = True
            printed = daemon.call("command", command)
    except (MemsyncError, OSError) as error:
        is_refused = isinstance(error, (UsageError, DaemonUnavailable)) and not isinstance(error, AnswerLost)
        if not has_asked or is_refused or path not in WRITING:
            return None
        from memsync.cli.output import report

        failure = AnswerLost(str(error), hint=MAYBE_WRITTEN)
        report(failure)
        return failure.exit_code
    if "code" not in printed:
        return None
    try:
        show(printed["out"], uses_pager=served.uses_pager)
        sys.stderr.write(printed["err"])
    except OSError as error:
        from memsync.cli.output import after_failed_output

        return after_failed_output(error)
    return int(printed["code"])


def _served(options: Mapping[str, str], *, asks_several: bool) -> Served | None:
    """Return how to ask the daemon of the current memory; None if click must run the command in this process.

    Raises ConfigError, RootError.
    """
    from memsync.client.kept_settings import Served, keep, kept

    root = options.get("--root", "")
    if "--config" not in options and (served := kept(root)):
        return served
    from memsync.settings.load import load_settings

    settings = load_settings(config=options.get("--config"), root=root or None)
    if settings.warnings or not settings["daemon.use"] or (settings.is_default_root and asks_several):
        return None
    served = Served.by(settings)
    if "--config" not in options:
        keep(settings, served, root)
    return served


def _command(arguments: Sequence[str], colour: str, open_with: str) -> dict[str, object]:
    """Return what the daemon needs to run a command as if it ran here."""
    from memsync.cli.terminal import terminal_width, wants_colour

    return {
        "arguments": arguments,
        "folder": os.getcwd(),
        "is_terminal": sys.stdout.isatty(),
        "has_colour": wants_colour(colour),
        "width": terminal_width(),
        "open_with": open_with,
    }


def _may_be_served(path: str, arguments: Sequence[str], rest: list[str]) -> bool:
    """Return whether the daemon may run the command `path`; `rest` are its arguments without global options."""
    if "_MEMSYNC_COMPLETE" in os.environ:
        return False
    if path in WRITING and list(arguments[-len(rest) :]) != rest:  # click tells options from the words of a text
        return False
    # A daemon serves one memory.
    return not any(_is_for_click(argument) or may_name_roots(SERVED[path], argument) for argument in rest)


def _is_for_click(argument: str) -> bool:
    """Return whether an argument asks for help, may take long, or cannot be sent because it is not UTF-8."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return True
    is_help = argument == "--help" or (argument[:1] == "-" and argument[1:].isalpha() and argument[-1] == "h")
    return is_help or argument.startswith("--generation")
