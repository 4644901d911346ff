"""Write to the daily log and to long-term memory, make new notes, and count what the logs have."""

from __future__ import annotations

import shlex
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from msgspec.structs import replace

from memsync.edit.append import Done
from memsync.edit.daily_logs import daily_log_path
from memsync.edit.markdown import cleaned, list_item, one_line
from memsync.edit.note_paths import NOTE_OF_TIER, new_note_path, note_path
from memsync.edit.session_entries import entries_of_sessions, session_entry, with_entry
from memsync.edit.set_fields import head_of
from memsync.edit.titles import TITLE_OF_MEMORY, tags_of, title_of
from memsync.errors import Unrelated, UsageError, WriteRefused
from memsync.model.answer import Excerpt
from memsync.model.filters import Filters
from memsync.model.query import Query
from memsync.model.text import not_shared
from memsync.model.upkeep import Days
from memsync.model.vocabulary import Form, Kind, NotePath, Origin, Tier, citation, trust
from memsync.model.written import Written
from memsync.notes.attributes import SESSION
from memsync.notes.dates import leading_time, parse_day, parse_when
from memsync.notes.decode import decode
from memsync.notes.entry_text import stems
from memsync.notes.origin import BY
from memsync.notes.validity_marks import SUPERSEDES, VALID_FROM, VALID_UNTIL, statement_at
from memsync.operation import Cli, Command, Tool, one_of, operation
from memsync.ports import WRITES_FOR_AGENT
from memsync.search.excerpt import parse_location, read_excerpt
from memsync.search.stop_words import STOP_WORDS
from memsync.system import clock
from memsync.system.user_folders import digest_of

if TYPE_CHECKING:
    from memsync.workspace import Workspace

SECTION = "Notes"

REMEMBERED = "Remembered"
LAST = "LAST"
MAX_ENTRIES = 2**53

Text = Annotated[
    str, Meta(description="The text."), Cli(metavar="TEXT", is_text=True, reads_input=True, is_editable=True)
]
Tags = Annotated[tuple[str, ...], Meta(description="A tag, without #; may be given several times."), Cli(("--tag",))]
Supersedes = Annotated[
    str,
    Meta(description="What it replaces, which then no longer holds: PATH:LINE, or a note."),
    Cli(metavar="PATH:LINE", names="location"),
]
Was = Annotated[str, Meta(description="Refuse unless the line it replaces contains TEXT."), Cli(metavar="TEXT")]
Since = Annotated[str, Meta(description="The first day on which it holds."), Cli(("--from",), metavar="DATE")]
Until = Annotated[str, Meta(description="The last day on which it holds."), Cli(metavar="DATE")]
TierName = Annotated[str, one_of(("", *Tier), "How long it matters: personal, project or task.")]


@operation(
    Command(
        "log",
        help="Append TEXT to today's log with a timestamp and print its path:line.",
        examples=(
            "memsync log chose SQLite for the store",
            "memsync log --day yesterday --time 17:30 met Dana about pricing",
            "git log -1 --format=%s | memsync log --tag work",
        ),
    ),
    tool=Tool(
        "memory_log",
        "Write to today's log",
        "Append an entry to today's log. Use it when work is done, a decision is made, or an attempt failed and you "
        "know why. For what should last, use memory_remember.",
        ("text", "tags", "supersedes", "was"),
        {
            "text": "One sentence or two, clear without this conversation.",
            "tags": "Tags, without #.",
            "supersedes": "Citation of an agent's line that no longer holds, and that this replaces: path:line.",
            "was": "Words of that line, to check it.",
        },
        is_idempotent=False,
    ),
    writes=True,
)
def log(
    memory: Workspace,
    text: Text,
    *,
    day: Annotated[
        str, Meta(description="The day: 2026-11-21, yesterday, 3d. [default: today]"), Cli(metavar="DATE")
    ] = "",
    time: Annotated[str, Meta(description="The time. [default: now; none for another day]"), Cli(metavar="HH:MM")] = "",
    tags: Tags = (),
    supersedes: Supersedes = "",
    was: Was = "",
    since: Since = "",
    until: Until = "",
    undo: Annotated[
        str,
        Meta(description="Take back the last session note, or that of SESSION."),
        Cli(metavar="LAST|SESSION", needs_no_text=True),
    ] = "",
) -> Written:
    """Append an entry to the log of a day. Raises UsageError when [kinds] has no folder for logs.

    What the entry supersedes stays in its note; searches show it after the entry, and say why.
    """
    if undo and text:
        raise UsageError("undo takes no text", hint="Write: memsync log --undo LAST")
    if undo:
        return _taken_back(memory, undo)
    now = clock.now()
    marks, warnings = _marks(memory, text, supersedes, was, since, until)
    of_day = parse_day(day, now) if day else now.date()
    of_clock = _clock(time) if time else f"{now:%H:%M}" if of_day == now.date() else ""
    item = list_item(text, time=of_clock, tags=tags_of(tags), attributes=marks)
    path = daily_log_path(of_day, memory.files, memory.reader.rules)
    head = f"# {of_day}\n"
    return _with(memory.write("log", text, lambda: memory.writer.append(path, item, head=head)), warnings)


