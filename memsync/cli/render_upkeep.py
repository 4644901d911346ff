"""Results of upkeep and of the curator for people: a function for each type of result, which prints it on stdout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from memsync.cli.output import local_time, remark, say, say_table
from memsync.model.curation import Proposal, Proposals
from memsync.model.text import count, printable
from memsync.model.upkeep import (
    Checked,
    Collections,
    Contradictions,
    Duplicates,
    Forgetting,
    LinkPlace,
    Moving,
    NoteLinks,
    NoteUse,
    Pruning,
    Purge,
    Restoring,
    Stale,
    Stats,
)
from memsync.model.vocabulary import told_origin
from memsync.operation import Command

T = TypeVar("T")
QUOTED_LINES = 3
_SIGNS = {"add": "+", "strike": "-", "tick": "x", "archive": ">"}


def _pruning(result: Pruning, _: Command) -> None:
    for retirement in result.moved if result.applied else result.due:
        say(f"{printable(retirement.path)} -> {printable(retirement.target)}  {printable(retirement.reason)}")
    due = f"{len(result.due)} of {count(result.notes, 'note')} {'is' if len(result.due) == 1 else 'are'} due"
    if result.applied:
        remark(f"notes moved: {len(result.moved)}")
    elif result.is_refused:
        remark(f"{due}, more than 10 %: --apply requires --force")
    else:
        advice = ". Nothing was moved; --apply moves them" if result.due else ""
        remark(f"{due}{advice}")


def _purge(result: Purge, _: Command) -> None:
    kept = f"{count(result.notes, 'kept copy', 'kept copies')}, {count(result.appends, 'entry', 'entries')}"
    say(f"deleted for good: {kept} of the journal, {count(result.queries, 'recorded question')}")


def _restoring(result: Restoring, _: Command) -> None:
    for path in result.restored:
        say(printable(path))
    remark(f"notes put back: {len(result.restored)}")


def _forgetting(result: Forgetting, _: Command) -> None:
    for part in result.parts:
        if not result.applied or part.path in result.done:
            say(f"{printable(part.citation)}  {part.what}")
    if result.applied:
        advice = ": memsync forget --undo puts them back, --purge deletes the copies" if result.done else ""
        remark(f"notes changed: {len(result.done)}{advice}")
        return
    kinds = ", ".join(f"{what}: {number}" for what, number in result.counts.items())
    found = f"{kinds}, in {count(result.notes, 'note')}. Nothing was deleted; --apply deletes it"
    remark(found if kinds else f"the notes have nothing that is marked as {printable(result.user)}'s")


def _first(items: Sequence[T], offered: Command, what: str) -> Sequence[T]:
    """Return the items of a list that a command prints. Remark how many others there are."""
    if (more := len(items) - offered.first) > 0:
        remark(f"and {more:,} more {what}: --all prints every one")
    return items[: offered.first]


def _duplicates(duplicates: Duplicates, offered: Command) -> None:
    for position, repetition in enumerate(_first(duplicates.repetitions, offered, "repetitions")):
        if position:
            say()
        for place in repetition.places:
            say(f"{printable(place.citation)}  {'equal' if repetition.is_equal else f'{repetition.score:.3f}'}")
        lines = repetition.text.split("\n")
        say("\n".join(f"  {line}".rstrip() for line in lines[:QUOTED_LINES]))
        if len(lines) > QUOTED_LINES:
            say("  …")
    if not duplicates.repetitions:
        remark("No duplicates found.")
    if duplicates.left_out:
        shortest = f"the {count(duplicates.left_out, 'shortest passage')}"
        remark(f"{shortest} were compared by their text alone: --compare-all compares every one")
    if duplicates.pending_vectors:
        passages = count(duplicates.pending_vectors, "passage")
        remark(f"{passages} had no vector yet and were compared by their text alone")


def _stale(stale: Stale, _: Command) -> None:
    say_table([(note.path, note.last_active, _use(note)) for note in stale.notes], "no note is stale")
    if not stale.warnings:
        since = stale.counted_since[:10]
        remark(f"Retrievals have been counted since {since}." if since else "No retrievals were counted yet.")


def _contradictions(found: Contradictions, offered: Command) -> None:
    for position, contradiction in enumerate(_first(found.contradictions, offered, "pairs")):
        if position:
            say()
        later = "newer" if "" < contradiction.older.date < contradiction.newer.date else "other"
        for name, side in ((contradiction.id, contradiction.older), (later, contradiction.newer)):
            by = told_origin(side.origin)
            details = " · ".join(filter(None, (side.citation, side.date[:16].replace("T", " "), by)))
            say(f"{name:<8}  {printable(details)}")
            say(f"          {printable(side.text)}")
    dismissed = f" ({found.dismissed:,} dismissed)" if found.dismissed else ""
    if not found.contradictions:
        remark(f"no contradiction found in {count(found.notes, 'note')}{dismissed}")


def _moving(moving: Moving, _: Command) -> None:
    for moved in moving.moves:
        say(f"{printable(moved.path)} -> {printable(moved.target)}")
    for line in moving.lines:
        say(f"{printable(line.path)}:{line.line}")
        say(f"  - {printable(line.before)}")
        say(f"  + {printable(line.after)}")
    if moving.undone:
        return
    lines = f"{count(len(moving.lines), 'line')} of {count(len({line.path for line in moving.lines}), 'note')}"
    what = f"{count(len(moving.moves), 'file')} moved, {lines} changed"
    remark(f"{what}. To undo it: memsync mv --undo" if moving.applied else f"Dry run: {what}")


def _proposal(found: Proposal, _: Command) -> None:
    for number, change in enumerate(found.changes, 1):
        place = f"{change.note}#{change.section}" if change.section else change.note
        place += f":{change.line}" if change.line else ""
        state = "" if change.state == "open" else f"  ({change.state})"
        say(f"{number:>3}  {change.act} {printable(place)}  {printable(change.reason)}{state}")
        say(f"     {_SIGNS[change.act]} {printable(change.text or change.note)}")
        sources = ", ".join(source.partition("~")[0] for source in change.sources)
        say(f"       from {printable(sources)}")
        if change.supersedes:
            say(f"       supersedes {printable(change.supersedes.partition('~')[0])}, which then no longer holds")
    if found.changes:
        remark(f"proposed by {printable(found.by)}")
    for refused in found.refused:
        remark(f"refused: {printable(refused)}")
    if not found.changes:
        remark("nothing to propose")
    elif any(change.state == "open" for change in found.changes):
        remark(f"To apply it: memsync proposals accept {found.number} [--line K]")


def _proposals(found: Proposals, _: Command) -> None:
    rows = []
    for one in found.proposals:
        states = Counter(change.state for change in one.changes)
        counts = ", ".join(f"{number} {state}" for state, number in states.items())
        rows.append((str(one.number), one.made[:16].replace("T", " "), one.by, counts))
    say_table(rows, "there are no proposals: memsync curate makes one")


def _links(found: NoteLinks, _: Command) -> None:
    rows: list[tuple[str, ...]] = [("out", place.citation, _target(place), place.note) for place in found.out]
    rows += [("in", place.citation, _target(place), "") for place in found.into]
    rows += [("dead", place.citation, _target(place), "") for place in found.unresolved]
    rows += [("similar", note.path, note.title, f"{note.score:.2f}") for note in found.similar]
    say_table(rows, "no note links to it, and it links to none")


def _target(place: LinkPlace) -> str:
    return f"{place.target}#{place.anchor}" if place.anchor else place.target


def _checked(found: Checked, offered: Command) -> None:
    if found.format == "github":
        for one in found.findings:
            place = f"file={_property(one.path)},line={one.line},title=memsync {one.rule}"
            say(f"::{'notice' if one.is_fixed else 'error'} {place}::{_escaped(printable(one.message))}")
        return
    counts = Counter(one.rule for one in found.findings)
    for rule in counts:
        of_rule = [one for one in found.findings if one.rule == rule]
        for one in _first(of_rule, offered, rule):
            fixed = " (repaired)" if one.is_fixed else ""
            say(f"{printable(one.citation)}  {one.rule}  {printable(one.message)}{fixed}")
    rules = ", ".join(f"{rule} {number:,}" for rule, number in counts.items()) or "nothing found"
    ignored = f"; {count(found.ignored, 'finding')} ignored by [check] ignore" if found.ignored else ""
    remark(f"{count(found.notes, 'note')} checked: {rules}{ignored}")


def _escaped(text: str) -> str:
    """Return text as the value of a workflow command of GitHub; of a property also its `:` and `,` are escaped."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(printable(text)).replace(":", "%3A").replace(",", "%2C")


