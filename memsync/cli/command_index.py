"""`memsync index`: the indexes on this machine; the tables of PostgreSQL, who writes a memory and who may read it."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import click

from memsync.cli.common import answering, load
from memsync.cli.output import CommandAnswer
from memsync.errors import ConfigError, NoMemoryRoot, UsageError
from memsync.model.text import count

if TYPE_CHECKING:
    from memsync.index.postgres.access import DatabaseStatus
    from memsync.index.postgres.database import Database
    from memsync.settings.load import Settings

SECTION = "Index"


@click.group()
def index() -> None:
    """List and remove indexes on this machine, and manage an index in PostgreSQL (docs/postgres.md).

    \b
    memsync index list                     the indexes in your state folder
    memsync index remove --gone            delete those whose folder of notes is gone
    memsync index migrate                  make its tables
    memsync index status                   what the database holds
    memsync index claim --take-over        write this memory from this machine
    memsync index grant reader             let the database role `reader` search it
    """


def _database(settings: Settings) -> closing[Database]:
    """Return the database that the settings name. Raises UsageError if the index is not in PostgreSQL."""
    from memsync.wiring import shared_database

    if settings["index.backend"] != "postgres":
        raise UsageError(
            "the index of this memory is not in PostgreSQL",
            hint='Set backend = "postgres" under [index], and MEMSYNC_INDEX_DSN (docs/postgres.md).',
        )
    return closing(shared_database(settings))


@index.command()
@answering
def migrate(context: click.Context) -> CommandAnswer:
    """Make the tables. Those of another version are refused, with what to do."""
    with _database(load(context)) as database:
        is_new = database.migrate()
    return CommandAnswer({"made": is_new}, ["made the tables" if is_new else "the tables are up to date"])


@index.command()
@click.argument("name", required=False, metavar="[NAME]")
@answering
def status(context: click.Context, name: str | None) -> CommandAnswer:
    """Print what the PostgreSQL server has (status: this memory): versions, and the memories that this role sees.

    The database is that of the current memory, or of the registered memory NAME. Outside of every memory root it is the
    one that MEMSYNC_INDEX_DSN or your own config.toml names.
    """
    found = _status_of(context, name)
    state = "up to date" if found.tables == found.latest else f"this memsync uses {found.latest}: memsync index migrate"
    lines = [
        f"server    {found.server}, PostgreSQL {found.postgres}, pgvector {_pgvector(found)}",
        f"tables    version {found.tables}, {state}",
    ]
    for memory in found.memories:
        readers = f"; read by {', '.join(memory.readers)}" if memory.readers else ""
        synced = f"synced {memory.last_sync}" if memory.last_sync else "never synced"
        size = f"{count(memory.notes, 'note')}, {count(memory.passages, 'passage')}"
        lines.append(f"memory    {memory.name}: {size}, {synced}; written by {memory.writer}{readers}")
    return CommandAnswer(found, lines)


def _status_of(context: click.Context, name: str | None) -> DatabaseStatus:
    """Return what the database holds that `status` is for. Raises ConfigError, UsageError, IndexFailure."""
    from memsync.settings.load import default_of, settings_of
    from memsync.settings.roots import chosen_roots
    from memsync.settings.settings_list import DSN
    from memsync.wiring import database_status

    settings = None
    if name is not None:
        root = chosen_roots((name,))[name]
        if root.dsn:
            return database_status(root.dsn, root.source)
        settings = settings_of(root)
    try:
        with _database(settings or load(context)) as database:
            return database.status()
    except NoMemoryRoot as error:
        if dsn := default_of(DSN):
            return database_status(dsn)
        raise ConfigError(
            "there is no memory root here, and no connection string is set",
            hint="Set MEMSYNC_INDEX_DSN, or name a registered memory: memsync index status NAME",
        ) from error


def _pgvector(found: DatabaseStatus) -> str:
    """Return pgvector's version; if it is not installed, what to do."""
    if found.pgvector:
        return found.pgvector
    if found.installable:
        return "not installed yet; memsync index migrate installs it if it may"
    return "not installed; the server has no files of it: install pgvector 0.8 or later there"


@index.command()
@click.option("--take-over", is_flag=True, help="Proceed even if another machine or folder has claimed it.")
@answering
def claim(context: click.Context, take_over: bool) -> CommandAnswer:
    """Make this machine and folder the one that writes this memory.

    The first sync does so by itself. With --take-over the former writer is refused from then on, so use it only if that
    machine or folder is gone for good.
    """
    with _database(load(context)) as database:
        before = database.claim(take_over=take_over)
    outcome = f"taken over from {before}" if before else "this machine and folder write it"
    return CommandAnswer({"memory": database.name, "before": before}, [f"{database.name}: {outcome}"])


@index.command()
@click.argument("role")
@answering
def grant(context: click.Context, role: str) -> CommandAnswer:
    """Let the database role ROLE read this memory, and no other one."""
    with _database(load(context)) as database:
        database.grant(role)
    document = {"memory": database.name, "role": role, "granted": True}
    return CommandAnswer(document, [f"{role} may read {database.name}"])


@index.command()
@click.argument("role")
@answering
def revoke(context: click.Context, role: str) -> CommandAnswer:
    """Take the right to read this memory from the database role ROLE."""
    with _database(load(context)) as database:
        could_read = database.revoke(role)
    outcome = "may not read it any more" if could_read else "could not read it"
    document = {"memory": database.name, "role": role, "revoked": could_read}
    return CommandAnswer(document, [f"{database.name}: {role} {outcome}"])


@index.command("list")
@answering
def list_(_: click.Context) -> CommandAnswer:
    """List the indexes in your state folder: folder of notes, size, last write, and whether the folder is gone."""
    from memsync.sync.stored_indexes import stored_indexes

    found = stored_indexes()
    lines = [
        f"{each.bytes / 1e6:.1f} MB  {each.last_written[:10]}  {'gone' if each.gone else 'there'}  "
        f"{each.root or each.folder}"
        for each in found
    ]
    return CommandAnswer({"indexes": found}, lines)


@index.command()
@click.argument("path", required=False)
@click.option("--gone", "is_gone", is_flag=True, help="Delete each index whose folder of notes is gone.")
@answering
def remove(_: click.Context, path: str | None, is_gone: bool) -> CommandAnswer:
    """Delete the index of the folder of notes at PATH, or with --gone of each folder that is gone.

    Notes are never deleted. The journal and the copies of `forget` stay, too, and the command prints where they are. If
    you moved a folder of notes, run memsync there first: it takes its index along, and without it finds no journal.
    """
    from memsync.sync import stored_indexes as stored

    named = os.path.realpath(path or "")
    chosen = [each for each in stored.stored_indexes() if (each.gone if is_gone else named in each[:2])]
    if (not path) != is_gone or (path and not chosen):
        raise UsageError("name --gone, or one folder that has an index here", hint="See: memsync index list")
    for each in chosen:
        stored.remove(each)
    lines = [f"removed the index of {each.root or each.folder}; {each.kept} stays" for each in chosen]
    return CommandAnswer({"removed": chosen}, lines)
