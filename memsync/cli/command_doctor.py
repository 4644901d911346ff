"""`memsync doctor`."""

from __future__ import annotations

import sys

import click

from memsync.cli.common import json_option, load
from memsync.cli.output import printable, say, say_json
from memsync.errors import MemsyncError


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
