"""`memsync search`."""

from __future__ import annotations

import re
import sys

import click

from memsync.cli.common import opened, print_json

NO_MATCH_EXIT_CODE = 1
_FILTERS = {
    "kind": "soul, memory, daily, thread, prompt or note",
    "tier": "personal, project or task",
    "tag": "what has this tag, or one beneath it",
    "in": "beneath this folder",
    "path": "paths like this; * also matches slashes",
    "role": "said by: user, assistant, agent, …",
    "session": "of this thread",
    "after": 'since: 2026-11-01, 2026-11, yesterday, 3d, "2 weeks ago"',
    "before": "until, the named day included",
}


def _filter_options(command: click.Command) -> click.Command:
    for name, explanation in _FILTERS.items():
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
@click.option(
    "--fresh",
    type=click.Choice(["strict", "bounded", "none"]),
    default="strict",
    show_default=True,
    help="Compare the files first, or take the daemon's word, or answer from what is there.",
)
@click.option("--generation", type=click.IntRange(0), default=0, metavar="N", help="Not before the index is at N.")
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
    fresh: str,
    generation: int,
    full: bool,
    explain: bool,
    as_json: bool,
    **filters: tuple[str, ...],
) -> None:
    """Find what the notes say about WORDS, by meaning and by word.

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
        result = memory.search(
            " ".join(_requoted(word, alone=len(words) == 1) for word in words),
            limit=limit,
            mode=mode,
            filter_pairs=pairs,
            tokens=tokens,
            fresh=fresh,
            generation=generation,
        )
    if as_json:
        from memsync.model.plain import plain_result

        document = plain_result(result)
        print_json(document if explain else {name: value for name, value in document.items() if name != "explain"})
    else:
        from memsync.cli.render import render

        render(result, full=full, explain=explain)
    if not result.hits:
        sys.exit(NO_MATCH_EXIT_CODE)


_filter_options(search)


_SPOKEN_DATE = re.compile(r"(?:\d+|an?|one) \w+ ago|last \w+", re.IGNORECASE)


def _requoted(word: str, *, alone: bool) -> str:
    """Give a filter's value back the quotes that the shell took: after:"2 weeks ago" arrives as one word.

    A single argument may also be the whole query in quotes; there only what can be nothing but a date is one value.
    """
    name, colon, value = word.partition(":")
    if not colon or name not in (*_FILTERS, "where") or " " not in value or '"' in value:
        return word
    is_value = _SPOKEN_DATE.fullmatch(value) if name in ("after", "before") else not alone
    return f'{name}:"{value}"' if is_value else word
