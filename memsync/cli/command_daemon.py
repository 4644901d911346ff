"""The daemon's commands: `start`, `stop`, `restart`, `watch`, `logs` and `service`."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from memsync.cli.common import answering, load
from memsync.cli.main import run_command
from memsync.cli.output import NO_EXIT_CODE, CommandAnswer, remark, say
from memsync.errors import DaemonRunning, FilesystemError, IndexFailure, MemsyncError
from memsync.model.text import printable

if TYPE_CHECKING:
    from memsync.settings.load import Settings

SECTION = "Daemon"

STEP_SECONDS = 0.5
"""How long `start` waits for all vectors before it asks for the first ones: a few notes have them soon."""
FIRST_VECTORS_SECONDS = 5.0
BY_WORDS = "until then searches answer by words alone"
CANNOT_WRITE = "until then searches that find changed files fail"
NO_ANSWERS = "until the index can be used, searches fail with this error, too"
START_WAIT = click.option(
    "--wait",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until it answers.",
)


@click.group("daemon")
def daemon_() -> None:
    """Start and stop the daemon, which keeps the index up to date and answers searches at once."""


@daemon_.command()
@START_WAIT
@answering
def start(context: click.Context, wait: float) -> CommandAnswer:
    """Start the daemon in the background and wait until it answers, including semantic queries.

    From then on it indexes each file when you save it, and searches use the model that it has loaded. It serves one
    memory root. If a daemon already runs, start says so. If it has other settings or another version, start restarts
    it.
    """
    return _start(load(context), wait)


@daemon_.command()
@answering
def stop(context: click.Context) -> CommandAnswer:
    """Stop the daemon and wait until it has ended. If no daemon runs, stop says so."""
    from memsync.daemon import process

    stopped = process.stop(load(context))
    line = f"process {stopped['process']} has ended" if stopped else "no daemon is running"
    return CommandAnswer({"stopped": stopped is not None, **(stopped or {})}, [line])


@daemon_.command()
@START_WAIT
@answering
def restart(context: click.Context, wait: float) -> CommandAnswer:
    """Stop the daemon if there is one, and start it with the present settings and version."""
    return _start(load(context), wait, restart=True)


@daemon_.command()
@click.option("--background", is_flag=True, hidden=True, help="Log to the file, and report to standard output.")
@click.option("--until-idle", is_flag=True, hidden=True, help="End when no client has sent a request for a while.")
@click.pass_context
def watch(context: click.Context, background: bool, until_idle: bool) -> None:
    """Run the daemon in the foreground, with the log on stderr, until interrupted.

    SIGTERM, Ctrl-C or closing the terminal ends it within two seconds. If its settings change, it begins anew.
    """
    if background:
        _watch_in_background(context, until_idle=until_idle)
        return
    from memsync.daemon import logs, process
    from memsync.settings.load import load_settings

    options = load(context).options
    os.chdir("/")  # the current folder may be removed while the daemon runs
    named = dict(zip(options[::2], options[1::2], strict=True))
    settings = load_settings(config=named.get("--config"), root=named.get("--root"))
    logs.log_to(logging.StreamHandler(sys.stderr))
    process.serve(settings, run_command=run_command)


@daemon_.command()
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they are written.")
@click.option("-n", "--lines", type=click.IntRange(0), default=50, show_default=True, help="Number of lines to print.")
@click.pass_context
def logs(context: click.Context, follow: bool, lines: int) -> None:
    """Print the end of the daemon's log. It names files and errors, never a note's text or a question."""
    from memsync.daemon.logs import log_path

    path = log_path(load(context))
    if not path.exists():
        raise FilesystemError(
            f"there is no log at {path}", hint="Start the daemon, which writes it: memsync daemon start"
        )
    if follow:  # -F also follows the file that replaces this one; the daemon has made each record safe to print
        try:
            os.execvp("tail", ["tail", "-n", str(lines), "-F", str(path)])  # noqa: S606, S607 (because PATH has absolute folders only, see memsync/cli/__init__.py)
        except OSError as error:
            raise FilesystemError(f"tail cannot be run: {error.strerror}", hint=f"Open {path} yourself.") from error
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in deque(file, lines):
            say(line, end="")


def _start(settings: Settings, wait: float, *, restart: bool = False) -> CommandAnswer:
    """Start the daemon; tell which one serves, why it replaced another, and what it lacks to answer by meaning."""
    from memsync.daemon import process

    limit = time.monotonic() + wait
    if restart:
        process.stop(settings)
    daemon, is_new, reason = daemon_started(settings, wait)
    is_new = is_new or restart
    lacks, meanwhile = _await_model(settings, limit)
    line = f"process {daemon['process']} {'serves' if is_new else 'already serves'} {settings.root}"
    remarks = [*[f"{reason}: it was restarted"] * bool(reason), *[f"{lacks}; {meanwhile}"] * bool(lacks)]
    return CommandAnswer({"started": is_new, "restarted": reason, "lacks": lacks, **daemon}, [line], remarks)


def daemon_started(settings: Settings, wait: float) -> tuple[dict[str, Any], bool, str]:
    """Start a daemon unless one with these settings and this version runs; wait until it answers.

    Return its description, whether it is new, and why the one before it was stopped.
    """
    from memsync.daemon import daemon_lock, process

    running = daemon_lock.serving(settings, wait)
    reason = process.outdated(settings) if running is not None else ""
    if running is None or reason:
        if reason:
            process.stop(settings)
        with suppress(DaemonRunning):  # another start was quicker
            return process.start(settings.options, wait), True, reason
        running = daemon_lock.serving(settings, wait)
    return running or process.start(settings.options, wait), False, reason


def _await_model(settings: Settings, limit: float) -> tuple[str, str]:
    """Wait until the daemon answers by meaning, at most until `limit` (monotonic clock).

    It waits only FIRST_VECTORS_SECONDS for the first vectors: they may take minutes. Return why the daemon does not
    answer so, and what that means for searches; two empty texts if it does.
    """
    from memsync.features.indexing import INDEX_FAILURE
    from memsync.memory import RemoteMemory

    try:
        with RemoteMemory.serving(settings) as memory:
            if not memory.wait(model=True, seconds=max(0.0, limit - time.monotonic())):
                return "the embedding model is still being loaded", BY_WORDS
            status = memory.status()
            if fault := next((failure.reason for failure in status.failures if failure.path == INDEX_FAILURE), ""):
                return fault, CANNOT_WRITE
            if status.daemon is not None and not status.daemon.model_loaded:
                return "the embedding model could not be loaded (see memsync daemon logs)", BY_WORDS
            limit = min(limit, time.monotonic() + FIRST_VECTORS_SECONDS)
            while not memory.wait(vectors=True, seconds=STEP_SECONDS) and not memory.status().space:
                if time.monotonic() >= limit:
                    return "the first vectors are still being computed", BY_WORDS
            return "", ""
    except IndexFailure as error:  # the daemon has started; `status` and the log show its fault
        return error.message, NO_ANSWERS
    except MemsyncError as error:
        return error.message, "see memsync status and memsync daemon logs"


def _watch_in_background(context: click.Context, *, until_idle: bool) -> None:
    """Run the daemon that `start` began; report to the waiting `start` that it is ready, or why it failed."""
    from memsync.daemon import logs, process, startup

    try:
        settings = load(context)
        logs.log_to(logs.file_handler(settings))
        process.serve(settings, lambda: startup.report({"process": os.getpid()}), run_command, until_idle=until_idle)
    except MemsyncError as error:
        logging.getLogger("memsync.daemon").error("%s", error.sentences())
        startup.report_failure(error)
        sys.exit(error.exit_code)


# ------------------------------------------------------------------------------------------------- service


@daemon_.group()
def service() -> None:
    """Let the system start the daemon with your session, and again when it dies."""


@service.command()
@click.option("--dry-run", is_flag=True, help="Print what would be written, and write nothing.")
@click.pass_context
def install(context: click.Context, dry_run: bool) -> None:
    """Write a systemd user unit (Linux) or a launchd agent (macOS) for this memory root, and start it."""
    from memsync.daemon import user_service as services

    unit = services.service_of(load(context))
    say(f"# {printable(str(unit.path))}")
    say(unit.text, end="")
    if dry_run:
        for command in unit.enable:
            say(f"# would run: {printable(' '.join(command))}")
        return
    _finish(services.install(unit), "installed and started")


@service.command()
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
@click.pass_context
def uninstall(context: click.Context, dry_run: bool) -> None:
    """Stop the service and remove its file."""
    from memsync.daemon import user_service as services

    unit = services.service_of(load(context))
    if dry_run:
        for command in unit.disable:
            say(f"# would run: {printable(' '.join(command))}")
        say(f"# would remove: {printable(str(unit.path))}")
    elif unit.path.exists():
        _finish(services.uninstall(unit), f"removed {printable(str(unit.path))}")
    else:
        say("no service is installed for this memory root")


@service.command()
@answering
def status(context: click.Context) -> CommandAnswer:
    """Say whether a service is installed and runs. Exits with 1 if not."""
    from memsync.daemon import user_service as services

    unit = services.service_of(load(context))
    installed = unit.path.exists()
    active = installed and services.is_active(unit)
    state = "runs" if active else "is installed and does not run" if installed else "is not installed"
    document = {"name": unit.name, "path": str(unit.path), "installed": installed, "active": active}
    return CommandAnswer(document, [f"{unit.name} {state}: {unit.path}"], code=0 if active else NO_EXIT_CODE)


def _finish(complaints: list[str], done: str) -> None:
    for complaint in complaints:
        remark(printable(complaint))
    if complaints:
        sys.exit(NO_EXIT_CODE)
    say(f"# {printable(done)}")
