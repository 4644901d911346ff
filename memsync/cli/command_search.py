"""`memsync search`: the operation, with ways to show its hits."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import click
from msgspec.structs import asdict

from memsync.cli.build import arguments_of, help_of, run_on, with_parameters
from memsync.cli.command_open import keep_hits, linked, template_of
from memsync.cli.common import here, json_option, load, long_output, opened, setting_of
from memsync.cli.covered import covered, roots_options
from memsync.cli.here import Here
from memsync.cli.output import NO_EXIT_CODE, has_colour, is_terminal, remark, say, say_as_it_is, say_json
from memsync.errors import NoteError
from memsync.features.search import search as operation
from memsync.model.answer import Hit, SearchResult
from memsync.model.conversation import Neighbours, ThreadMessage
from memsync.model.filters import FILTERS
from memsync.model.json import to_json
from memsync.model.query import TimeHint
from memsync.model.text import count, printable, visible
from memsync.model.vocabulary import in_root

if TYPE_CHECKING:
    from memsync.memories.several import Memories
    from memsync.memory import MemoryApi

NOT_KNOWN_YET_EXIT_CODE = 13
_STYLES = {"cyan": "\x1b[36m", "green": "\x1b[32m", "dim": "\x1b[2m", "match": "\x1b[1;33m"}
_RESET = "\x1b[0m"
_SPOKEN_DATE = r"(?:\d+|an?|one) \w+ ago|last \w+"
(_OFFERED,) = operation.commands


class _Layout(NamedTuple):
    """How to show hits. `links` have the URL of a place in a note of each memory, with {path} and {line}."""

    full: bool
    explain: bool
    fresh: str
    colour: bool
    links: Mapping[str, str]

    def styled(self, text: str, style: str) -> str:
        """Return text in a style of _STYLES, if there are colours."""
        return f"{_STYLES[style]}{text}{_RESET}" if self.colour else text


def _show_hits(result: SearchResult, layout: _Layout, around: Sequence[Neighbours | None] = ()) -> None:
    """Print hits on stdout; print warnings, and what an empty answer means, on stderr.

    `around` has the messages around each hit; it is empty without --context.
    """
    for position, hit in enumerate(result.hits):
        if position:
            say()
        neighbours = around[position] if around else None
        _messages(neighbours.before if neighbours else (), layout)
        _hit(hit, layout)
        _messages(neighbours.after if neighbours else (), layout)
    if layout.explain:
        _explanation(result)
    _show_remarks(result, layout.fresh)


def _show_remarks(result: SearchResult, fresh: str) -> None:
    for warning in result.warnings:
        remark(printable(warning))
    if not result.hits:
        remark(_found_nothing(result, fresh))


def _show_lines(result: SearchResult, folders: Mapping[str, str], place: Here, fresh: str) -> None:
    """Print one line a hit, as grep does: the path from the current folder, the number and text of its best line."""
    for hit in result.hits:
        folder = folders.get(hit.root)
        path = place.opened_by(f"{folder}/{hit.path}") if folder else in_root(hit.root, hit.path)
        at, line = _best_line(hit)
        say_as_it_is(f"{printable(path)}:{hit.start_line + at}:{printable(line)}")
    _show_remarks(result, fresh)


def _best_line(hit: Hit) -> tuple[int, str]:
    """Return the line with the most marked words, and its number from 0; without any, the first under the heading."""
    marked = {hit.snippet[start:end].lower() for start, end in hit.highlights}

    def value(line: str) -> tuple[int, bool]:
        words = sum(word in line.lower() for word in marked)
        return words, any(map(str.isalnum, line)) and (words > 0 or not line.startswith("#"))

    return max(enumerate(hit.text.split("\n")), key=lambda numbered: value(numbered[1]))


def _messages(messages: Sequence[ThreadMessage], layout: _Layout) -> None:
    for message in messages:
        head = f"  | {printable(message.path)}:{message.start_line}  {message.role}  {message.time.replace('T', ' ')}"
        lines = "\n".join(f"  |   {line}".rstrip() for line in visible(message.text).split("\n"))
        say_as_it_is(layout.styled(f"{printable(head)}\n{lines}", "dim"))


def _found_nothing(result: SearchResult, fresh: str) -> str:
    """Return what an empty answer means: whether all files were searched."""
    if result.freshness.stale:
        return "nothing found in the files that were searched"
    if not result.verified:
        return "nothing found; not all answers are from files"
    if fresh == "none":
        moment = result.freshness.scanned_at
        return f"nothing found; files were {f'last compared at {moment}' if moment else 'not looked at'}"
    but = ", except the local-only ones" if result.not_shared else ""
    return f"nothing found; the files were searched as they are now{but}"


def _hit(hit: Hit, layout: _Layout) -> None:
    path, _, lines = hit.citation.rpartition(":")
    heading = " › ".join(hit.heading_path) or hit.title
    score = f"{hit.score:.2f}" if hit.score else ""
    details = " · ".join(filter(None, (heading, hit.role, hit.date[:16].replace("T", " "), score)))
    place = f"{layout.styled(printable(path), 'cyan')}:{layout.styled(lines, 'green')}"
    place = linked(place, layout.links.get(hit.root, ""), hit.path, hit.start_line)
    say_as_it_is(f"{place}  {layout.styled(printable(details), 'dim')}")
    if hit.also:
        say_as_it_is(layout.styled(printable(f"  also: {', '.join(hit.also)}"), "dim"))
    if layout.full:
        say(hit.text)
    else:
        say_as_it_is(_marked(hit, layout))
    if layout.explain:
        ranks = ", ".join(f"{name} #{rank.rank} ({rank.score:.3f})" for name, rank in hit.ranks.items())
        parts = ", ".join(f"{reason} {amount:+.3f}" for reason, amount in hit.parts.items())
        order = f"; ordered by {sum(hit.parts.values()):.3f}: {parts}" if parts else ""
        score = f"score {hit.score:.3f}: {ranks or 'next to a match'}{order}"
        say_as_it_is(layout.styled(f"  {score if hit.score else 'no score: listed by date'}", "dim"))


def _marked(hit: Hit, layout: _Layout) -> str:
    """Return the snippet with its highlights marked, indented by two spaces."""
    parts, position = [], 0
    for start, end in hit.highlights:
        parts.append(visible(hit.snippet[position:start]))
        parts.append(layout.styled(visible(hit.snippet[start:end]), "match"))
        position = end
    parts.append(visible(hit.snippet[position:]))
    return "\n".join(f"  {line}" for line in "".join(parts).split("\n"))


def _explanation(result: SearchResult) -> None:
    timings = ", ".join(f"{stage} {ms:.1f} ms" for stage, ms in result.explain.timings_ms.items())
    filters = result.explain.filters
    set_filters = {name: value for name, value in asdict(filters).items() if value}
    fresh = result.freshness
    say()
    say(f"mode: {result.mode}; filters: {set_filters or 'none'}")
    for time in result.explain.times:
        is_all = (filters.after, filters.before) == (time.after, time.before)
        effect = "is listed: nothing else is asked" if is_all else "comes a little earlier"
        say(f'time: "{printable(time.words)}" is {_span(time)}; what is dated then {effect}')
    say(f"stages: {timings}")
    pending = f"{count(fresh.pending_text, 'file')}, {count(fresh.pending_vectors, 'vector')}"
    say(f"scanned {fresh.scanned_at}; pending: {pending}")


def _span(time: TimeHint) -> str:
    if time.after == time.before:
        return time.after
    return " ".join(filter(None, (f"from {time.after}" * bool(time.after), f"to {time.before}" * bool(time.before))))


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
    if is_terminal():
        keep_hits(result, _folders(context, memories))
    if as_json:
        say_json(_document(result, around, explain=explain))
    elif line_format == "grep":
        place = Here("", context.obj.folder)
        _show_lines(result, _folders(context, memories), place, arguments.get("fresh", "strict"))
    else:
        links = _link_templates(context, memories)
        layout = _Layout(full, explain, arguments.get("fresh", "strict"), has_colour(), links)
        with long_output(context):
            _show_hits(result, layout, around)
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
        return memory.neighbours(in_root(hit.root, hit.path), hit.start_line, end_line=hit.end_line, count=count)
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


def _link_templates(context: click.Context, memories: Memories | None) -> dict[str, str]:
    """Return the URL of a place in a note of each memory, with {path} and {line}; none where no links are printed."""
    if not (is_terminal() and has_colour()):
        return {}
    template = template_of(context.obj.open_with or setting_of(context, "cli.open_with"))
    folders = _folders(context, memories)
    return {
        name: template.replace("{path}", f"{quote(os.fsencode(folder))}/{{path}}")
        for name, folder in folders.items()
        if folder  # a database has paths, but no files here
    }


def _folders(context: click.Context, memories: Memories | None) -> Mapping[str, str]:
    return {"": load(context).root_name} if memories is None else memories.folders()
