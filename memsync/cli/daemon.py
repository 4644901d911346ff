"""`memsync start`, `stop`, `restart`, `watch` and `logs`."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click

from memsync import __version__
from memsync.cli.common import json_option, load
from memsync.cli.text import printable, say, say_json
from memsync.errors import DaemonRunning, FilesystemError, MemsyncError

if TYPE_CHECKING:
    from memsync.settings import Settings

FOLLOW_SECONDS = 0.2
START_ATTEMPTS = 3
_WAIT = click.option(
    "--wait",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until it answers.",
)


@click.command()
@_WAIT
@json_option
@click.pass_context
def start(context: click.Context, wait: float, as_json: bool) -> None:
    """Start the daemon in the background and wait until it answers.

    From then on what is saved is indexed at once, and searches answer from the loaded model. It serves one memory
    root; when one does already, that is said and nothing is done.
    """
    settings = load(context)
    found, started = _start(settings, wait)
    if as_json:
        say_json({"started": started, **found})
    else:
        verb = "serves" if started else "already serves"
        say(f"process {found['process']} {verb} {printable(str(settings.root))}")
    version = found.get("version", __version__)
    if version != __version__:
        say(f"memsync: it is memsync {version}, this is {__version__}; run memsync restart", err=True)


@click.command()
@json_option
@click.pass_context
def stop(context: click.Context, as_json: bool) -> None:
    """Stop the daemon and wait until it has ended. When there is none, that is said and nothing is done."""
    from memsync.daemon import process

    found = process.stop(load(context))
    if as_json:
        say_json({"stopped": found is not None, **(found or {})})
    else:
        say(f"process {found['process']} has ended" if found else "no daemon is running")


@click.command()
@_WAIT
@json_option
@click.pass_context
def restart(context: click.Context, wait: float, as_json: bool) -> None:
    """Stop the daemon if there is one, and start it with the present settings and version."""
    from memsync.daemon import process

    settings = load(context)
    process.stop(settings)
    found, started = _start(settings, wait)
    if as_json:
        say_json({"started": started, **found})
    else:
        say(f"process {found['process']} serves {printable(str(settings.root))}")


@click.command()
@click.option("--background", type=int, hidden=True, help="Log to the file, and report readiness to this descriptor.")
@click.pass_context
def watch(context: click.Context, background: int | None) -> None:
    """Be the daemon, in the foreground, with the log on stderr, until interrupted.

    SIGTERM and Ctrl-C end it within two seconds, and so does its terminal's end; SIGHUP lets it read config.toml again.
    """
    if background is not None:
        _watch_in_background(context, background)
        return
    from memsync.daemon import logs, process

    settings = load(context)
    logs.log_to(logging.StreamHandler(sys.stderr))
    process.serve(settings, lambda: load(context))


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on printing what is added.")
@click.option(
    "-n", "--lines", type=click.IntRange(0), default=50, show_default=True, help="How many of the last lines."
)
@click.pass_context
def logs(context: click.Context, follow: bool, lines: int) -> None:
    """Print the end of the daemon's log. It names files and errors, never a note's text or a question."""
    from memsync.daemon.logs import log_path

    path = log_path(load(context))
    if not path.exists():
        raise FilesystemError(f"there is no log at {path}", hint="It is written by: memsync start")
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file.readlines()[-lines:] if lines else file.readlines()[:0]:
            say(line, end="")
        if follow:
            _follow(path, file)


def _follow(path: Path, file: TextIO) -> NoReturn:
    """Print what is added to a file, and when another has taken its place, the rest of it and then the other."""
    while True:
        is_last = _is_replaced(path, file)
        say(file.read(), end="")
        sys.stdout.flush()
        if is_last:
            file.close()
            file = path.open(encoding="utf-8", errors="replace")
        else:
            time.sleep(FOLLOW_SECONDS)


def _is_replaced(path: Path, file: TextIO) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:  # it is being rotated
        return False
    return found.st_ino != os.fstat(file.fileno()).st_ino or found.st_size < file.tell()


def _start(settings: Settings, wait: float) -> tuple[dict[str, Any], bool]:
    """Start a daemon unless there is one; return, once it answers, what it says of itself and whether it is new."""
    from memsync.daemon import lock, process

    attempts = 0
    while (found := lock.serving(settings, wait)) is None:
        attempts += 1
        try:
            return process.start(settings.options, wait), True
        except DaemonRunning:  # another start was quicker
            if attempts == START_ATTEMPTS:
                raise
    return found, False


def _watch_in_background(context: click.Context, descriptor: int) -> None:
    """Be the daemon that `start` began: what it has to say until it is ready goes to the one who waits."""
    from memsync.daemon import logs, process, wire

    def tell(message: dict[str, Any]) -> None:
        with open(descriptor, "w", encoding="utf-8") as pipe:
            pipe.write(json.dumps(message) + "\n")

    ready: Callable[[], None] = lambda: tell({"process": os.getpid()})  # noqa: E731 (because it is passed on)
    try:
        os.set_inheritable(descriptor, False)
        settings = load(context)
        logs.log_to(logs.file_handler(settings))
        process.serve(settings, lambda: load(context), ready)
    except MemsyncError as error:
        logging.getLogger("memsync.daemon").error("%s. %s", error.message, error.hint)
        try:
            tell({"error": wire.error_message(error)})
        except OSError:  # it was told already that all is well
            raise error from None
        sys.exit(error.exit_code)