@operation(writes=True)
def note_session(
    memory: Workspace,
    session: Annotated[str, Meta(min_length=1, max_length=200, description="The session.")],
    agent: Annotated[str, Meta(min_length=1, max_length=100, description="The agent.")],
    day: Annotated[str, Meta(description="The day: 2026-11-21.")],
    time: Annotated[str, Meta(description="The time: 10:02.")],
    lines: Annotated[tuple[str, ...], Meta(min_length=1, max_length=20, description="What the entry says.")],
    *,
    user: Annotated[str, Meta(description="Whose session it was, for `forget`.")] = "",
) -> Written:
    """Write the entry of an agent's session into the log of a day, or bring the one that is there up to date.

    An entry that a person has changed or taken out stays so. Raises UsageError, WriteRefused, FilesystemError.
    """
    path = daily_log_path(parse_day(day, clock.now()), memory.files, memory.reader.rules)
    entry = session_entry({BY: agent, SESSION: session, "user": user}, _clock(time), lines)
    key = _key_of_note(day, session)

    def write() -> Done:
        known, text = memory.state.single(key), _text_of(memory, path)
        there = next((one for one in entries_of_sessions(text) if one.session == session), None)
        if known not in (None, _digest_of(there.text if there else "")):
            return Done(path, there.first if there else 1)
        if there is None:
            done = memory.writer.append(path, entry, head=f"# {day}\n")
        else:
            done = memory.writer.rewrite(path, lambda text: _exchanged(text, session, entry.text), adds=True)
        memory.state.keep_single(key, _digest_of(entry.text))
        return done

    return memory.write("log", lines[0], write)


def _taken_back(memory: Workspace, which: str) -> Written:
    """Take the entry of a session out of its log, the last one or that of a session; it does not come back.

    Raises UsageError if there is none, or if a person has changed it.
    """
    with memory.as_of_now() as (reader, _):
        logs = [note for note in reader.notes() if note.kind is Kind.DAILY and not note.archived]
    for note in sorted(logs, key=lambda note: (note.date, note.path), reverse=True):
        found = {one.session: one.text for one in entries_of_sessions(_text_of(memory, note.path))}
        session = [*found][-1] if found and which.upper() == LAST else which
        if session in found:
            if memory.state.single(_key_of_note(note.date, session)) not in (None, _digest_of(found[session])):
                problem = f"somebody has changed the note of the session {session} in {note.path}"
                raise UsageError(problem, hint="Delete it in an editor: memsync keeps no copy of it.")
            edit = partial(_exchanged, session=session, new="")
            return memory.write("log --undo", session, partial(memory.writer.rewrite, note.path, edit))
    asked = "a session" if which.upper() == LAST else f"the session {which}"
    problem = f"no log of the memory {memory.settings.root} has a note of {asked}"
    raise UsageError(problem, hint="memsync agents prints which memory gets the notes.")


def _key_of_note(day: str, session: str) -> str:
    return f"session note {day} {session}"


def _digest_of(text: str) -> str:
    return digest_of(text.encode("utf-8", "surrogateescape"))


def _text_of(memory: Workspace, path: NotePath) -> str:
    try:
        return memory.files.read(path)[0].decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def _exchanged(text: str, session: str, new: str) -> str:
    """Return a log with other lines in the place of the entry of a session."""
    there = next((one for one in entries_of_sessions(text) if one.session == session), None)
    return with_entry(text, there, new) if there else text


