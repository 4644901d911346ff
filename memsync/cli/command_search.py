"""`memsync search`: the operation, with ways to show its hits."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from memsync.cli.build import arguments_of, help_of, run_on, with_parameters
from memsync.cli.chosen_memories import covered, roots_options
from memsync.cli.command_open import keep_hits
from memsync.cli.common import here, json_option, load, long_output, opened, setting_of
from memsync.cli.output import NO_EXIT_CODE, has_colour, is_terminal, say_json
from memsync.cli.render import Layout, show_hits, show_lines
from memsync.cli.typed_paths import Here
from memsync.errors import NoteError
from memsync.features.search import search as operation
from memsync.model.answer import Hit, SearchResult
from memsync.model.conversation import Neighbours
from memsync.model.filters import FILTERS
from memsync.model.json import to_json
from memsync.model.vocabulary import in_root
from memsync.settings.editors import template_of

if TYPE_CHECKING:
    from memsync.memories.several import Memories
    from memsync.memory import MemoryApi

SECTION = "Search"

NOT_KNOWN_YET_EXIT_CODE = 13
_SPOKEN_DATE = r"(?:\d+|an?|one) \w+ ago|last \w+"
(_OFFERED,) = operation.commands


@click.argument("words", nargs=-1, metavar="[WORDS]...", type=click.UNPROCESSED)
@click.option("--full", is_flag=True, help="Print each hit whole instead of a snippet.")
@click.option("--explain", is_flag=True, help="Print ranks, scores, filters and the time of each stage.")
@click.option(
    "--context",
    "neighbour_count",
    type=click.IntRange(1, 100),
    metavar="N",
    help="With each hit in a thread, print N messages before and after it.",
)
@click.option(
    "--format",
    "line_format",
    type=click.Choice(["text", "grep"]),
    default="text",
    help="How to print hits: text, or grep (PATH:LINE:TEXT, one line a hit, for vim -q and fzf). [default: text]",
)
@roots_options
@json_option
@click.pass_context
def _search(
    context: click.Context,
    /,
    words: tuple[str, ...],
    full: bool,
    explain: bool,
    neighbour_count: int | None,
    line_format: str,
    as_json: bool,
    roots: tuple[str, ...],
    all_roots: bool,
    **given: Any,
) -> None:
    text = " ".join(_requoted(word, alone=len(words) == 1) for word in words)
    memories, asked = covered(context, operation, {"query": text}, roots, is_all=all_roots)
    arguments = {**arguments_of(context, operation, given, is_here=memories is None), **asked}
    if "in:" in text and memories is None:
        arguments["query"] = here(context).words(text)
    with memories or opened(context) as memory:
        result = run_on(memory, operation, arguments)
        around = [_around(memory, hit, neighbour_count) for hit in result.hits] if neighbour_count else []
    folders = {} if given["at"] else _folders(context, memories)  # no file has the lines of a commit
    if is_terminal():
        keep_hits(result, folders)
    if as_json:
        say_json(_document(result, around, explain=explain))
    elif line_format == "grep":
        place = Here("", context.obj.folder)
        show_lines(result, folders, place, arguments.get("fresh", "strict"))
    else:
        links = _link_templates(context, folders)
        layout = Layout(full, explain, arguments.get("fresh", "strict"), has_colour(), links)
        with long_output(context):
            show_hits(result, layout, around)
    code = _exit_code(result, arguments.get("generation", 0))
    if code:
        sys.exit(code)


search = click.command("search", help=help_of(operation, _OFFERED))(
    with_parameters(operation, _search, without=("query",))
)


def _document(result: SearchResult, around: Sequence[Neighbours | None], *, explain: bool) -> dict[str, Any]:
    document: dict[str, Any] = to_json(result)
    for hit, neighbours in zip(document["hits"], around, strict=False):
        if neighbours is not None:
            hit["context"] = to_json(neighbours)
    if not result.roots:
        del document["model"]
    if not explain:
        del document["explain"]
        for hit in document["hits"]:
            del hit["parts"]
    return document


def _exit_code(result: SearchResult, generation: int) -> int:
    """Return NO_EXIT_CODE only if all files were searched; before that, an empty answer proves nothing."""
    if result.hits:
        return 0
    is_known = not result.freshness.pending_text and result.freshness.generation >= generation
    return NO_EXIT_CODE if is_known else NOT_KNOWN_YET_EXIT_CODE


def _around(memory: MemoryApi | Memories, hit: Hit, count: int) -> Neighbours | None:
    """Return `count` messages before and after a hit in a thread; None for any other hit."""
    if hit.kind != "thread":
        return None
    try:
        return memory.neighbours(
            in_root(hit.root, hit.path), hit.start_line, end_line=hit.end_line, count=count, at=hit.at
        )
    except NoteError:  # it has just been removed
        return None


def _requoted(word: str, *, alone: bool) -> str:
    """Put back the quotes that the shell removed from a filter's value: after:"2 weeks ago" arrives as one word.

    A single argument may also be the whole query in quotes. There only a certain date becomes one value.
    """
    name, colon, value = word.partition(":")
    if not colon or name not in FILTERS or " " not in value or '"' in value:
        return word
    is_value = re.fullmatch(_SPOKEN_DATE, value, re.IGNORECASE) if name in ("after", "before") else not alone
    is_value = is_value or name == "all"
    return f'{name}:"{value}"' if is_value else word


# --------------------------------------------------------------------------------------------------- links


def _link_templates(context: click.Context, folders: Mapping[str, str]) -> dict[str, str]:
    """Return the URL of a place in a note of each memory, with {path} and {line}; none where no links are printed."""
    if not (is_terminal() and has_colour()):
        return {}
    template = template_of(context.obj.open_with or setting_of(context, "cli.open_with"))
    return {
        name: template.replace("{path}", f"{quote(os.fsencode(folder))}/{{path}}")
        for name, folder in folders.items()
        if folder  # a database has paths, but no files here
    }


def _folders(context: click.Context, memories: Memories | None) -> Mapping[str, str]:
    return {"": load(context).root_name} if memories is None else memories.folders()
