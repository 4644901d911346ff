"""`memsync search`: the operation, with ways to show its hits."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from memsync.cli.build import arguments_of, help_of, run_on, with_parameters
from memsync.cli.common import here, json_option, opened
from memsync.cli.hits import show_hits
from memsync.cli.output import say_json
from memsync.errors import NoteError
from memsync.features.search import search as operation
from memsync.model.answer import Hit, SearchResult
from memsync.model.conversation import Neighbours
from memsync.model.json import to_json
from memsync.search.query_syntax import FILTER_NAMES

if TYPE_CHECKING:
    from memsync.memory import MemoryApi

NO_MATCH_EXIT_CODE = 1
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
@json_option
@click.pass_context
def _search(
    context: click.Context,
    /,
    words: tuple[str, ...],
    full: bool,
    explain: bool,
    neighbour_count: int | None,
    as_json: bool,
    **given: Any,
) -> None:
    arguments = arguments_of(context, operation, given)
    text = " ".join(_requoted(word, alone=len(words) == 1) for word in words)
    arguments["query"] = here(context).words(text) if "in:" in text else text
    with opened(context) as memory:
        result = run_on(memory, operation, arguments)
        around = [_around(memory, hit, neighbour_count) for hit in result.hits] if neighbour_count else []
    if as_json:
        say_json(_document(result, around, explain=explain))
    else:
        fresh = arguments.get("fresh", "strict")
        show_hits(result, full=full, explain=explain, fresh=fresh, around=around)
    code = _exit_code(result, arguments.get("generation", 0))
    if code:
        sys.exit(code)


search = click.command("search", help=help_of(operation, _OFFERED))(
    with_parameters(operation, _search, without=("query",))
)


def _document(result: SearchResult, around: Sequence[Neighbours | None], *, explain: bool) -> dict[str, Any]:
    document = to_json(result)
    for hit, neighbours in zip(document["hits"], around, strict=False):
        if neighbours is not None:
            hit["context"] = to_json(neighbours)
    return document if explain else without_explanation(document)


def without_explanation(document: dict[str, Any]) -> dict[str, Any]:
    """Return an answer to a search without what only explains it."""
    hits = [{name: value for name, value in hit.items() if name != "parts"} for hit in document["hits"]]
    return {**{name: value for name, value in document.items() if name != "explain"}, "hits": hits}


def _exit_code(result: SearchResult, generation: int) -> int:
    """Return 1 only if nothing matches: as long as files are not searched yet, nothing found says nothing."""
    if result.hits:
        return 0
    is_known = not result.freshness.pending_text and result.freshness.generation >= generation
    return NO_MATCH_EXIT_CODE if is_known else NOT_KNOWN_YET_EXIT_CODE


def _around(memory: MemoryApi, hit: Hit, count: int) -> Neighbours | None:
    """Return so many messages on both sides of a hit in a thread; None for any other hit."""
    if hit.kind != "thread":
        return None
    try:
        return memory.neighbours(hit.path, hit.start_line, end_line=hit.end_line, count=count)
    except NoteError:  # it has just been removed
        return None


def _requoted(word: str, *, alone: bool) -> str:
    """Give a filter's value back the quotes that the shell took: after:"2 weeks ago" arrives as one word.

    A single argument may also be the whole query in quotes; there only what can be nothing but a date is one value.
    """
    name, colon, value = word.partition(":")
    if not colon or name not in FILTER_NAMES or " " not in value or '"' in value:
        return word
    is_value = re.fullmatch(_SPOKEN_DATE, value, re.IGNORECASE) if name in ("after", "before") else not alone
    return f'{name}:"{value}"' if is_value else word