@operation(
    Command(
        "remember",
        help="Add TEXT to long-term memory (MEMORY.md; log: to today's log) and print its path:line.",
        notes="An item that is already there is not added again.",
        examples=(
            "memsync remember prefers tabs over spaces",
            "memsync remember --section Decisions the store is SQLite",
            "memsync remember --tier task the demo is on Friday",
            "memsync remember --supersedes MEMORY.md:12 --was Hamburg the office is in Berlin",
            "memsync remember --until 2027-01-01 Kim has the pager",
        ),
    ),
    tool=Tool(
        "memory_remember",
        "Remember something",
        "Add a fact, a preference, a decision or a rule to long-term memory. Use it when the user says remember, "
        "always, never or from now on, or corrects you, and when you learn what other conversations will need. What "
        "is already there is not added again.",
        ("text", "section", "note", "tier", "tags", "supersedes", "was", "until"),
        {
            "text": "One sentence, clear without this conversation.",
            "supersedes": "Citation of an agent's line that no longer holds, and that this replaces: path:line.",
            "was": "Words of that line, to check it.",
            "until": "The last day on which it holds: 2027-01-01.",
            "note": "Path of a note to use instead of MEMORY.md; not SOUL.md or a prompt.",
            "tier": "How long it matters: for good (personal), for a project, or for a task.",
            "tags": "Tags, without #.",
        },
    ),
    writes=True,
)
def remember(
    memory: Workspace,
    text: Text,
    *,
    section: Annotated[
        str,
        Meta(description="The section to put it in; made if it is missing. [default: Remembered]"),
        Cli(metavar="HEADING"),
    ] = "",
    note: Annotated[
        str,
        Meta(description="The note to put it in. [default: MEMORY.md, or the note of its tier]"),
        Cli(metavar="PATH", names="note"),
    ] = "",
    tier: TierName = "",
    tags: Tags = (),
    supersedes: Supersedes = "",
    was: Was = "",
    since: Since = "",
    until: Until = "",
) -> Written:
    """Add a list item to a section of long-term memory (MEMORY.md), or of another note.

    Makes the note and the section if they are missing. Does not add an item that is already there. What the item
    supersedes stays in its note; searches show it after the item, and say why.
    """
    marks, warnings = _marks(memory, text, supersedes, was, since, until)
    tier_of_item = Tier(tier or Tier.PERSONAL)
    path = note_path(note or NOTE_OF_TIER[tier_of_item])
    if memory.editor.is_of_kind(path, Kind.THREAD):  # the section's heading would be read as a message
        raise UsageError(f"{path} is a thread", hint="Append to it: memsync thread append")
    item = list_item(text, tags=tags_of(tags), attributes=marks)
    heading = one_line(section) or REMEMBERED
    is_memory = path == NOTE_OF_TIER[Tier.PERSONAL]
    fields = {"tier": str(tier_of_item)} if tier and not is_memory else {}
    head = f"{head_of(fields)}# {TITLE_OF_MEMORY if is_memory else title_of(path)}\n"
    written = memory.write("remember", text, lambda: memory.editor.add_to_section(path, heading, item, head))
    return _with(written, warnings)


@operation(
    Command(
        "note new",
        help="Make the note PATH, with TEXT if given, and print its path:line. Never changes an existing note.",
        notes="PATH is relative to the memory root; with ./ or ../ it is relative to the current folder.",
    ),
    writes=True,
)
def new_note(
    memory: Workspace,
    path: Annotated[str, Meta(description="Its path."), Cli(names="note")],
    text: Annotated[str, Meta(description="The text."), Cli(metavar="TEXT", is_text=True, is_editable=True)] = "",
    *,
    title: Annotated[str, Meta(description="Its heading. [default: its file name]")] = "",
    tier: TierName = "",
    tags: Tags = (),
) -> Written:
    """Make a note. Raises UsageError when the path is taken or excluded from the index."""
    place = new_note_path(path)
    if memory.files.leaves_out(place):
        problem = f"{place} would not be a note: .gitignore or [files] exclude leaves it out"
        raise UsageError(problem, hint="Name another place.")
    head = head_of({"tier": tier, "tags": list(tags_of(tags))})
    body = f"\n{cleaned(text)}\n" if text.strip() else ""
    content = f"{head}# {one_line(title) or title_of(place)}\n{body}"
    return memory.write("note", f"{title or place}\n{text}", lambda: memory.writer.create(place, content))


