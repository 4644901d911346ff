"""Print the memory as it was: versions, who wrote a line, and what changed between two states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memsync.cli.output import local_time, remark, say
from memsync.model.commits import Blame, Commit, Diff, Digest, Versions, cited_at
from memsync.model.text import count, printable, visible
from memsync.model.vocabulary import citation, told_origin
from memsync.operation import Command


def _history(history: Versions, _: Command) -> None:
    for position, version in enumerate(history.versions):
        head = _head(version.commit)
        if version.notes:
            say(f"{head}  ({count(version.notes, 'note')})")
            continue
        if position:
            say()
        say(head)
        say(f"  {printable(version.citation)}")
        for sign, lines in (("-", version.removed), ("+", version.added)):
            for line in lines:
                say(f"  {sign} {visible(line)}".rstrip())
    if not history.versions:
        remark("no commit has changed a note")


def _head(commit: Commit) -> str:
    """Return a commit on one line."""
    if not commit.name:
        return f"not committed  {local_time(commit.time)}"
    return printable(f"{commit.short}  {local_time(commit.time)}  {commit.author}  {commit.subject}")


def _blame(blame: Blame, _: Command) -> None:
    rows = []
    for line in blame.lines:
        by = told_origin(line.origin).removeprefix("from ")
        who = (line.commit.short or "not committed", line.commit.time[:10], by, line.session)
        rows.append((" ".join(filter(None, who)), str(line.line), line.text))
    widest = max((len(who) for who, _, _ in rows), default=0)
    for begin, number, text in rows:
        say(f"{printable(begin):<{widest}}  {number:>5}  {visible(text)}".rstrip())


def _diff(diff: Diff, _: Command) -> None:
    for position, change in enumerate(diff.changes):
        if position:
            say()
        say(printable(" › ".join((change.path, *change.heading_path))))
        for sign, commit, statements in (("-", diff.before, change.dropped), ("+", diff.after, change.learnt)):
            for stated in statements:
                place = cited_at(citation(change.path, stated.start_line, stated.end_line), commit.name)
                say(f"  {sign} {printable(stated.text)}  ({printable(place)})")
    learnt, dropped = (sum(len(getattr(change, name)) for change in diff.changes) for name in ("learnt", "dropped"))
    until = _state(diff.after) if diff.after.name else "the files as they are now"
    remark(f"{count(learnt, 'statement')} learnt, {dropped:,} dropped, from {_state(diff.before)} to {until}")


def _state(commit: Commit) -> str:
    return f"{commit.short} of {local_time(commit.time)}"


def _digest(digest: Digest, _: Command) -> None:
    say(digest.text, end="")


RENDERERS: dict[Any, Callable[[Any, Command], None]] = {Versions: _history, Blame: _blame, Diff: _diff, Digest: _digest}
