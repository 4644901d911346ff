"""`memsync search`: the operation, with ways to show its hits."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from msgspec.structs import asdict

from memsync.cli.build import arguments_of, help_of, run_on, with_parameters
from memsync.cli.common import here, json_option, link_template, long_output, opened
from memsync.cli.links import linked
from memsync.cli.output import has_colour, printable, say, say_as_it_is, say_json, visible
from memsync.errors import NoteError
from memsync.features.search import search as operation
from memsync.model.answer import Hit, SearchResult
from memsync.model.conversation import Neighbours, ThreadMessage
from memsync.model.filters import FILTERS
from memsync.model.json import to_json
from memsync.model.query import TimeHint

_STYLES = {"cyan": "\x1b[36m", "green": "\x1b[32m", "dim": "\x1b[2m", "match": "\x1b[1;33m"}
_RESET = "\x1b[0m"


class _Shown(NamedTuple):
    """How hits are shown: whole or as snippets, explained or not, how fresh they had to be, coloured, as links."""

    full: bool
    explain: bool
    fresh: str
    colour: bool
    link: str


def _show_hits(result: SearchResult, shown: _Shown, around: Sequence[Neighbours | None] = ()) -> None:
    """Print hits on stdout, warnings and what an empty answer means on stderr.

    `around` has the messages around each hit, if they were asked for.
    """
    for position, hit in enumerate(result.hits):
        if position:
            say()
        near = around[position] if around else None
        _messages(near.before if near else (), colour=shown.colour)
        _hit(hit, shown)
        _messages(near.after if near else (), colour=shown.colour)
    if shown.explain:
        _explanation(result)
    for warning in result.warnings:
        say(f"memsync: {printable(warning)}", err=True)
    if not result.hits:
        say(f"memsync: {_found_nothing(result, shown.fresh)}", err=True)


def _messages(messages: Sequence[ThreadMessage], *, colour: bool) -> None:
    """Print neighbours of a hit, each line marked as such."""
    for one in messages:
        head = f"  | {printable(one.path)}:{one.start_line}  {one.role}  {one.time.replace('T', ' ')}"
        lines = "\n".join(f"  |   {line}".rstrip() for line in visible(one.text).split("\n"))
        text = f"{printable(head)}\n{lines}"
        say_as_it_is(f"{_STYLES['dim']}{text}{_RESET}" if colour else text)


def _found_nothing(result: SearchResult, fresh: str) -> str:
    """Return what an empty answer means, so that nothing is taken for nowhere."""
    if result.freshness.stale:
        return "nothing found in the files that were searched"
    if fresh == "none":
        moment = result.freshness.scanned_at
        return f"nothing found; files were {f'last compared at {moment}' if moment else 'not looked at'}"
    return "nothing found; the files were searched as they are now"


def _hit(hit: Hit, shown: _Shown) -> None:
    def style(text: str, how: str) -> str:
        return f"{_STYLES[how]}{text}{_RESET}" if shown.colour else text

    path, _, lines = hit.citation.rpartition(":")
    where = " › ".join(hit.heading_path) or hit.title
    about = " · ".join(part for part in (where, hit.role, hit.date[:16].replace("T", " ")) if part)
    place = f"{style(printable(path), 'cyan')}:{style(lines, 'green')}"
    place = linked(place, shown.link, hit.path, hit.start_line)
    say_as_it_is(f"{place}  {style(f'{printable(about)} · {hit.score:.2f}', 'dim')}")
    if shown.full:
        say(hit.text)
    else:
        say_as_it_is(_marked(hit, shown.colour))
    if shown.explain:
        ranks = ", ".join(f"{name} #{rank.rank} ({rank.score:.3f})" for name, rank in hit.ranks.items())
        parts = ", ".join(f"{reason} {amount:+.3f}" for reason, amount in hit.parts.items())
        more = f"; ordered by {sum(hit.parts.values()):.3f}: {parts}" if parts else ""
        say_as_it_is(style(f"  score {hit.score:.3f}: {ranks or 'next to a match'}{more}", "dim"))


def _marked(hit: Hit, colour: bool) -> str:
    """Return the snippet with its highlights marked, indented by two spaces."""
    parts, position = [], 0
    for start, end in hit.highlights:
        parts.append(visible(hit.snippet[position:start]))
        found = visible(hit.snippet[start:end])
        parts.append(f"{_STYLES['match']}{found}{_RESET}" if colour else found)
        position = end
    parts.append(visible(hit.snippet[position:]))
    return "\n".join(f"  {line}" for line in "".join(parts).split("\n"))


def _explanation(result: SearchResult) -> None:
    timings = ", ".join(f"{stage} {ms:.1f} ms" for stage, ms in result.explain.timings_ms.items())
    filters = _set_filters(result)
    fresh = result.freshness
    say()
    say(f"mode: {result.mode}; filters: {filters or 'none'}")
    for time in result.explain.times:
        limits = (result.explain.filters.after, result.explain.filters.before)
        is_all = limits == (time.after, time.before)
        effect = "is listed: nothing else is asked" if is_all else "comes a little earlier"
        say(f'time: "{printable(time.words)}" is {_span(time)}; what is dated then {effect}')
    say(f"stages: {timings}")
    say(f"scanned {fresh.scanned_at}; pending: {fresh.pending_text} files, {fresh.pending_vectors} vectors")


def _span(time: TimeHint) -> str:
    if time.after == time.before:
        return time.after
    return " ".join(filter(None, (f"from {time.after}" * bool(time.after), f"to {time.before}" * bool(time.before))))


def _set_filters(result: SearchResult) -> dict[str, object]:
    return {name: value for name, value in asdict(result.explain.filters).items() if value}


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
        shown = _Shown(full, explain, arguments.get("fresh", "strict"), has_colour(), link_template(context))
        with long_output(context):
            _show_hits(result, shown, around)
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
    if not colon or name not in FILTERS or " " not in value or '"' in value:
        return word
    is_value = re.fullmatch(_SPOKEN_DATE, value, re.IGNORECASE) if name in ("after", "before") else not alone
    return f'{name}:"{value}"' if is_value else word
