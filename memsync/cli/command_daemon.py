"""`memsync start`, `stop`, `restart`, `watch` and `logs`."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TextIO

import click

from memsync import __version__
from memsync.cli.common import json_option, load, load_again, progress_on_stderr
from memsync.cli.output import printable, say, say_json
from memsync.cli.served import run_command
from memsync.errors import DaemonRunning, FilesystemError, MemsyncError

if TYPE_CHECKING:
    from memsync.settings.load import Settings

FOLLOW_SECONDS = 0.2
START_ATTEMPTS = 3
STEP_SECONDS = 0.5
"""How long one question to a daemon that is not ready yet may wait, so that progress is shown."""
FIRST_VECTORS_SECONDS = 5.0
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
    """Start the daemon in the background and wait until it answers, by meaning too.

    From then on what is saved is indexed at once, and searches answer from the loaded model. It serves one memory
    root. If a daemon already runs, start says so. If it has other settings or another version, start restarts it.
    """
    settings = load(context)
    limit = time.monotonic() + wait
    started = _start(settings, wait)
    _tell(settings, started, _await_model(settings, limit), as_json=as_json)


@click.command()
@json_option
@click.pass_context
def stop(context: click.Context, as_json: bool) -> None:
    """Stop the daemon and wait until it has ended. If no daemon runs, stop says so."""
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
    limit = time.monotonic() + wait
    process.stop(settings)
    started = _start(settings, wait)
    _tell(settings, started._replace(is_new=True), _await_model(settings, limit), as_json=as_json)


@click.command()
@click.option("--background", type=int, hidden=True, help="Log to the file, and report readiness to this descriptor.")
@click.option("--until-idle", is_flag=True, hidden=True, help="End when nobody has asked anything for a while.")
@click.pass_context
def watch(context: click.Context, background: int | None, until_idle: bool) -> None:
    """Run the daemon in the foreground, with the log on stderr, until interrupted.

    SIGTERM and Ctrl-C end it within two seconds, and so does its terminal's end; SIGHUP lets it read config.toml again.
    """
    if background is not None:
        _watch_in_background(context, background, until_idle=until_idle)
        return
    from memsync.daemon import logs, process

    settings = load(context)
    logs.log_to(logging.StreamHandler(sys.stderr))
    process.serve(settings, lambda: load_again(context), run_command=run_command)


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


class _Started(NamedTuple):
    """What a daemon says of itself, whether it is new, and why the one before it was stopped."""

    about: dict[str, Any]
    is_new: bool
    reason: str = ""


def _start(settings: Settings, wait: float) -> _Started:
    """Start a daemon unless there is one of these settings and this version; return what it is once it answers."""
    from memsync.daemon import daemon_lock, process

    attempts, reason = 0, ""
    while True:
        found = daemon_lock.serving(settings, wait)
        if found is not None:
            outdated = process.outdated(settings)
            if not outdated:
                return _Started(found, is_new=bool(reason), reason=reason)
            process.stop(settings)
            reason = outdated
        attempts += 1
        try:
            about = process.start(settings.options, wait)
            return _Started(about, is_new=True, reason=reason)
        except DaemonRunning:  # another start was quicker
            if attempts == START_ATTEMPTS:
                raise


def _await_model(settings: Settings, limit: float) -> str:
    """Wait until the daemon answers by meaning, at most until `limit` (monotonic clock); return why it does not.

    A memory whose first vectors are still to be computed is waited for only a little: that may take minutes.
    """
    from memsync.wiring import connect_daemon

    try:
        with connect_daemon(settings) as memory, progress_on_stderr() as progress:
            while not memory.wait(model=True, seconds=min(STEP_SECONDS, max(0.0, limit - time.monotonic()))):
                if time.monotonic() >= limit:
                    return "the embedding model is still being loaded"
                if progress is not None:
                    progress("loading the model", 0, 1)
            found = memory.status()
            if found.daemon is not None and not found.daemon.model_loaded:
                return "the embedding model could not be loaded (see memsync logs)"
            limit = min(limit, time.monotonic() + FIRST_VECTORS_SECONDS)
            while not found.space and not memory.wait(vectors=True, seconds=STEP_SECONDS):
                if time.monotonic() >= limit:
                    return "the first vectors are still being computed"
                found = memory.status()
                if progress is not None and found.passages:
                    progress("computing vectors", found.passages - found.building_pending, found.passages)
    except MemsyncError as error:  # it was started all the same; what is wrong with it, `status` and the log tell
        return error.message
    return ""


def _tell(settings: Settings, started: _Started, lacks: str, *, as_json: bool) -> None:
    """Print which daemon serves, why another was stopped for it, and why it does not answer by meaning yet."""
    if as_json:
        say_json({"started": started.is_new, "restarted": started.reason, "lacks": lacks, **started.about})
    else:
        verb = "serves" if started.is_new else "already serves"
        say(f"process {started.about['process']} {verb} {printable(str(settings.root))}")
    if started.reason:
        say(f"memsync: {printable(started.reason)}: it was restarted", err=True)
    if lacks:
        say(f"memsync: {printable(lacks)}; until then searches answer by words alone", err=True)


def _watch_in_background(context: click.Context, descriptor: int, *, until_idle: bool) -> None:
    """Be the daemon that `start` began: what it has to say until it is ready goes to the one who waits."""
    from memsync.client import wire
    from memsync.daemon import logs, process

    def tell(message: dict[str, Any]) -> None:
        with open(descriptor, "w", encoding="utf-8") as pipe:
            pipe.write(json.dumps(message) + "\n")

    ready: Callable[[], None] = lambda: tell({"process": os.getpid()})  # noqa: E731 (because it is passed on)
    try:
        os.set_inheritable(descriptor, False)
        settings = load(context)
        logs.log_to(logs.file_handler(settings))
        process.serve(settings, lambda: load_again(context), ready, run_command, until_idle=until_idle)
    except MemsyncError as error:
        logging.getLogger("memsync.daemon").error("%s", error.sentences())
        try:
            tell({"error": wire.error_message(error)})
        except OSError:  # it was told already that all is well
            raise error from None
        sys.exit(error.exit_code)


def why_not_served(settings: Settings) -> str:
    """Return how the memory is served when no daemon answered: whether one runs, and why it did not answer."""
    from memsync.daemon import daemon_lock, process

    found = daemon_lock.running(settings)
    if found is None:
        return "not running"
    number = f"(process {found.get('process', '?')})"
    if found.get("version", __version__) != __version__:
        return f"running as memsync {printable(str(found['version']))} {number}"
    if not settings["daemon.use"]:
        return f"running, daemon.use is false {number}"
    return (
        f"running with other settings {number}" if process.outdated(settings) else f"running, does not answer {number}"
    )