def _collections(listed: Collections, _: Command) -> None:
    rows = []
    for folder in listed.collections:
        description = " - ".join(filter(None, (folder.title, folder.description)))
        rows.append((folder.folder, f"{count(folder.notes, 'note')}, last {folder.last_active}", description))
    say_table(rows, "no folder has notes")


def _stats(stats: Stats, offered: Command) -> None:
    empty = f", {stats.empty} of them empty" if stats.empty else ""
    say(f"searches since {stats.since[:10]}: {stats.searches}{empty}")
    if stats.searches:
        say(f"latency: p50 {stats.p50_ms:g} ms, p95 {stats.p95_ms:g} ms")
    counted_since = stats.counted_since[:10]
    say(f"most retrieved since {counted_since}:" if counted_since else "No retrievals were counted yet.")
    for note in stats.most_retrieved[: offered.first]:
        say(f"  {printable(note.path)}  {_use(note)}")
    say(f"never retrieved: {stats.never_count}, the oldest first")
    for note in stats.never_retrieved[: offered.first]:
        say(f"  {printable(note.path)}  {note.last_active}")
    say("growth:")
    for size in stats.growth[-offered.first :]:
        sizes = f"{count(size.notes, 'note')}  {count(size.passages, 'passage')}"
        say(f"  {size.day}  {sizes}" + (f"  {size.index_bytes / 1e6:.1f} MB" if size.index_bytes else ""))
    for query in stats.queries[: offered.first]:
        say(f"asked {local_time(query.at)}: {printable(query.text)} ({count(query.hits, 'note')})")


def _use(note: NoteUse) -> str:
    return f"retrieved {note.retrieved} ×, last {note.last_retrieved[:10]}" if note.retrieved else "never retrieved"


RENDERERS: dict[Any, Callable[[Any, Command], None]] = {
    Pruning: _pruning,
    Purge: _purge,
    Restoring: _restoring,
    Forgetting: _forgetting,
    Duplicates: _duplicates,
    Stale: _stale,
    Contradictions: _contradictions,
    NoteLinks: _links,
    Proposal: _proposal,
    Proposals: _proposals,
    Moving: _moving,
    Checked: _checked,
    Collections: _collections,
    Stats: _stats,
}