@operation(is_quick=True)
def logged(memory: Workspace, since: Annotated[str, Meta(description="The first day: 2026-11-01, 1y.")] = "1y") -> Days:
    """Return how many entries the logs have on each day since `since`. Raises UsageError."""
    logs = Filters(kinds=(Kind.DAILY,), after=parse_when(since, clock.now()))
    with memory.as_of_now() as (reader, pending):
        found = reader.latest_candidates(Query("", filters=logs), MAX_ENTRIES)
        chunks = reader.chunks([one.chunk_id for one in found]).values()
        hidden = not_shared(reader.not_shared())
    days = Counter((entry.time or chunk.date)[:10] for chunk in chunks for entry in chunk.entries)
    return Days(dict(sorted(days.items())), pending, hidden)


def _clock(text: str) -> str:
    found = leading_time(text)
    if not found or found.lstrip("0") != text.strip().lstrip("0"):
        raise UsageError(f"{text!r} is not a time of day", hint="Write it as 10:02.")
    return found


def _marks(
    memory: Workspace, new: str, supersedes: str, was: str, since: str, until: str
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the attributes that say what a text replaces and when it holds, and what to tell the user about them.

    Raises UsageError, NoteError if the line that it replaces is not there, or says something else; Unrelated if it
    shares no word with the `new` text, and `was` does not confirm it.
    """
    now = clock.now()
    marks = {VALID_FROM: since, VALID_UNTIL: until}
    marks = {name: parse_day(day, now).isoformat() for name, day in marks.items() if day}
    if len(marks) == 2 and marks[VALID_FROM] > marks[VALID_UNTIL]:
        raise UsageError(f"{since} is after {until}", hint="The first day comes before the last one.")
    if was and not parse_location(supersedes).first:
        raise UsageError(
            "--was needs --supersedes PATH:LINE", hint="It quotes words of the line that the text replaces."
        )
    if not supersedes:
        return marks, ()
    name = supersedes.removeprefix("[[").removesuffix("]]")
    place = read_excerpt(memory.files, memory.reader, name, memory.fresh_search.titled)
    if WRITES_FOR_AGENT.get():
        _refuse_agent(memory, place)
    if not parse_location(name).first:
        return {SUPERSEDES: place.path, **marks}, (f"all of {place.path} is superseded",)
    lines = decode(memory.files.read(place.path)[0]).lines
    reference, text = statement_at(place.path, lines, place.start_line, place.end_line, was)
    if not was and not {*stems(new)} & {*stems(text.partition("  ")[2])} - STOP_WORDS:
        some = " ".join(text.partition("  ")[2].split()[:6])
        hint = f"If you mean that line, repeat some of its words: --was {shlex.quote(some)}"
        raise Unrelated(f"the new text shares no word with {text}", hint=hint)
    return {SUPERSEDES: reference, **marks}, (f"superseded: {text}",)


def _refuse_agent(memory: Workspace, place: Excerpt) -> None:
    """Raise WriteRefused if these lines instruct agents, or are not an agent's: an agent may not supersede them."""
    memory.writer.refuse_instructions(place.path)
    _, chunks = memory.reader.read(place.path, memory.files.read(place.path)[0])
    for chunk in chunks:
        is_meant = chunk.start_line <= place.end_line and place.start_line <= chunk.end_line
        if is_meant and chunk.form not in (Form.HEADING, Form.FIELD) and trust(chunk.origin) > trust(Origin.AGENT):
            problem = f"{citation(place.path, chunk.start_line, chunk.end_line)} is what the owner wrote"
            hint = "Propose it with memory_propose, or write it without supersedes: memory_contradictions lists both."
            raise WriteRefused(f"{problem}: an agent may not supersede it", hint=hint)


def _with(written: Written, warnings: tuple[str, ...]) -> Written:
    if warnings:
        warnings = (*warnings, f"To take it back, delete the new line: memsync open {written.citation}")
    return replace(written, warnings=(*written.warnings, *warnings))
