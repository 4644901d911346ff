"""`memsync service`: the daemon started with the session."""

from __future__ import annotations

import sys

import click

from memsync.cli.common import json_option, load
from memsync.cli.output import printable, say, say_json


@click.group()
def service() -> None:
    """Let the system start the daemon with your session, and again when it dies."""


@service.command()
@click.option("--dry-run", is_flag=True, help="Print what would be written, and write nothing.")
@click.pass_context
def install(context: click.Context, dry_run: bool) -> None:
    """Write a systemd user unit (Linux) or a launchd agent (macOS) for this memory root, and start it."""
    from memsync.daemon import service as services

    found = services.service_of(load(context))
    say(f"# {printable(str(found.path))}")
    say(found.text, end="")
    if dry_run:
        for command in found.enable:
            say(f"# would run: {printable(' '.join(command))}")
        return
    complaints = services.install(found)
    wrong = services.verify(found)
    _finish([*complaints, *([f"systemd-analyze: {wrong}"] if wrong else [])], "installed and started")


@service.command()
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
@click.pass_context
def uninstall(context: click.Context, dry_run: bool) -> None:
    """Stop the service and remove its file."""
    from memsync.daemon import service as services

    found = services.service_of(load(context))
    if dry_run:
        for command in found.disable:
            say(f"# would run: {printable(' '.join(command))}")
        say(f"# would remove: {printable(str(found.path))}")
        return
    if not found.path.exists():
        say("no service is installed for this memory root")
        return
    _finish(services.uninstall(found), f"removed {printable(str(found.path))}")


@service.command()
@json_option
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Say whether a service is installed and runs, and what systemd finds wrong with it. Exits with 1 if not."""
    from memsync.daemon import service as services

    found = services.service_of(load(context))
    installed = found.path.exists()
    active = installed and services.is_active(found)
    wrong = services.verify(found) if installed else ""
    if as_json:
        say_json(
            {"name": found.name, "path": str(found.path), "installed": installed, "active": active, "fault": wrong}
        )
    else:
        state = "runs" if active else "is installed and does not run" if installed else "is not installed"
        say(f"{found.name} {state}: {printable(str(found.path))}")
        if wrong:
            say(printable(wrong))
    if not active:
        sys.exit(1)


def _finish(complaints: list[str], done: str) -> None:
    for complaint in complaints:
        say(f"memsync: {printable(complaint)}", err=True)
    if complaints:
        sys.exit(1)
    say(f"# {printable(done)}")
