"""`memsync log`, `remember`, `note new` and `recover`."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from memsync.cli.common import json_option, opened
from memsync.cli.text import printable, say_json, say_pending, visible
from memsync.errors import UsageError

if TYPE_CHECKING:
    from memsync.model import Overwritten, Written

_WORDS = click.argument("words", nargs=-1, metavar="[TEXT]...")
_EDIT = click.option("--edit", is_flag=True, help="Write the text in $EDITOR.")
_FORCE = click.option("--force", is_flag=True, help="Write though an editor has the note open.")
_TIER = click.option("--tier", default="", metavar="TIER", help="personal, project or task.")


def _tags(what: str) -> Callable[[Any], Any]:
    return click.option("--tag", "tags", multiple=True, metavar="TAG", help=f"Tag {what}; may be given several times.")


def text_of(words: tuple[str, ...], *, edit: bool = False) -> str:
    """Return the text that arguments, an editor or standard input give. Raises UsageError when there is none."""
    if edit:
        return (click.edit(" ".join(words)) or "").removesuffix("\n")
    if words and words != ("-",):
        return " ".join(words)
    if sys.stdin.isatty() and not words:
        raise UsageError("there is no text to write", hint="Give it as arguments, on standard input, or with --edit.")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(newline="")  # a text is kept as it is, line ends included
    return sys.stdin.read().removesuffix("\n").removesuffix("\r")


def say_written(written: Written, *, as_json: bool) -> None:
    """Print where something was written; what is to be said about it goes to stderr."""
    if as_json:
        say_json(written)
    else:
        click.echo(printable(written.citation))
    for warning in written.warnings:
        click.echo(f"memsync: {printable(warning)}", err=True)


@click.command()
@_WORDS
@click.option("--day", default="", metavar="DATE", help="The log of this day; else today's.")
@click.option("--time", default="", metavar="HH:MM", help="The time of day; else now.")
@_tags("the entry")
@_EDIT
@_FORCE
@json_option
@click.pass_context
def log(
    context: click.Context,
    words: tuple[str, ...],
    day: str,
    time: str,
    tags: tuple[str, ...],
    edit: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Append TEXT to today's log, with the time, and print where it stands.

    \b
    memsync log chose SQLite for the store
    git log -1 --format=%s | memsync log --tag work
    """
    text = text_of(words, edit=edit)
    with opened(context) as memory:
        written = memory.log(text, day=day, time=time, tags=tags, force=force)
    say_written(written, as_json=as_json)


@click.command()
@_WORDS
@click.option("--section", default="", metavar="HEADING", help="The section to put it in; made if it is not there.")
@click.option("--note", default="", metavar="PATH", help="The note to put it in; else MEMORY.md, or the tier's own.")
@_TIER
@_tags("it")
@_EDIT
@_FORCE
@json_option
@click.pass_context
def remember(
    context: click.Context,
    words: tuple[str, ...],
    section: str,
    note: str,
    tier: str,
    tags: tuple[str, ...],
    edit: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Add TEXT to what lasts, as a list item, and print where it stands. What is there already is not added again.

    \b
    memsync remember prefers tabs over spaces
    memsync remember --section Decisions the store is SQLite
    memsync remember --tier task the demo is on Friday
    """
    text = text_of(words, edit=edit)
    with opened(context) as memory:
        written = memory.remember(text, section=section, note=note, tier=tier, tags=tags, force=force)
    say_written(written, as_json=as_json)


@click.group()
def note() -> None:
    """Make and list notes."""


@note.command()
@click.argument("path")
@_WORDS
@click.option("--title", default="", help="Its heading; else its name.")
@_TIER
@_tags("the note")
@_EDIT
@json_option
@click.pass_context
def new(
    context: click.Context,
    path: str,
    words: tuple[str, ...],
    title: str,
    tier: str,
    tags: tuple[str, ...],
    edit: bool,
    as_json: bool,
) -> None:
    """Make the note PATH, with TEXT if there is any, and print its path. One that is there already is left alone."""
    text = text_of(words, edit=edit) if words or edit else ""
    with opened(context) as memory:
        written = memory.new_note(path, text, title=title, tier=tier, tags=tags)
    say_written(written, as_json=as_json)


@note.command("list")
@click.argument("folder", default="")
@click.option("--archived", is_flag=True, help="Those in archive/, too.")
@json_option
@click.pass_context
def list_(context: click.Context, folder: str, archived: bool, as_json: bool) -> None:
    """Print every note beneath FOLDER, or all of them, with its kind, its tier and the day it was last active."""
    with opened(context) as memory:
        found = memory.notes(folder=folder, archived=archived)
    if as_json:
        say_json(found)
    for one in () if as_json else found.notes:
        flags = "".join(f"  {name}" for name in ("pinned", "archived") if getattr(one, name))
        click.echo(f"{printable(one.path)}  {one.kind}  {one.tier}  {one.last_active}{flags}  {visible(one.title)}")
    say_pending(found.pending_text)
    if not found.notes:
        click.echo(f"memsync: there are no notes beneath {printable(folder) or 'this root'}", err=True)
        sys.exit(1)


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--apply", "is_applied", is_flag=True, help="Append them again: these, or all that were not edited.")
@click.option("--dismiss", is_flag=True, help="Forget these: they were deleted on purpose.")
@click.option("--days", type=click.IntRange(0), default=30, show_default=True, help="How far back to look.")
@json_option
@click.pass_context
def recover(
    context: click.Context, ids: tuple[str, ...], is_applied: bool, dismiss: bool, days: int, as_json: bool
) -> None:
    """Show what memsync appended and is not there any more: an editor may have saved an older version over it.

    Exits with 1 when something is missing. What an editor changed since is marked `edited`.
    """
    if dismiss and (is_applied or not ids):
        raise UsageError("--dismiss needs the names of what to forget", hint="See: memsync recover")
    with opened(context) as memory:
        if dismiss:
            count = memory.dismiss(ids)
            if as_json:
                say_json({"dismissed": count})
            else:
                click.echo(f"{count} forgotten")
            return
        found = memory.overwritten(days=days)
        if is_applied:
            wanted = ids or tuple(one.id for one in found if not one.similar)
            written = memory.recover(wanted)
            if as_json:
                say_json({"recovered": written})
            for one in () if as_json else written:
                say_written(one, as_json=False)
            return
    _show_overwritten(found, as_json=as_json)


def _show_overwritten(found: tuple[Overwritten, ...], *, as_json: bool) -> None:
    if as_json:
        say_json({"overwritten": found})
    for one in found if not as_json else ():
        edited = "  edited" if one.similar else ""
        click.echo(f"{one.id}  {printable(one.path)}  {one.appended_at}{edited}")
        click.echo("\n".join(f"  {line}" for line in visible(one.text).split("\n")))
    if found:
        sys.exit(1)
    click.echo("memsync: everything that was appended is there", err=True)
