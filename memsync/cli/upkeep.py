"""`memsync prune`, `duplicates`, `stale`, `collections` and `stats`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from memsync.cli.common import json_option, opened, opened_here, progress_on_stderr
from memsync.cli.text import printable, say, say_json, say_pending
from memsync.errors import UsageError

if TYPE_CHECKING:
    from memsync.model import NoteUse, Pruning, Stats

FAILED_EXIT_CODE = 1
MOST_LINES = 20
QUOTED_LINES = 3


@click.command()
@click.option("--apply", "is_applied", is_flag=True, help="Move them. Without it they are only shown.")
@click.option("--force", is_flag=True, help="Move them even if they are more than 10 % of all notes.")
@click.option("--undo", is_flag=True, help="Move back what the last --apply moved.")
@click.option(
    "--days", type=click.IntRange(1, 36_500), metavar="N", help="Age of task memory. [default: prune.task_days, 30]"
)
@json_option
@click.pass_context
def prune(context: click.Context, is_applied: bool, force: bool, undo: bool, days: int | None, as_json: bool) -> None:
    """Show what is due to retire: task memory that is old, and what has expired. With --apply, move it to archive/.

    Nothing is deleted, folders are kept, and searches find it with is:archived. Personal and pinned notes stay.

    \b
    memsync prune
    memsync prune --apply
    memsync prune --undo
    """
    if undo and (is_applied or force or days):
        raise UsageError("--undo takes no other options", hint="Write: memsync prune --undo")
    with opened(context) as memory:
        try:
            found = memory.undo_prune() if undo else memory.prune(days=days or 0, apply=is_applied, force=force)
        except KeyboardInterrupt:
            say("memsync: memsync prune --undo moves back what has moved", err=True)
            raise
    if as_json:
        say_json(found)
    else:
        _show_pruning(found, is_applied=is_applied or undo)
    for failure in found.failed[:MOST_LINES]:
        about = "" if failure.reason.startswith(failure.path) else f"{printable(failure.path)}: "
        say(f"memsync: {about}{printable(failure.reason)}", err=True)
    if len(found.failed) > MOST_LINES:
        say(f"memsync: and {len(found.failed) - MOST_LINES} others (--json names each)", err=True)
    for warning in found.warnings:
        say(f"memsync: {printable(warning)}", err=True)
    if not (is_applied or undo):
        say_pending(found.pending_text)
    if found.failed:
        sys.exit(FAILED_EXIT_CODE)


def _show_pruning(found: Pruning, *, is_applied: bool) -> None:
    for one in found.moved if is_applied else found.due:
        say(f"{printable(one.path)} -> {printable(one.target)}  {printable(one.reason)}")
    if is_applied:
        say(f"memsync: notes moved: {len(found.moved)}", err=True)
    elif found.is_refused:
        text = f"{len(found.due)} of {found.notes} notes are due, more than 10 %: --apply requires --force"
        say(f"memsync: {text}", err=True)
    else:
        advice = ". Nothing was moved; --apply moves them" if found.due else ""
        say(f"memsync: {len(found.due)} of {found.notes} notes are due{advice}", err=True)


@click.command()
@click.option(
    "--similarity",
    type=click.FloatRange(0.7, 1),
    default=0.95,
    show_default=True,
    help="Minimum similarity (1: identical apart from links).",
)
@click.option("--limit", "-n", type=click.IntRange(1), default=50, show_default=True, help="How many to show.")
@click.option("--all", "compare_all", is_flag=True, help="Compare all passages, not only the 40,000 longest.")
@json_option
@click.pass_context
def duplicates(context: click.Context, similarity: float, limit: int, compare_all: bool, as_json: bool) -> None:
    """Print passages that several notes contain, word for word or nearly so, the most similar first.

    Each passage is compared with every other in this process: interrupt it at any time.
    """
    with opened_here(context) as memory, progress_on_stderr() as progress:
        show = progress or (lambda what, done, total: None)
        found = memory.duplicates(similarity=similarity, limit=limit, compare_all=compare_all, progress=show)
    if as_json:
        say_json(found)
        return
    for position, one in enumerate(found.repetitions):
        if position:
            say()
        for place in one.places:
            say(f"{printable(place.citation)}  {'equal' if one.is_equal else f'{one.score:.3f}'}")
        lines = one.text.split("\n")
        say("\n".join(f"  {line}".rstrip() for line in lines[:QUOTED_LINES]))
        if len(lines) > QUOTED_LINES:
            say("  …")
    if not found.repetitions:
        say("memsync: No duplicates found.", err=True)
    if found.left_out:
        text = f"the {found.left_out} shortest passages were compared by their text alone: --all compares every one"
        say(f"memsync: {text}", err=True)
    if found.pending_vectors:
        say(f"memsync: {found.pending_vectors} passages were compared by their text alone", err=True)
    say_pending(found.pending_text)


@click.command()
@click.option(
    "--days", type=click.IntRange(0, 36_500), default=90, show_default=True, help="Days without an edit or a retrieval."
)
@click.option("--limit", "-n", type=click.IntRange(1), default=50, show_default=True, help="How many to show.")
@json_option
@click.pass_context
def stale(context: click.Context, days: int, limit: int, as_json: bool) -> None:
    """Print notes that were neither edited nor retrieved recently, oldest first.

    Personal and pinned notes are left out.
    """
    with opened(context) as memory:
        found = memory.stale(days=days, limit=limit)
    if as_json:
        say_json(found)
        return
    for one in found.notes:
        say(f"{printable(one.path)}  {one.last_active}  {_use(one)}")
    for warning in found.warnings:
        say(f"memsync: {printable(warning)}", err=True)
    if not found.warnings:
        since = found.counted_since[:10]
        text = f"Retrievals have been counted since {since}." if since else "No retrievals were counted yet."
        say(f"memsync: {text}", err=True)
    say_pending(found.pending_text)


@click.command()
@json_option
@click.pass_context
def collections(context: click.Context, as_json: bool) -> None:
    """Print the folders that hold notes, as the front matter of their README.md describes them."""
    with opened(context) as memory:
        found = memory.collections()
    if as_json:
        say_json(found)
        return
    for one in found.collections:
        about = " - ".join(filter(None, (one.title, one.description)))
        say(f"{printable(one.folder)}  {one.notes} notes, last {one.last_active}  {printable(about)}")
    say_pending(found.pending_text)


@click.command()
@click.option(
    "--days", type=click.IntRange(1, 36_500), default=30, show_default=True, help="Searches of the last N days."
)
@click.option("--limit", "-n", type=click.IntRange(1), default=10, show_default=True, help="How many notes to show.")
@json_option
@click.pass_context
def stats(context: click.Context, days: int, limit: int, as_json: bool) -> None:
    """Print how the memory is used: searches and their latency, notes most and never retrieved, growth.

    What is counted stays on this machine. The text of questions is kept only with `queries = true` under [usage].
    """
    with opened(context) as memory:
        found = memory.stats(days=days, limit=limit)
    if as_json:
        say_json(found)
        return
    _show_stats(found)
    for warning in found.warnings:
        say(f"memsync: {printable(warning)}", err=True)
    say_pending(found.pending_text)


def _show_stats(found: Stats) -> None:
    empty = f", {found.empty} of them empty" if found.empty else ""
    say(f"searches since {found.since[:10]}: {found.searches}{empty}")
    if found.searches:
        say(f"latency: p50 {found.p50_ms:g} ms, p95 {found.p95_ms:g} ms")
    if found.counted_since:
        say(f"most retrieved since {found.counted_since[:10]}:")
    else:
        say("No retrievals were counted yet.")
    for one in found.most_retrieved:
        say(f"  {printable(one.path)}  {_use(one)}")
    say(f"never retrieved: {found.never_count}, the oldest first")
    for one in found.never_retrieved:
        say(f"  {printable(one.path)}  {one.last_active}")
    say("growth:")
    for size in found.growth:
        say(f"  {size.day}  {size.notes} notes  {size.passages} passages  {size.index_bytes / 1e6:.1f} MB")
    for asked in found.queries:
        say(f"asked {asked.at}: {printable(asked.text)} ({asked.hits} notes)")


def _use(one: NoteUse) -> str:
    return f"retrieved {one.retrieved} ×, last {one.last_retrieved[:10]}" if one.retrieved else "never retrieved"
