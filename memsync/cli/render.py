"""Results for people: a function for each type of result, which prints it on stdout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import asdict

from memsync.cli import render_history, render_upkeep
from memsync.cli.command_open import linked
from memsync.cli.output import (
    NO_EXIT_CODE,
    is_terminal,
    local_time,
    remark,
    say,
    say_as_it_is,
    say_pending,
    say_table,
    table_day,
)
from memsync.cli.typed_paths import Here
from memsync.errors import IndexFailure
from memsync.model.answer import Excerpt, Hit, SearchResult
from memsync.model.commits import SHORT, cited_at
from memsync.model.context import Context
from memsync.model.conversation import (
    Conversation,
    Costs,
    Messages,
    Neighbours,
    Sessions,
    ThreadMessage,
    Threads,
    Usage,
)
from memsync.model.json import to_json
from memsync.model.query import TimeHint
from memsync.model.status import DaemonStatus, Difference, Shared, Status, SyncReport
from memsync.model.text import also_searched, count, duration, listed, printable, visible
from memsync.model.upkeep import Checked, Contradictions, Notes
from memsync.model.vocabulary import in_root, told_origin
from memsync.model.written import Pattern, Preference, Written
from memsync.operation import Command, Operation

MAX_FAILURES = 20
MAX_NAMED = 3
_STYLES = {"cyan": "\x1b[36m", "green": "\x1b[32m", "dim": "\x1b[2m", "match": "\x1b[1;33m", "warning": "\x1b[33m"}
_RESET = "\x1b[0m"
_MENDED = "The index was replaced by the one built from the files. Run: memsync sync"


def document(result: Any, operation: Operation[Any, Any]) -> dict[str, Any]:
    """Return a result as the one JSON document that a command prints."""
    if operation.result == Difference | None:
        return {"equal": result is None, "difference": to_json(result)}
    content = to_json(result)
    return content if isinstance(content, dict) else {operation.name: content}


def render(result: Any, operation: Operation[Any, Any], offered: Command) -> None:
    """Print a result for people; remarks on it go to stderr."""
    renderer = RENDERERS.get(operation.result)
    if renderer is None:
        say(printable(str(result)))
    else:
        renderer(result, offered)


def exit_code(result: Any, operation: Operation[Any, Any]) -> int:
    """Return NO_EXIT_CODE for failures, findings, contradictions, a difference and an empty list; otherwise 0.

    A status without an index has the exit code of that fault.
    """
    if isinstance(result, Status) and _is_unanswered(result):
        return IndexFailure.exit_code
    if operation.result == Difference | None:
        has_failed = result is not None
    elif isinstance(result, Contradictions):
        has_failed = bool(result.contradictions or result.failed)
    elif isinstance(result, Checked):
        has_failed = any(not one.is_fixed for one in result.findings) or bool(result.failed)
    elif isinstance(result, Shared):
        has_failed = bool(result.problem or result.conflicts)
    else:
        has_failed = bool(getattr(result, "failed", ())) or (isinstance(result, Notes) and not result.notes)
    return NO_EXIT_CODE if has_failed else 0


def remarks(result: Any) -> None:
    """Print a result's failures, warnings and what it lacks on stderr, also after JSON."""
    failed = getattr(result, "failed", ())
    for failure in failed[:MAX_FAILURES]:
        remark(printable(str(failure)))
    if len(failed) > MAX_FAILURES:
        remark(f"and {count(len(failed) - MAX_FAILURES, 'other')} (--json names each)")
    for warning in getattr(result, "warnings", ()):
        if isinstance(warning, str):
            remark(printable(warning))
    say_pending(getattr(result, "pending_text", 0))
    if isinstance(result, Notes) and not result.notes:
        remark("there are no notes here")


# ------------------------------------------------------------------------------------------------ a search


class Layout(NamedTuple):
    """How to show hits. `links` have the URL of a place in a note of each memory, with {path} and {line}."""

    full: bool
    explain: bool
    fresh: str
    colour: bool
    links: Mapping[str, str]

    def styled(self, text: str, style: str) -> str:
        """Return text in a style of _STYLES, if there are colours."""
        return f"{_STYLES[style]}{text}{_RESET}" if self.colour else text


