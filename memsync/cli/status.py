"""`memsync status` and `memsync doctor`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from memsync import __version__
from memsync.cli.common import json_option, load, opened
from memsync.cli.text import duration, printable, say, say_json
from memsync.errors import MemsyncError

if TYPE_CHECKING:
    from memsync.model import DaemonStatus
    from memsync.settings import Settings


@click.command()
@json_option
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Print what the index holds and what the daemon does. It does not compare the files."""
    with opened(context) as memory:
        found = memory.status()
    if as_json:
        say_json(found)
        return
    space = printable(found.space or "none yet")
    if found.building_space:
        space += f"\n  building    {printable(found.building_space)} ({found.building_pending} vectors to go)"
    left = f", about {duration(found.pending_seconds)}" if found.pending_seconds else ""
    say(
        f"memory root   {printable(found.root)}\n"
        f"notes         {found.notes:,} ({found.chunks:,} chunks, {found.passages:,} passages)\n"
        f"vectors       {found.vectors:,} ({found.pending_vectors:,} pending{left})\n"
        f"space         {space}\n"
        f"index         {printable(found.index_path)} ({found.index_bytes / 1e6:,.1f} MB)\n"
        f"last sync     {found.last_sync or 'never'}"
    )
    if found.dated_by or found.undated:
        by_commits = f"{found.dated_notes:,} notes by git's history as of {found.dated_by[:12]}"
        say(f"dates         {printable(f'by mtime: {found.undated}') if found.undated else by_commits}")
    if found.daemon is None:
        say(f"daemon        {_daemon_that_was_not_asked(load(context))}")
    else:
        _print_daemon(found.daemon)
    for title, items in (("warnings", found.warnings), ("failures", found.failures)):
        if items:
            say(f"{title}      {len(items)}")
            for item in items:
                say(f"  {printable(item.path)}: {printable(item.reason)}")


def _daemon_that_was_not_asked(settings: Settings) -> str:
    """Return whether a daemon runs that did not answer for this index, and why it did not."""
    from memsync.daemon import lock, process

    found = lock.running(settings)
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


def _print_daemon(daemon: DaemonStatus) -> None:
    watching = f"{daemon.watcher}: {printable(daemon.reason)}" if daemon.reason else daemon.watcher
    model = "loaded" if daemon.model_loaded else "not loaded"
    say(
        f"daemon        process {daemon.process}, memsync {daemon.version}, since {daemon.started_at}\n"
        f"watching      {watching}; compared {daemon.scanned_at or 'not yet'}, {daemon.pending_text} files to go\n"
        f"memory        {daemon.memory_bytes / 1e6:,.0f} MB, model {model}"
    )
    for error in daemon.errors:
        say(f"fault         {printable(error)}")


@click.command()
@json_option
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Check everything memsync depends on, and say what to do about each fault. Exits with 1 if there is one."""
    from memsync.doctor import Check, check_all

    try:
        checks = check_all(load(context))
    except MemsyncError as error:
        checks = [Check("settings", False, error.message, error.hint)]
    if as_json:
        say_json({"healthy": all(check.ok for check in checks), "checks": checks})
    else:
        for check in checks:
            say(f"{'ok   ' if check.ok else 'FAULT'} {check.name:<12} {printable(check.finding)}")
            if check.advice:
                say(f"{'':18} {printable(check.advice)}")
    if not all(check.ok for check in checks):
        sys.exit(1)
