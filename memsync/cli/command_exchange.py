"""`memsync thread import`, `memsync ingest` and `memsync thread export`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from memsync.cli.common import answering, here, opened, opened_here, progress_on_stderr
from memsync.cli.output import NO_EXIT_CODE, CommandAnswer, remark, say_as_it_is
from memsync.errors import UsageError
from memsync.model.json import to_json
from memsync.model.text import count, json_line, printable
from memsync.notes.ignore import is_note_name
from memsync.settings.load import load_settings
from memsync.system.extras import require
from memsync.system.user_folders import filesystem_errors

SECTION = "Conversations"


@click.command("thread import")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@answering
def import_(context: click.Context, files: tuple[str, ...]) -> CommandAnswer:
    """Write the conversations of FILES into threads. Messages that are there already stay as they are.

    A file is memsync's own JSON Lines, or an export from ChatGPT or Claude: conversations.json, or the .zip with it.
    Exits with 1 if a part of a file could not be used.
    """
    with opened_here(context) as memory, progress_on_stderr() as progress:
        reports = [(file, memory.import_file(file, progress=progress)) for file in files]
    lines, wrong = [], []
    for file, report in reports:
        added = f"{count(report.messages, 'message')} in {count(report.threads, 'new thread')}"
        lines.append(f"{file}: {added} and {report.continued:,} continued; {report.known:,} already there")
        wrong += [f"{file}: {reason}" for reason in report.wrong]
    document = {"files": [{"file": file, **to_json(report)} for file, report in reports]}
    return CommandAnswer(document, lines, wrong, NO_EXIT_CODE if wrong else 0)


@click.command()
@click.argument("names", nargs=-1, metavar="[AGENT|FILE|FOLDER]...")
@answering
def ingest(_: click.Context, names: tuple[str, ...]) -> CommandAnswer:
    """Take in the conversations of all agents, or only those of an AGENT, a FILE or a FOLDER.

    memsync writes them to the memory `transcripts` in your data folder: a thread for each session, and a copy of the
    agent's own file. Each run reads only conversations that are new or have grown, and makes the notes of sessions that
    have ended. The daemon of that memory does this by itself.

    \b
    memsync ingest
    memsync ingest codex
    memsync --root transcripts search "why two pools"
    """
    from memsync.agents.ingest import ingest as take_in
    from memsync.agents.ingest import transcripts_root
    from memsync.memories.noting import make_notes

    settings = load_settings(root=str(transcripts_root(create=True)))  # first: it reports wrong settings
    with progress_on_stderr() as progress:
        report = take_in(names, progress)
    report.wrong += make_notes(settings)
    taken = f"{count(report.new, 'new session')}, {report.grown:,} grown, {report.unchanged:,} unchanged"
    if report.skipped:
        taken += f"; {count(report.skipped, 'line')} skipped (not JSON, or too long) in:"
    lines = [taken, *(f"  {printable(path)}" for path in report.skipped_in)]
    if report.without_raw:
        lines.append(f"{count(len(report.without_raw), 'raw file')} left out because of a secret:")
        lines += [f"  {printable(path)}" for path in report.without_raw]
    return CommandAnswer(to_json(report), lines, report.wrong, NO_EXIT_CODE if report.wrong else 0)


@click.command("thread export")
@click.argument("threads", nargs=-1, metavar="[THREAD]...")
@click.option("--output", "-o", default="", metavar="FILE", help="Write to FILE (default: standard output).")
@click.option("--html", default="", metavar="FILE", help="Write NOTES, or the hits of WORDS, to FILE as one HTML page.")
@click.option("--raw", is_flag=True, help="Print the agent's own file of session THREAD: a thread, file name or id.")
@click.pass_context
def export(context: click.Context, threads: tuple[str, ...], output: str, html: str, raw: bool) -> None:
    """Print THREADS, or all threads, as JSON Lines: one message per line. `memsync thread import` reads them.

    With --html the arguments are names of notes (which end in .md), or otherwise a query. The page needs no server.

    \b
    memsync thread export the-store > the-store.jsonl
    memsync thread export --html answer.html which store did we choose
    memsync thread export --html notes.html MEMORY.md decisions/store.md
    memsync thread export --html - MEMORY.md           to standard output
    """
    if raw:
        if len(threads) != 1 or output:
            raise UsageError("--raw prints one session", hint="Run: memsync thread export SESSION --raw > FILE")
        from memsync.agents.raw_files import raw_file, unpacked

        for block in unpacked(raw_file(threads[0])):
            sys.stdout.buffer.write(block)
        return
    if html:
        _export_html(context, threads, html)
        return
    with opened_here(context) as memory:
        chosen = tuple(map(here(context).note, threads))
        lines = memory.export_lines(chosen, warn=lambda text: remark(printable(text)))
        if output:
            _write_new(output, (f"{line}\n" for line in lines))
            return
        for line in lines:
            say_as_it_is(json_line(line))


def _export_html(context: click.Context, words: tuple[str, ...], file: str) -> None:
    if not words:
        raise UsageError("--html needs names of notes, or words to search for", hint="See: memsync help export")
    require("web", "memsync thread export --html")
    from memsync.web.pages.export import exported

    places = [here(context).note(word) if is_note_name(word) else word for word in words]
    with opened(context) as memory:
        _write_new(file, [exported(memory, places)])


def _write_new(path: str, parts: Iterable[str]) -> None:
    refused = filesystem_errors(f"{path} cannot be written", "Name a new file, in a folder that exists.")
    with refused, click.open_file(path, "x", encoding="utf-8") as file:  # - is standard output
        file.writelines(parts)