def show_hits(result: SearchResult, layout: Layout, around: Sequence[Neighbours | None] = ()) -> None:
    """Print hits on stdout; print warnings, and what an empty answer means, on stderr.

    `around` has the messages around each hit; it is empty without --context.
    """
    for position, hit in enumerate(result.hits):
        if position:
            say()
        neighbours = around[position] if around else None
        _neighbours(neighbours.before if neighbours else (), layout)
        _hit(hit, layout)
        _neighbours(neighbours.after if neighbours else (), layout)
    if layout.explain:
        _explanation(result)
    _show_remarks(result, layout.fresh)


def _show_remarks(result: SearchResult, fresh: str) -> None:
    remarks(result)
    if result.also_searched:
        remark(printable(also_searched(result.also_searched)))
    if result.at:
        remark(f"as of {result.at[:SHORT]}, committed {local_time(result.at_time)}")
    if not result.hits:
        remark(_found_nothing(result, fresh))


def show_lines(result: SearchResult, folders: Mapping[str, str], place: Here, fresh: str) -> None:
    """Print one line a hit, as grep does: the path from the current folder, the number and text of its best line."""
    for hit in result.hits:
        folder = folders.get(hit.root)
        path = place.opened_by(f"{folder}/{hit.path}") if folder else in_root(hit.root, cited_at(hit.path, hit.at))
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


def _neighbours(messages: Sequence[ThreadMessage], layout: Layout) -> None:
    for message in messages:
        head = f"  | {printable(message.path)}:{message.start_line}  {message.role}  {message.time.replace('T', ' ')}"
        lines = "\n".join(f"  |   {line}".rstrip() for line in visible(message.text).split("\n"))
        say_as_it_is(layout.styled(f"{printable(head)}\n{lines}", "dim"))


def _found_nothing(result: SearchResult, fresh: str) -> str:
    """Return what an empty answer means: whether all files were searched."""
    if fresh == "none" and not result.at:
        moment = result.freshness.scanned_at
        return f"nothing found; files were {f'last compared at {moment}' if moment else 'not looked at'}"
    return f"nothing found{result.found_where}"


def _hit(hit: Hit, layout: Layout) -> None:
    path, _, lines = hit.citation.rpartition(":")
    heading = " › ".join(hit.heading_path) or hit.title
    score, by = f"{hit.score:.2f}" if hit.score else "", told_origin(hit.origin, hit.role)
    details = " · ".join(filter(None, (heading, hit.role, by, hit.date[:16].replace("T", " "), score)))
    place = f"{layout.styled(printable(path), 'cyan')}:{layout.styled(lines, 'green')}"
    place = linked(place, layout.links.get(hit.root, ""), hit.path, hit.start_line)
    say_as_it_is(f"{place}  {layout.styled(printable(details), 'dim')}")
    if hit.validity:
        say_as_it_is(layout.styled(printable(f"  {hit.validity}"), "warning"))
    if hit.differs:
        say_as_it_is(layout.styled(printable(f"  differs from {', '.join(hit.differs)}"), "warning"))
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


def _marked(hit: Hit, layout: Layout) -> str:
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


# --------------------------------------------------------------------------------------- notes and writing


def _excerpt(excerpt: Excerpt, _: Command) -> None:
    # A note's escape sequences must not reach a terminal; a pipe gets the exact text.
    (say if is_terminal() else say_as_it_is)(excerpt.text)


def _written(written: Written, offered: Command) -> None:
    say(printable(str(getattr(written, offered.prints or "citation"))))


def _notes(listed: Notes, _: Command) -> None:
    rows = []
    for note in listed.notes:
        flags = " ".join(name for name in ("pinned", "archived") if getattr(note, name))
        rows.append((note.path, note.kind, note.tier, note.last_active, flags, note.title))
    say_table(rows)


def _preferences(preferences: Sequence[Preference], _: Command) -> None:
    for preference in preferences:
        say(printable(f"{preference.key}: {preference.value}"))
    if not preferences:
        remark("no preference is set")


def _patterns(patterns: Sequence[Pattern], _: Command) -> None:
    for pattern in patterns:
        details = " ".join(filter(None, (f"{pattern.confidence:.2f}", f"{pattern.count}x", pattern.type, pattern.key)))
        say(f"{printable(pattern.path)}:{pattern.line}  {printable(pattern.text)}  ({printable(details)})")
    if not patterns:
        remark("no pattern matches")


