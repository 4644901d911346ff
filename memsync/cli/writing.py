"""`memsync log`, `remember`, `note new` and `recover`."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from memsync.cli.arguments import FREE_TEXT
from memsync.cli.common import here, json_option, opened
from memsync.cli.text import printable, say, say_json, say_pending
from memsync.errors import MemsyncError, UsageError

if TYPE_CHECKING:
    from memsync.model import Overwritten, Written

_ALL_DAYS = 36_500
_LAST_LINE_END = re.compile(r"(?:\r\n|\n|\r)\Z")
_WORDS = click.argument("words", nargs=-1, metavar="[TEXT]...")
_EDIT = click.option("--edit", is_flag=True, help="Write the text in $EDITOR.")
_FORCE = click.option("--force", is_flag=True, help="Write even if an editor has the note open.")
_TIER = click.option("--tier", default="", metavar="TIER", help="personal, project or task.")


def _tags(what: str) -> Callable[[Any], Any]:
    return click.option("--tag", "tags", multiple=True, metavar="TAG", help=f"Tag {what}; may be given several times.")


def text_of(words: tuple[str, ...], *, edit: bool = False) -> str:
    """Return the text that arguments, an editor or standard input give.

    One line end after it, of any kind (LF, CRLF or CR), is the shell's or the editor's, and not the text's.
    Raises UsageError when there is none, MemsyncError when the editor fails.
    """
    if edit:
        try:
            return _LAST_LINE_END.sub("", click.edit(" ".join(words)) or "")
        except click.ClickException as error:
            reason = error.format_message().rstrip(".")
            hint = "Nothing was written. Check $VISUAL and $EDITOR."
            raise MemsyncError(f"The editor failed: {reason}", hint=hint) from error
    if words and words != ("-",):
        return " ".join(words)
    if sys.stdin.isatty() and not words:
        raise UsageError("there is no text to write", hint="Give it as arguments, on standard input, or with --edit.")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(newline="")  # a text is kept as it is, line ends included
    return _LAST_LINE_END.sub("", sys.stdin.read())


def say_written(written: Written, *, as_json: bool) -> None:
    """Print where something was written; what is to be said about it goes to stderr."""
    if as_json:
        say_json(written)
    else:
        say(printable(written.citation))
    for warning in written.warnings:
        say(f"memsync: {printable(warning)}", err=True)


@click.command(context_settings=FREE_TEXT)
@_WORDS
@click.option("--day", default="", metavar="DATE", help="The day: 2026-11-21, yesterday, 3d. [default: today]")
@click.option("--time", default="", metavar="HH:MM", help="The time. [default: now; none for another day]")
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
    """Append TEXT to today's log with a timestamp and print its path:line. Options must come before TEXT.

    \b
    memsync log chose SQLite for the store
    memsync log --day yesterday --time 17:30 met Dana about pricing
    git log -1 --format=%s | memsync log --tag work
    """
    text = text_of(words, edit=edit)
    with opened(context) as memory:
        written = memory.log(text, day=day, time=time, tags=tags, force=force)
    say_written(written, as_json=as_json)


@click.command(context_settings=FREE_TEXT)
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
    """Add TEXT to long-term memory (MEMORY.md) and print its path:line. What is there already is not added again.

    Options must come before TEXT.

    \b
    memsync remember prefers tabs over spaces
    memsync remember --section Decisions the store is SQLite
    memsync remember --tier task the demo is on Friday
    """
    text = text_of(words, edit=edit)
    with opened(context) as memory:
        written = memory.remember(
            text, section=section, note=here(context).note(note) if note else "", tier=tier, tags=tags, force=force
        )
    say_written(written, as_json=as_json)


@click.group()
def note() -> None:
    """Make and list notes."""


@note.command(context_settings=FREE_TEXT)
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
    """Make the note PATH, with TEXT if there is any, and print its path. A note that exists is left alone.

    PATH counts from the memory root; with ./ or ../ it counts from the current folder. Options must come before TEXT.
    """
    text = text_of(words, edit=edit) if words or edit else ""
    with opened(context) as memory:
        written = memory.new_note(here(context).note(path), text, title=title, tier=tier, tags=tags)
    say_written(written, as_json=as_json)


@note.command("list")
@click.argument("folder", default="")
@click.option("--archived", is_flag=True, help="Those in archive/, too.")
@json_option
@click.pass_context
def list_(context: click.Context, folder: str, archived: bool, as_json: bool) -> None:
    """Print every note beneath FOLDER, or all of them, with its kind, its tier and the day it was last active."""
    with opened(context) as memory:
        found = memory.notes(folder=here(context).folder(folder) if folder else "", archived=archived)
    if as_json:
        say_json(found)
    for one in () if as_json else found.notes:
        flags = "".join(f"  {name}" for name in ("pinned", "archived") if getattr(one, name))
        say(f"{printable(one.path)}  {one.kind}  {one.tier}  {one.last_active}{flags}  {printable(one.title)}")
    say_pending(found.pending_text)
    if not found.notes:
        say(f"memsync: there are no notes in {printable(folder) or 'this root'}", err=True)
        sys.exit(1)


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "--apply",
    "is_applied",
    is_flag=True,
    help="Append the entries ID again; without ID, all except edited and deleted ones.",
)
@click.option("--dismiss", is_flag=True, help="Forget the entries ID: they were deleted on purpose.")
@click.option("--days", type=click.IntRange(0), default=30, show_default=True, help="How far back to look.")
@json_option
@click.pass_context
def recover(
    context: click.Context, ids: tuple[str, ...], is_applied: bool, dismiss: bool, days: int, as_json: bool
) -> None:
    """Show what memsync appended and is not there any more: an editor may have saved an older version over it.

    With ID, show only these entries.

    `edited` marks an entry in whose place the note has another line, `note deleted` one whose note is gone. --apply
    appends both only if they are named. Exits with 1 when something is missing.

    \b
    memsync recover
    memsync recover --apply                    all except edited and deleted ones
    memsync recover --apply 18a9f3c2b1d4e000   this one, with the heading of its note if that was deleted
    """
    if dismiss and is_applied:
        raise UsageError("--apply and --dismiss cannot be used together", hint="Use one of them.")
    if dismiss and not ids:
        raise UsageError("--dismiss requires the IDs to forget", hint="Run memsync recover to see them.")
    with opened(context) as memory:
        if dismiss:
            count = memory.dismiss(ids)
            if as_json:
                say_json({"dismissed": count})
            else:
                say(f"{count} forgotten")
            return
        found = memory.overwritten(days=days if is_applied or not ids else _ALL_DAYS)
        if is_applied:
            wanted = ids or tuple(one.id for one in found if not (one.similar or one.note_deleted))
            written = memory.recover(wanted)
            if as_json:
                say_json({"recovered": written})
            for one in () if as_json else written:
                say_written(one, as_json=False)
            if not ids and len(wanted) < len(found):
                left = f"{len(found) - len(wanted)} were edited, or deleted with their note"
                say(f"memsync: {left}: memsync recover shows them, --apply ID restores one", err=True)
            return
    _show_overwritten(_only(ids, found) if ids else found, as_json=as_json)


def _only(ids: tuple[str, ...], found: tuple[Overwritten, ...]) -> tuple[Overwritten, ...]:
    """Return the entries with these ids. Raises UsageError when there is none of an id."""
    unknown = set(ids).difference(one.id for one in found)
    if unknown:
        raise UsageError(f"nothing overwritten is called {min(unknown)}", hint="Run memsync recover to see all IDs.")
    return tuple(one for one in found if one.id in ids)


def _show_overwritten(found: tuple[Overwritten, ...], *, as_json: bool) -> None:
    if as_json:
        say_json({"overwritten": found})
    for one in found if not as_json else ():
        state = "  note deleted" if one.note_deleted else "  edited" if one.similar else ""
        say(f"{one.id}  {printable(one.path)}  {one.appended_at}{state}")
        say("\n".join(f"  {line}" for line in one.text.split("\n")))
    if found:
        sys.exit(1)
    say("memsync: No overwritten text found.", err=True)
