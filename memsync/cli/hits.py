"""Search results for people: citation, heading path, date, snippet with the matched words marked.

Colour only on a terminal, and not where NO_COLOR is set. The citation comes first on its line, as `path:line`, which
editors and terminals make clickable.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from memsync.cli.output import has_colour, printable, say, say_as_it_is, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memsync.model.answer import Hit, SearchResult
    from memsync.model.conversation import Neighbours, ThreadMessage
    from memsync.model.query import TimeHint

_STYLES = {"cyan": "\x1b[36m", "green": "\x1b[32m", "dim": "\x1b[2m", "match": "\x1b[1;33m"}
_RESET = "\x1b[0m"


def show_hits(
    result: SearchResult, *, full: bool, explain: bool, fresh: str, around: Sequence[Neighbours | None] = ()
) -> None:
    """Print hits on stdout, warnings and what an empty answer means on stderr; `fresh` is how they were asked for.

    `around` has the messages around each hit, where they were asked for.
    """
    colour = has_colour()
    for position, hit in enumerate(result.hits):
        if position:
            say()
        near = around[position] if around else None
        _messages(near.before if near else (), colour=colour)
        _hit(hit, full=full, explain=explain, colour=colour)
        _messages(near.after if near else (), colour=colour)
    if explain:
        _explanation(result)
    for warning in result.warnings:
        say(f"memsync: {printable(warning)}", err=True)
    if not result.hits:
        say(f"memsync: {_found_nothing(result, fresh)}", err=True)


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


def _hit(hit: Hit, *, full: bool, explain: bool, colour: bool) -> None:
    def style(text: str, how: str) -> str:
        return f"{_STYLES[how]}{text}{_RESET}" if colour else text

    path, _, lines = hit.citation.rpartition(":")
    where = " › ".join(hit.heading_path) or hit.title
    about = " · ".join(part for part in (where, hit.role, hit.date[:16].replace("T", " ")) if part)
    place = f"{style(printable(path), 'cyan')}:{style(lines, 'green')}"
    say_as_it_is(f"{place}  {style(f'{printable(about)} · {hit.score:.2f}', 'dim')}")
    if full:
        say(hit.text)
    else:
        say_as_it_is(_marked(hit, colour))
    if explain:
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
    filters = result.explain.filters
    return {field.name: value for field in fields(filters) if (value := getattr(filters, field.name))}