def _context(context: Context, _: Command) -> None:
    say(context.text, end="")
    remark(f"{context.tokens:,} of {count(context.budget, 'token')}")
    for note in context.left_out:
        passages = count(note.passages, "passage")
        remark(f"left out of {note.part}: {printable(note.path)}, {passages}, {count(note.tokens, 'token')}")


# ------------------------------------------------------------------------------------------- conversations


def _threads(listed: Threads, _: Command) -> None:
    rows = []
    for thread in listed.threads:
        stem = thread.path.partition(".md@")[0].removesuffix(".md").rpartition("/")[2]  # a commit follows the @
        is_own_session = thread.session == stem
        session = "" if is_own_session else thread.session
        name = thread.path.removeprefix("threads/").removesuffix(".md") if is_terminal() else thread.path
        columns = (name, thread.title, table_day(thread.last_active), thread.status, session, thread.user)
        rows.append((*columns, _used(thread.usage)))
    say_table(rows, "no thread matches")


def _conversation(conversation: Conversation, _: Command) -> None:
    thread = conversation.thread
    say(printable(f"{thread.title}  ({thread.path}, {thread.session}, {thread.status or 'active'})"))
    for message in conversation.messages:
        time = message.time.replace("T", " ")
        say(f"\n{printable(message.path)}:{message.start_line}  {printable(message.role)}  {time}")
        say("\n".join(f"  {line}".rstrip() for line in message.text.split("\n")))


def _sessions(listed: Sessions, _: Command) -> None:
    rows = []
    for session in listed.sessions:
        columns = (session.session, table_day(session.last_active), session.status, session.user, session.project)
        rows.append((*columns, f"{count(len(session.threads), 'thread')}, {_used(session.usage)}"))
    say_table(rows, "no session matches")


def _costs(costs: Costs, _: Command) -> None:
    for key, usage in [*((cost.key or "-", cost.usage) for cost in costs.costs), ("total", costs.total)]:
        say(f"${usage.cost:>12.4f}  {usage.tokens_in:>12,} in  {usage.tokens_out:>12,} out  {printable(key)}")


def _messages(listed: Messages, offered: Command) -> None:
    rows = []
    for message in listed.messages:
        given = message.attributes
        attributes = "  ".join(f"{name}={given[name]}" for name in offered.columns if name in given)
        rows.append((f"{message.path}:{message.start_line}", message.time.replace("T", " "), message.role, attributes))
    say_table(rows, "no message matches")


def _used(usage: Usage) -> str:
    if is_terminal():
        return count(usage.messages, "message")
    tokens = count(usage.tokens_in + usage.tokens_out, "token")
    return f"{count(usage.messages, 'message')}, {tokens}, ${usage.cost:.4f}"


# --------------------------------------------------------------------------------------------------- index


def _sync_report(report: SyncReport, _: Command) -> None:
    local = f", of which {report.not_shared} local-only and not in the shared index" if report.not_shared else ""
    say(
        f"{report.added} added, {report.changed} changed, {report.deleted} deleted, {report.unchanged} unchanged{local}"
        f"; vectors: {report.vectors_computed} computed, {report.vectors_reused} reused, "
        f"{report.vectors_pending} pending ({report.seconds:.1f} s)"
    )


def _difference(difference: Difference | None, _: Command) -> None:
    if difference is None:
        say("the index is equal to one built from the files")
        return
    say(f"the index differs from the files at line {difference.line} of the dump:")
    for name in ("indexed", "rebuilt"):
        say(f"  {name}: {printable(getattr(difference, name))}")
    say(_MENDED if difference.mended else "Run: memsync index rebuild")


def say_briefly(status: Status) -> None:
    """Print six lines on the state of a memory."""
    brief = ("memory root", "notes", "vectors", "last sync", "daemon")
    _say_facts(*(fact for fact in _facts(status) if fact[0] in brief))
    faults = f"{count(len(status.warnings), 'warning')}, {count(len(status.failures), 'failure')}: memsync status"
    _say_facts(("more", f"{faults}; commands: memsync --help"))


