"""`memsync import` and `memsync export`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from memsync.cli.common import here, json_option, opened_here, progress_on_stderr
from memsync.cli.output import json_line, printable, say, say_as_it_is, say_json
from memsync.errors import FilesystemError
from memsync.ports import no_progress

if TYPE_CHECKING:
    from memsync.features.conversations.importing import ImportReport

WRONG_EXIT_CODE = 1


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@json_option
@click.pass_context
def import_(context: click.Context, files: tuple[str, ...], as_json: bool) -> None:
    """Write the conversations of FILES into threads. What is there already is left as it is.

    A file is memsync's own JSON Lines, or what ChatGPT or Claude export: conversations.json, or the .zip it came in.
    Exits with 1 when something in it could not be used.
    """
    with opened_here(context) as memory, progress_on_stderr() as progress:
        reports = [(file, memory.import_file(file, progress=progress or no_progress)) for file in files]
    if as_json:
        say_json({"files": [{"file": file, **_counts(report)} for file, report in reports]})
    for file, report in reports:
        if not as_json:
            added = f"{_counted(report.messages, 'message')} in {_counted(report.threads, 'new thread')}"
            say(f"{printable(file)}: {added} and {report.continued:,} continued; {report.known:,} already there")
        if report.named and not as_json:
            named = ", ".join(f"{count:,} {printable(kind)}" for kind, count in sorted(report.named.items()))
            say(f"{printable(file)}: without text, and only named in the messages: {named}")
        for one in report.wrong:
            say(f"memsync: {printable(file)}: {printable(one)}", err=True)
    if any(report.wrong for _, report in reports):
        sys.exit(WRONG_EXIT_CODE)


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def _counts(report: ImportReport) -> dict[str, object]:
    names = ("threads", "continued", "messages", "known", "paths", "wrong", "named")
    return {name: getattr(report, name) for name in names}


@click.command()
@click.argument("threads", nargs=-1, metavar="[THREAD]...")
@click.option("--output", "-o", default="", metavar="FILE", help="Write to FILE; else to standard output.")
@click.pass_context
def export(context: click.Context, threads: tuple[str, ...], output: str) -> None:
    """Print THREADS, or all of them, as JSON Lines: a message a line, as `memsync import` reads it."""
    with opened_here(context) as memory:
        lines = memory.export_lines(tuple(map(here(context).note, threads)))
        if not output:
            for line in lines:
                say_as_it_is(json_line(line))
            return
        try:
            with open(output, "x", encoding="utf-8", newline="\n") as file:
                file.writelines(f"{line}\n" for line in lines)
        except OSError as error:
            hint = "Name a file that is not there yet."
            raise FilesystemError(f"{output} cannot be written: {error.strerror}", hint=hint) from error
