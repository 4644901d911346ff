"""`memsync search`: click's view of what asked.py defines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from memsync.cli.asked import FILTERS, OPTIONS, Asked, Option
from memsync.cli.common import load, opened
from memsync.errors import NoteError

if TYPE_CHECKING:
    from memsync.memory_api import MemoryApi
    from memsync.model import Hit, Neighbours, SearchResult


def _click_option(option: Option, explanation: str) -> click.Option:
    if option.is_flag:
        return click.Option(
            [f"--{option.name}", f"option_{option.name.replace('-', '_')}"], is_flag=True, help=explanation
        )
    kind: click.ParamType[Any] = click.STRING
    if option.choices:
        kind = click.Choice(option.choices)
    elif option.least is not None:
        kind = click.IntRange(option.least, option.most)
    elif option.is_share:
        kind = click.FloatRange(0, 1)
    return click.Option(
        [*filter(None, (option.short, f"--{option.name}")), f"option_{option.name.replace('-', '_')}"],
        type=kind,
        metavar=option.metavar or None,
        multiple=option.many,
        default=option.default,
        show_default=bool(option.default),
        help=explanation,
    )


@click.command()
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def search(context: click.Context, /, words: tuple[str, ...], **options: Any) -> None:
    """Find what the notes say about WORDS, by meaning and by word.

    \b
    memsync search which store did we choose
    memsync search what went wrong -n 3
    memsync search postgres '"write-ahead log"' -- -sqlite
    memsync search deploy kind:daily after:"2 weeks ago" tag:work
    memsync search --where emotion=fear --json

    Everything in WORDS that is no filter, "phrase" or -exclusion is text. Options may stand before, between or after
    the words; after -- nothing is an option, so -exclusions come there. Exits with 1 when nothing matches, with 13 when
    nothing was found and files are still to be indexed.
    """
    asked = Asked(words, {name.removeprefix("option_").replace("_", "-"): value for name, value in options.items()})
    with opened(context) as memory:
        result = asked.of(memory, load(context).root_name)
        around = _around(memory, result, asked.options.get("context") or 0)
    code = asked.show(result, around)
    if code:
        sys.exit(code)


def _around(memory: MemoryApi, result: SearchResult, count: int) -> list[Neighbours | None]:
    """Return so many messages on both sides of each hit in a thread; None for any other, or with none asked for."""
    return [_neighbours(memory, hit, count) if count and hit.kind == "thread" else None for hit in result.hits]


def _neighbours(memory: MemoryApi, hit: Hit, count: int) -> Neighbours | None:
    try:
        return memory.neighbours(hit.path, hit.start_line, end_line=hit.end_line, count=count)
    except NoteError:  # it has just gone
        return None


search.params += [_click_option(option, option.explanation) for option in OPTIONS]
search.params += [_click_option(option, f"Only {option.explanation}.") for option in FILTERS]
