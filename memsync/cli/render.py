"""Results for people: a function for each type of result, which prints it on stdout and returns the exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from memsync.cli.output import (
    count,
    duration,
    is_terminal,
    local_time,
    printable,
    say,
    say_as_it_is,
    say_pending,
    say_table,
)
from memsync.model.answer import Excerpt
from memsync.model.context import Context
from memsync.model.conversation import Conversation, Costs, Messages, Sessions, Threads, Usage
from memsync.model.json import to_json
from memsync.model.status import DaemonStatus, Difference, Status, SyncReport
from memsync.model.upkeep import Collections, Duplicates, Notes, NoteUse, Pruning, Stale, Stats
from memsync.model.written import Pattern, Preference, Written
from memsync.operation import Command, Operation

FAILED = 1
MOST_LINES = 20
QUOTED_LINES = 3
_MENDED = "The one built from the files has taken its place. Run: memsync sync"


def document(result: Any, operation: Operation[Any, Any]) -> dict[str, Any]:
    """Return a result as the one JSON document that a command prints."""
    if operation.result == Difference | None:
        return {"equal": result is None, "difference": to_json(result)}
    found = to_json(result)
    return found if isinstance(found, dict) else {operation.name: found}


def render(result: Any, operation: Operation[Any, Any], offered: Command) -> None:
    """Print a result for people; remarks on it go to stderr."""
    RENDERERS.get(operation.result, _any)(result, offered)


def exit_code(result: Any, operation: Operation[Any, Any]) -> int:
    """Return the exit code that a result stands for."""
    if operation.result == Difference | None:
        has_failed = result is not None
    else:
        has_failed = bool(getattr(result, "failed", ())) or (isinstance(result, Notes) and not result.notes)
    return FAILED if has_failed else 0


def remarks(result: Any) -> None:
    """Print on stderr what failed, what a result warns of, and what it lacks: in whatever form it was printed."""
    failed = getattr(result, "failed", ())
    for failure in failed[:MOST_LINES]:
        about = "" if failure.reason.startswith(failure.path) else f"{printable(failure.path)}: "
        _note(f"{about}{printable(failure.reason)}")
    if len(failed) > MOST_LINES:
        _note(f"and {len(failed) - MOST_LINES} others (--json names each)")
    for warning in getattr(result, "warnings", ()):
        if isinstance(warning, str):
            _note(printable(warning))
    say_pending(getattr(result, "pending_text", 0))
    if isinstance(result, Notes) and not result.notes:
        _note("there are no notes here")


def _any(result: Any, _: Command) -> None:
    say(printable(str(result)))


def _note(text: str) -> None:
    """Print a remark on stderr."""
    say(f"memsync: {text}", err=True)


# --------------------------------------------------------------------------------------- notes and writing


def _excerpt(found: Excerpt, _: Command) -> None:
    # A terminal must not be driven by a note; a pipe gets the quote exactly, escape sequences and all.
    (say if is_terminal() else say_as_it_is)(found.text)


def _written(written: Written, offered: Command) -> None:
    say(printable(str(getattr(written, offered.prints or "citation"))))


def _notes(found: Notes, _: Command) -> None:
    rows = []
    for note in found.notes:
        flags = " ".join(name for name in ("pinned", "archived") if getattr(note, name))
        rows.append((note.path, note.kind, note.tier, note.last_active, flags, note.title))
    say_table(rows)


def _preferences(found: Sequence[Preference], _: Command) -> None:
    for preference in found:
        say(printable(f"{preference.key}: {preference.value}"))


def _patterns(found: Sequence[Pattern], _: Command) -> None:
    for pattern in found:
        about = " ".join(filter(None, (f"{pattern.confidence:.2f}", f"{pattern.count}x", pattern.type, pattern.key)))
        say(f"{printable(pattern.path)}:{pattern.line}  {printable(pattern.text)}  ({printable(about)})")


def _context(found: Context, _: Command) -> None:
    say(found.text, end="")
    _note(f"{found.tokens} of {found.budget} tokens")
    for note in found.left_out:
        passages = count(note.passages, "passage")
        _note(f"left out of {note.part}: {printable(note.path)}, {passages}, {count(note.tokens, 'token')}")


# ------------------------------------------------------------------------------------------- conversations


def _threads(found: Threads, _: Command) -> None:
    rows = []
    for thread in found.threads:
        is_own_session = thread.session == thread.path.rpartition("/")[2].removesuffix(".md")
        about = (thread.last_active, thread.status, "" if is_own_session else thread.session, thread.user)
        rows.append((thread.path, thread.title, *about, _used(thread.usage)))
    say_table(rows)


def _conversation(found: Conversation, _: Command) -> None:
    thread = found.thread
    about = ", ".join((thread.path, thread.session, thread.status or "active"))
    say(printable(f"{thread.title}  ({about})"))
    for message in found.messages:
        say(f"\n{printable(message.path)}:{message.start_line}  {printable(message.role)}  {message.time}")
        say("\n".join(f"  {line}".rstrip() for line in message.text.split("\n")))


def _sessions(found: Sessions, _: Command) -> None:
    rows = []
    for session in found.sessions:
        about = (session.last_active, session.status, session.user, session.project)
        rows.append((session.session, *about, f"{count(len(session.threads), 'thread')}, {_used(session.usage)}"))
    say_table(rows)


def _costs(found: Costs, _: Command) -> None:
    rows = [*((cost.key or "-", cost.usage) for cost in found.costs), ("total", found.total)]
    for key, usage in rows:
        say(f"${usage.cost:>12.4f}  {usage.tokens_in:>12,} in  {usage.tokens_out:>12,} out  {printable(key)}")


def _messages(found: Messages, offered: Command) -> None:
    rows = []
    for message in found.messages:
        attributes = message.attributes
        about = "  ".join(f"{name}={attributes[name]}" for name in offered.columns if name in attributes)
        rows.append((f"{message.path}:{message.start_line}", message.time, message.role, about))
    say_table(rows)


def _used(usage: Usage) -> str:
    tokens = count(usage.tokens_in + usage.tokens_out, "token")
    return f"{count(usage.messages, 'message')}, {tokens}, ${usage.cost:.4f}"


# -------------------------------------------------------------------------------------------------- upkeep


def pruning(found: Pruning, *, is_applied: bool) -> None:
    """Print what is due, or what was moved."""
    for retirement in found.moved if is_applied else found.due:
        say(f"{printable(retirement.path)} -> {printable(retirement.target)}  {printable(retirement.reason)}")
    if is_applied:
        _note(f"notes moved: {len(found.moved)}")
    elif found.is_refused:
        _note(f"{len(found.due)} of {found.notes} notes are due, more than 10 %: --apply requires --force")
    else:
        advice = ". Nothing was moved; --apply moves them" if found.due else ""
        _note(f"{len(found.due)} of {found.notes} notes are due{advice}")


def _duplicates(found: Duplicates, _: Command) -> None:
    for position, repetition in enumerate(found.repetitions):
        if position:
            say()
        for place in repetition.places:
            say(f"{printable(place.citation)}  {'equal' if repetition.is_equal else f'{repetition.score:.3f}'}")
        lines = repetition.text.split("\n")
        say("\n".join(f"  {line}".rstrip() for line in lines[:QUOTED_LINES]))
        if len(lines) > QUOTED_LINES:
            say("  …")
    if not found.repetitions:
        _note("No duplicates found.")
    if found.left_out:
        shortest = f"the {count(found.left_out, 'shortest passage')}"
        _note(f"{shortest} were compared by their text alone: --all compares every one")
    if found.pending_vectors:
        _note(f"{count(found.pending_vectors, 'passage')} had no vector yet and were compared by their text alone")


def _stale(found: Stale, _: Command) -> None:
    say_table([(note.path, note.last_active, _use(note)) for note in found.notes])
    if not found.warnings:
        since = found.counted_since[:10]
        _note(f"Retrievals have been counted since {since}." if since else "No retrievals were counted yet.")


def _collections(found: Collections, _: Command) -> None:
    rows = []
    for folder in found.collections:
        about = " - ".join(filter(None, (folder.title, folder.description)))
        rows.append((folder.folder, f"{count(folder.notes, 'note')}, last {folder.last_active}", about))
    say_table(rows)


def _stats(found: Stats, _: Command) -> None:
    empty = f", {found.empty} of them empty" if found.empty else ""
    say(f"searches since {found.since[:10]}: {found.searches}{empty}")
    if found.searches:
        say(f"latency: p50 {found.p50_ms:g} ms, p95 {found.p95_ms:g} ms")
    if found.counted_since:
        say(f"most retrieved since {found.counted_since[:10]}:")
    else:
        say("No retrievals were counted yet.")
    for note in found.most_retrieved:
        say(f"  {printable(note.path)}  {_use(note)}")
    say(f"never retrieved: {found.never_count}, the oldest first")
    for note in found.never_retrieved:
        say(f"  {printable(note.path)}  {note.last_active}")
    say("growth:")
    for size in found.growth:
        sizes = f"{count(size.notes, 'note')}  {count(size.passages, 'passage')}"
        say(f"  {size.day}  {sizes}  {size.index_bytes / 1e6:.1f} MB")
    for query in found.queries:
        say(f"asked {local_time(query.at)}: {printable(query.text)} ({count(query.hits, 'note')})")


def _use(note: NoteUse) -> str:
    return f"retrieved {note.retrieved} ×, last {note.last_retrieved[:10]}" if note.retrieved else "never retrieved"


# --------------------------------------------------------------------------------------------------- index


def _sync_report(report: SyncReport, _: Command) -> None:
    say(
        f"{report.added} added, {report.changed} changed, {report.deleted} deleted, {report.unchanged} unchanged; "
        f"vectors: {report.vectors_computed} computed, {report.vectors_reused} reused, "
        f"{report.vectors_pending} pending ({report.seconds:.1f} s)"
    )


def _difference(difference: Difference | None, _: Command) -> None:
    if difference is None:
        say("the index is equal to one built from the files")
        return
    say(f"the index differs from the files at line {difference.line} of the dump:")
    for name in ("indexed", "rebuilt"):
        say(f"  {name}: {printable(getattr(difference, name))}")
    say(_MENDED if difference.mended else "Run: memsync rebuild")


def _status(found: Status, _: Command) -> None:
    space = printable(found.space or "none yet")
    if found.building_space:
        space += f"\n  building    {printable(found.building_space)} ({count(found.building_pending, 'vector')} to go)"
    left = f", about {duration(found.pending_seconds)}" if found.pending_seconds else ""
    say(
        f"memory root   {printable(found.root)}\n"
        f"notes         {found.notes:,} ({count(found.chunks, 'chunk')}, {count(found.passages, 'passage')})\n"
        f"vectors       {found.vectors:,} ({found.pending_vectors:,} pending{left})\n"
        f"space         {space}\n"
        f"index         {printable(found.index_path)} ({found.index_bytes / 1e6:,.1f} MB)\n"
        f"last sync     {local_time(found.last_sync) or 'never'}"
    )
    if found.dated_by or found.undated:
        by_commits = f"{count(found.dated_notes, 'note')} by git's history as of {found.dated_by[:12]}"
        say(f"dates         {printable(f'by mtime: {found.undated}') if found.undated else by_commits}")
    _print_daemon(found.daemon)
    for title, items in (("warnings", found.warnings), ("failures", found.failures)):
        if items:
            say(f"{title}      {len(items)}")
            for item in items:
                say(f"  {printable(item.path)}: {printable(item.reason)}")


def _print_daemon(daemon: DaemonStatus | None) -> None:
    if daemon is None:
        import click

        from memsync.cli.command_daemon import why_not_served
        from memsync.cli.common import load

        say(f"daemon        {why_not_served(load(click.get_current_context()))}")
        return
    watching = f"{daemon.watcher}: {printable(daemon.reason)}" if daemon.reason else daemon.watcher
    model = "loaded" if daemon.model_loaded else "not loaded"
    say(
        f"daemon        process {daemon.process}, memsync {daemon.version}, since {local_time(daemon.started_at)}\n"
        f"watching      {watching}; compared {local_time(daemon.scanned_at) or 'not yet'}, "
        f"{count(daemon.pending_text, 'file')} to go\n"
        f"memory        {daemon.memory_bytes / 1e6:,.0f} MB, model {model}"
    )
    for error in daemon.errors:
        say(f"fault         {printable(error)}")


RENDERERS: dict[Any, Callable[[Any, Command], None]] = {
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
    Duplicates: _duplicates,
    Stale: _stale,
    Collections: _collections,
    Stats: _stats,
    SyncReport: _sync_report,
    Difference | None: _difference,
    Status: _status,
}
