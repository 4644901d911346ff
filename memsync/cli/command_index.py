"""`memsync index`: the tables of the PostgreSQL index, who writes a memory, and who may read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from memsync.cli.common import json_option, load
from memsync.cli.output import count, say_answer
from memsync.errors import UsageError
from memsync.model.text import printable

if TYPE_CHECKING:
    from memsync.index.postgres.database import Database
    from memsync.settings.load import Settings


@click.group()
def index() -> None:
    """Manage the index in PostgreSQL (docs/postgres.md).

    \b
    memsync index migrate                  make its tables, or bring them up to date
    memsync index status                   what the database holds
    memsync index claim --take-over        write this memory from this machine
    memsync index grant reader             let the database role `reader` search it
    """


@contextmanager
def _database(context: click.Context) -> Iterator[tuple[Settings, Database]]:
    """Yield the settings and the database that they name. Raises UsageError if the index is not in PostgreSQL."""
    from memsync.wiring import shared_database

    settings = load(context)
    if settings["index.backend"] != "postgres":
        raise UsageError(
            "the index of this memory is not in PostgreSQL",
            hint='Set backend = "postgres" under [index], and MEMSYNC_INDEX_DSN (docs/postgres.md).',
        )
    database = shared_database(settings)
    try:
        yield settings, database
    finally:
        database.close()


@index.command()
@click.option("--to", type=click.IntRange(min=0), metavar="N", help="Stop at version N; 0 removes all tables.")
@click.option("--apply", "is_applied", is_flag=True, help="With --to: remove tables even if they hold memories.")
@json_option
@click.pass_context
def migrate(context: click.Context, to: int | None, is_applied: bool, as_json: bool) -> None:
    """Make the tables, or bring them to the version that this memsync uses.

    A version below the present one undoes migrations, for all memories of the database: what they made is gone. A sync
    of each memory fills it again, but not the rights that were granted.
    """
    with _database(context) as (_, database):
        if to is not None and not is_applied:
            _refuse_loss(database, to)
        steps = database.migrate(to)
    lines = [f"{direction}  {name}" for direction, name in steps] or ["the tables are up to date"]
    done = [{"direction": direction, "migration": name} for direction, name in steps]
    say_answer({"steps": done}, lines, as_json=as_json)


def _refuse_loss(database: Database, to: int) -> None:
    """Raise UsageError if going to version `to` would remove tables that hold memories."""
    found = database.status()
    if to < found.tables and found.memories:
        names = ", ".join(f"{printable(memory.name)} ({printable(memory.writer)})" for memory in found.memories)
        raise UsageError(
            f"version {to} of the tables removes what the database has of these memories: {names}",
            hint=f"The notes stay. To go on, run: memsync index migrate --to {to} --apply",
        )


@index.command()
@json_option
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Print the versions of server, pgvector and tables, and the memories that this database role sees."""
    with _database(context) as (_, database):
        found = database.status()
    state = "up to date" if found.tables == found.latest else f"this memsync uses {found.latest}: memsync index migrate"
    pgvector = found.pgvector or "not installed"
    lines = [
        f"server    {printable(found.server)}, PostgreSQL {found.postgres}, pgvector {pgvector}",
        f"tables    version {found.tables}, {state}",
    ]
    for memory in found.memories:
        readers = f"; read by {', '.join(map(printable, memory.readers))}" if memory.readers else ""
        synced = f", synced {printable(memory.last_sync)}" if memory.last_sync else ", never synced"
        size = f"{count(memory.notes, 'note', 'notes')}, {count(memory.passages, 'passage', 'passages')}"
        lines.append(
            f"memory    {printable(memory.name)}: {size}{synced}; written by {printable(memory.writer)}{readers}"
        )
    document = {**found._asdict(), "memories": [memory._asdict() for memory in found.memories]}
    say_answer(document, lines, as_json=as_json)


@index.command()
@click.option("--take-over", is_flag=True, help="Also if another machine or folder has claimed it.")
@json_option
@click.pass_context
def claim(context: click.Context, take_over: bool, as_json: bool) -> None:
    """Make this machine and folder the one that writes this memory.

    The first sync does so by itself. With --take-over the former writer is refused from then on, so use it only if that
    machine or folder is gone for good.
    """
    with _database(context) as (_, database):
        before = database.claim(take_over=take_over)
    outcome = f"taken over from {printable(before)}" if before else "this machine and folder write it"
    say_answer({"memory": database.name, "before": before}, [f"{printable(database.name)}: {outcome}"], as_json=as_json)


@index.command()
@click.argument("role")
@json_option
@click.pass_context
def grant(context: click.Context, role: str, as_json: bool) -> None:
    """Let the database role ROLE read this memory, and no other one."""
    with _database(context) as (_, database):
        database.grant(role)
    line = f"{printable(role)} may read {printable(database.name)}"
    say_answer({"memory": database.name, "role": role, "granted": True}, [line], as_json=as_json)


@index.command()
@click.argument("role")
@json_option
@click.pass_context
def revoke(context: click.Context, role: str, as_json: bool) -> None:
    """Take the right to read this memory from the database role ROLE."""
    with _database(context) as (_, database):
        could_read = database.revoke(role)
    outcome = "may not read it any more" if could_read else "could not read it"
    line = f"{printable(database.name)}: {printable(role)} {outcome}"
    say_answer({"memory": database.name, "role": role, "revoked": could_read}, [line], as_json=as_json)