def _facts(status: Status) -> list[tuple[str, str]]:
    """Return the names and values of a status; a value may be empty. Of an index that did not answer none is known."""
    time_left = f", about {duration(status.pending_seconds)}" if status.pending_seconds else ""
    size = f" ({status.index_bytes / 1e6:,.1f} MB)" if status.index_bytes else ""  # a database has no figure for it
    by_commits = f"{count(status.dated_notes, 'note')} by git's history as of {status.dated_by[:12]}"
    excluded = count(status.excluded, "note or folder", "notes and folders")
    building = f"{status.building_space} ({count(status.building_pending, 'vector')} to go)"
    if _is_unanswered(status):
        return [("memory root", status.root), ("index", status.index_path), *_daemon(status.daemon)]
    return [
        ("memory root", status.root),
        ("notes", f"{status.notes:,} ({count(status.chunks, 'chunk')}, {count(status.passages, 'passage')})"),
        ("vectors", f"{status.vectors:,} ({status.pending_vectors:,} pending{time_left})"),
        ("sync copies", listed(status.copies, MAX_NAMED)),
        ("excluded", f"{excluded}, by .gitignore or [files] exclude" * bool(status.excluded)),
        ("not followed", listed(status.links, MAX_NAMED)),
        ("local-only", f"{count(status.local_only, 'passage')} found by their words only" * bool(status.local_only)),
        ("space", status.space or "none yet"),
        ("  building", building * bool(status.building_space)),
        ("index", f"{status.index_path}{size}"),
        ("last sync", local_time(status.last_sync) or "never"),
        ("dates", f"by mtime: {status.undated}" if status.undated else by_commits * bool(status.dated_by)),
        ("shared", f"{status.shared.address}, {local_time(status.shared.at) or 'not yet'}" if status.shared else ""),
        *_daemon(status.daemon),
    ]


def _shared(shared: Shared, _: Command) -> None:
    if not shared.address:
        say("not shared any more")
    elif not shared.problem and not shared.conflicts:
        say(f"{count(shared.sent, 'file')} sent, {count(shared.taken, 'file')} taken; {printable(shared.address)}")


def _is_unanswered(status: Status) -> bool:
    """Tell whether the index was not read, because its server is away."""
    from memsync.features.indexing import INDEX_FAILURE  # here, because most commands need nothing else of it

    return not status.notes and any(failure.path == INDEX_FAILURE for failure in status.failures)


def _status(status: Status, _: Command) -> None:
    _say_facts(*_facts(status))
    for title, items in (("warnings", status.warnings), ("failures", status.failures)):
        if items:
            say(f"{title}      {len(items)}")
            for item in items:
                say(f"  {printable(item.path)}: {printable(item.reason)}")


def _say_facts(*facts: tuple[str, str]) -> None:
    """Print names and values, one pair a line, without those that have no value."""
    for name, value in facts:
        if value:
            say(f"{name:<13} {printable(value)}")


def _daemon(daemon: DaemonStatus | None) -> list[tuple[str, str]]:
    if daemon is None:
        import click

        from memsync.cli.common import load
        from memsync.daemon.process import why_not_served

        return [("daemon", why_not_served(load(click.get_current_context())))]
    watching = f"{daemon.watcher}: {daemon.reason}" if daemon.reason else daemon.watcher
    compared = f"compared {local_time(daemon.scanned_at) or 'not yet'}, {count(daemon.pending_text, 'file')} to go"
    model = "loaded" if daemon.model_loaded else "not loaded"
    return [
        ("daemon", f"process {daemon.process}, memsync {daemon.version}, since {local_time(daemon.started_at)}"),
        ("watching", f"{watching}; {compared}"),
        ("memory", f"{daemon.memory_bytes / 1e6:,.0f} MB, model {model}"),
        ("web", daemon.web),
        *(("fault", error) for error in daemon.errors),
    ]


RENDERERS: dict[Any, Callable[[Any, Command], None]] = {
    **render_upkeep.RENDERERS,
    **render_history.RENDERERS,
    Excerpt: _excerpt,
    Written: _written,
    Notes: _notes,
    tuple[Preference, ...]: _preferences,
    tuple[Pattern, ...]: _patterns,
    Context: _context,
    Threads: _threads,
    Conversation: _conversation,
    Sessions: _sessions,
    Costs: _costs,
    Messages: _messages,
    SyncReport: _sync_report,
    Difference | None: _difference,
    Shared: _shared,
    Status: _status,
}
