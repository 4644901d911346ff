"""`memsync search`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from memsync.cli.common import opened, print_json

if TYPE_CHECKING:
    from memsync.model import SearchResult

NO_MATCH_EXIT_CODE = 1
_FILTERS = {
    "kind": "soul, memory, daily, thread, prompt or note",
    "tier": "personal, project or task",
    "tag": "a tag, with the tags beneath it",
    "in": "a folder",
    "path": "a glob over paths; * also matches slashes",
    "role": "who speaks in a thread: user, assistant, agent, …",
    "session": "a thread's session",
    "after": 'a date: 2026-11-01, 2026-11, yesterday, 3d, "2 weeks ago"',
    "before": "a date, itself included",
}


def _filter_options(command: click.Command) -> click.Command:
    for name, explanation in reversed(_FILTERS.items()):
        option = click.Option(
            [f"--{name}", f"filter_{name}"], multiple=True, metavar="VALUE", help=f"Only {explanation}."
        )
        command.params.append(option)
    return command


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.option("-n", "--limit", type=click.IntRange(1, 1000), help="How many hits. [default: search.limit, 10]")
@click.option("--mode", type=click.Choice(["hybrid", "keyword", "vector"]), help="Which retrievers answer.")
@click.option("--tokens", type=click.IntRange(1), metavar="N", help="As many hits as fit N word pieces.")
@click.option(
    "--where", multiple=True, metavar="KEY=VALUE", help="Only where an attribute or front matter key has this value."
)
@click.option("--archived", is_flag=True, help="Search retired notes too.")
@click.option("--full", is_flag=True, help="Print each hit whole instead of a snippet.")
@click.option("--explain", is_flag=True, help="Print ranks, scores, filters and the time of each stage.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (docs/json.md).")
@click.pass_context
def search(
    context: click.Context,
    /,
    words: tuple[str, ...],
    limit: int | None,
    mode: str | None,
    tokens: int | None,
    where: tuple[str, ...],
    archived: bool,
    full: bool,
    explain: bool,
    as_json: bool,
    **filters: tuple[str, ...],
) -> None:
    r"""Find what the notes say about WORDS, by meaning and by word.

    \b
    memsync search which store did we choose
    memsync search postgres '"write-ahead log"' -- -sqlite
    memsync search deploy kind:daily after:"2 weeks ago" tag:work
    memsync search --where emotion=fear --json

    Everything in WORDS that is no filter, "phrase" or -exclusion is text. Exits with 1 when nothing matches.
    """
    pairs = [(name.removeprefix("filter_"), value) for name, values in filters.items() for value in values]
    pairs += [("where", pair) for pair in where]
    pairs += [("is", "archived")] * archived
    with opened(context) as memory:
        query = memory.parse(" ".join(map(_quoted_if_needed, words)), limit=limit, mode=mode, filter_pairs=pairs)
        result = memory.search(query, tokens=tokens)
    if as_json:
        print_json(json_of(result, explain=explain))
    else:
        from memsync.cli.render import render

        render(result, full=full, explain=explain)
    if not result.hits:
        sys.exit(NO_MATCH_EXIT_CODE)


_filter_options(search)


def _quoted_if_needed(word: str) -> str:
    """Give a filter's value back the quotes that the shell took: after:"2 weeks ago" arrives as one word."""
    name, colon, value = word.partition(":")
    if colon and name in (*_FILTERS, "where") and " " in value and '"' not in value:
        return f'{name}:"{value}"'
    return word


def json_of(result: SearchResult, *, explain: bool) -> dict[str, object]:
    """Return a search result as docs/search-result.schema.json describes it."""
    from memsync.cli.common import plain

    document: dict[str, object] = {
        "hits": [{**plain(hit), "citation": hit.citation} for hit in result.hits],
        "mode": result.mode,
        "freshness": {**plain(result.freshness), "stale": result.freshness.stale},
        "warnings": list(result.warnings),
    }
    if explain:
        document["explain"] = {"filters": plain(result.filters), "timings_ms": plain(result.timings)}
    return document
