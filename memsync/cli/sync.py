"""`memsync sync`, `rebuild` and `verify`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from memsync.cli.common import json_option, opened, opened_here, progress_on_stderr, waiting_on_stderr
from memsync.cli.text import printable, say, say_json

if TYPE_CHECKING:
    from memsync.model import SyncReport

_MENDED = "The one built from the files has taken its place. Run: memsync sync"


def _wait(seconds: float) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--wait",
        type=click.FloatRange(0),
        default=seconds,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for another sync.",
    )


@click.command()
@_wait(600.0)
@click.option("--accept-root", is_flag=True, help="Accept a different folder as the memory root.")
@json_option
@click.pass_context
def sync(context: click.Context, wait: float, accept_root: bool, as_json: bool) -> None:
    """Make the index equal to the files: text first, then vectors.

    Interrupt it at any time: the next one goes on where it was. Exits with 1 when a file or the model failed.
    """
    with opened(context) as memory, progress_on_stderr() as progress:
        report = memory.sync(progress=progress, wait_seconds=wait, on_wait=waiting_on_stderr(), accept_root=accept_root)
    _finish(report, as_json)


@click.command()
@_wait(600.0)
@click.option("--drop-vectors", is_flag=True, help="Compute every vector again.")
@json_option
@click.pass_context
def rebuild(context: click.Context, wait: float, drop_vectors: bool, as_json: bool) -> None:
    """Build the index anew from the files; the old one answers until the new one is complete."""
    with opened_here(context) as memory, progress_on_stderr() as progress:
        report = memory.rebuild(
            keep_vectors=not drop_vectors, progress=progress, wait_seconds=wait, on_wait=waiting_on_stderr()
        )
    _finish(report, as_json)


@click.command()
@_wait(5.0)
@click.option("--recompute", is_flag=True, help="Compute every vector again instead of comparing cached ones.")
@json_option
@click.pass_context
def verify(context: click.Context, wait: float, recompute: bool, as_json: bool) -> None:
    """Check that the index is what the files say: build a second one beside it and compare.

    If they differ, print the first difference, put the second one in the index's place, and exit with 1.
    """
    with opened_here(context) as memory, progress_on_stderr() as progress:
        difference = memory.verify(
            recompute=recompute, progress=progress, wait_seconds=wait, on_wait=waiting_on_stderr()
        )
    if as_json:
        say_json({"equal": difference is None, "difference": difference})
    elif difference is None:
        say("the index is equal to one built from the files")
    else:
        say(f"the index differs from the files at line {difference.line} of the dump:")
        for name in ("indexed", "rebuilt"):
            say(f"  {name}: {printable(getattr(difference, name))}")
        say(_MENDED if difference.mended else "Run: memsync rebuild")
    if difference is not None:
        sys.exit(1)


def _finish(report: SyncReport, as_json: bool) -> None:
    for warning in report.warnings:
        say(f"memsync: {printable(warning)}", err=True)
    if as_json:
        say_json(report)
    else:
        say(
            f"{report.added} added, {report.changed} changed, {report.deleted} deleted, {report.unchanged} unchanged; "
            f"vectors: {report.vectors_computed} computed, {report.vectors_reused} reused, "
            f"{report.vectors_pending} pending ({report.seconds:.1f} s)"
        )
    for failure in report.failed:
        say(f"memsync: {printable(failure.path)}: {printable(failure.reason)}", err=True)
    if report.failed:
        sys.exit(1)
