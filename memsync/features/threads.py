"""Begin, append to, show and archive threads (conversations, one a note); report sessions, costs and agent runs."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from memsync.edit.append import Done
from memsync.edit.markdown import message, one_line
from memsync.edit.note_paths import move, note_path, numbered
from memsync.edit.set_fields import head_of, set_field
from memsync.edit.titles import slug_of, tags_of
from memsync.errors import MemsyncError, NoteError, NoThread, TitleTaken, UsageError
from memsync.model.conversation import (
    Conversation,
    Costs,
    Messages,
    Neighbours,
    Session,
    Sessions,
    Thread,
    ThreadMessage,
    Threads,
    Usage,
)
from memsync.model.grouped import grouped
from memsync.model.note import Message, Note
from memsync.model.text import not_shared, whole_characters
from memsync.model.vocabulary import THREAD_STATUSES, NotePath
from memsync.model.written import Written
from memsync.notes.conflict_marks import conflict_in
from memsync.notes.dates import parse_when
from memsync.notes.message_format import original_of
from memsync.notes.rules import ARCHIVE_FOLDER, THREADS_FOLDER
from memsync.operation import At, Cli, Command, Several, Tool, one_of, operation
from memsync.search.excerpt import read_note
from memsync.system import clock

if TYPE_CHECKING:
    from memsync.workspace import Searched, Workspace

SECTION = "Conversations"

MAX_MESSAGES = 2**53
COSTS_BY = ("session", "model", "agent", "day")

Attributes = Mapping[str, str | int | float]
ThreadName = Annotated[str, Meta(description="The thread: its name, path or title."), Cli(metavar="NAME", names="note")]
OfUser = Annotated[str, Meta(description="Only of this user."), Cli(metavar="NAME")]
OfSession = Annotated[str, Meta(description="Only of this session."), Cli(metavar="NAME")]
OfStatus = Annotated[str, Meta(description="Only active, paused, completed or archived ones.")]


# ------------------------------------------------------------------------------------------------ writing


@operation(
    Command("thread new", help="Begin a thread and print its path. The title must be new.", prints="path"), writes=True
)
def new_thread(
    memory: Workspace,
    title: Annotated[str, Meta(description="Its title."), Cli(is_text=True)],
    *,
    session: Annotated[str, Meta(description="The session it belongs to. [default: its own]")] = "",
    user: Annotated[str, Meta(description="Whose conversation it is.")] = "",
    project: Annotated[str, Meta(description="What it is about.")] = "",
    prompt: Annotated[str, Meta(description="Its own system prompt."), Cli(metavar="TEXT")] = "",
    tags: Annotated[tuple[str, ...], Meta(description="A tag; may be given several times."), Cli(("--tag",))] = (),
) -> Written:
    """Begin a thread, in a note of threads/ named after its title.

    Raises UsageError, with the path, when a thread has that title already.
    """
    title = one_line(title)
    slug = slug_of(title)
    if not slug:
        raise UsageError("a thread needs a title", hint="Write: memsync thread new TITLE")
    fields = {"session": session, "user": user, "project": project, "status": "active", "prompt": prompt}
    texts = {name: whole_characters(text) for name, text in fields.items()}
    head = head_of({"title": title, **texts, "tags": tags_of(tags)})
    titled = memory.threads_titled(title)  # before the lock: writers should not wait while files are compared
    with memory.writer.lock():
        path = memory.writer.free_thread_path(slug)
        memory.writer.refuse_instructions(path)
        same_slug = itertools.takewhile(memory.editor.holds, numbered(NotePath(f"{THREADS_FOLDER}{slug}.md")))
        taken = next((other for other in (*titled, *same_slug) if _is_titled(memory, other, title)), None)
        if taken is not None:
            name = taken.rpartition("/")[2].removesuffix(".md")
            hint = f"Append to it: memsync thread append {name} ROLE TEXT; or choose another title."
            raise TitleTaken(f"there is a thread {title!r} already: {taken}", hint=hint, path=taken)
        return memory.write("thread", title, lambda: memory.writer.create(path, head))


def _is_titled(memory: Workspace, path: NotePath, title: str) -> bool:
    note = memory.editor.read(path)
    return note is not None and note.title.casefold() == title.casefold()


@operation(
    Command(
        "thread append",
        help="Append a message to the thread NAME and print its path:line.",
        examples=(
            "memsync thread append getting-started user How do I begin?",
            "answer | memsync thread append getting-started assistant --model sonnet --in 812 --out 120 --cost 0.0031",
        ),
    ),
    tool=Tool(
        "memory_thread_append",
        "Append a message to a thread",
        "Append a message to a conversation in the memory. Use it to record what was said, who said it and what it "
        "cost.",
        ("thread", "role", "text", "attributes", "begin"),
        {"attributes": "model, in and out (tokens), cost (US dollars), status, or any other attribute."},
        is_idempotent=False,
    ),
    writes=True,
)
def append_message(
    memory: Workspace,
    thread: ThreadName,
    role: Annotated[str, Meta(description="user, assistant, system, tool, agent:NAME, or any other.")],
    text: Annotated[
        str, Meta(description="The message."), Cli(metavar="TEXT", is_text=True, reads_input=True, is_editable=True)
    ],
    *,
    time: Annotated[str, Meta(description="When it was written. [default: now]")] = "",
    model: Annotated[str, Meta(description="The model that wrote it.")] = "",
    tokens_in: Annotated[str, Meta(description="Input tokens."), Cli(("--in",), metavar="TOKENS")] = "",
    tokens_out: Annotated[str, Meta(description="Output tokens."), Cli(("--out",), metavar="TOKENS")] = "",
    cost: Annotated[str, Meta(description="What it cost in US dollars."), Cli(metavar="DOLLARS")] = "",
    attributes: Annotated[
        Attributes, Meta(description="Any other attribute."), Cli(("--attr",), metavar="KEY=VALUE")
    ] = {},  # noqa: B006 (because nothing changes it)
    begin: Annotated[bool, Meta(description="Begin the thread if it does not exist.")] = False,
) -> Written:
    """Append a message to a thread. Raises NoThread.

    `attributes` may have any name, also `model`, `in`, `out` and `cost`.
    """
    moment = time.strip() or f"{clock.now():%Y-%m-%d %H:%M:%S}"
    options = {"model": model, "in": tokens_in, "out": tokens_out, "cost": cost}
    addition = message(role, text, moment, _checked({**{k: v for k, v in options.items() if v}, **attributes}))

    def append(name: str) -> Written:
        return _write(memory, name, f"{role}: {text}", lambda path: memory.writer.append(path, addition))

    try:
        return append(thread)
    except NoThread:
        if not begin:
            raise
    try:
        return append(new_thread.function(memory, thread.removeprefix(THREADS_FOLDER).removesuffix(".md")).path)
    except TitleTaken as error:  # perhaps another writer has just begun it
        return append(error.path)


def _checked(attributes: Attributes) -> dict[str, str]:
    """Return attributes as texts. Raises UsageError for an empty name, and if tokens or a cost are not a number."""
    texts = {key.strip(): _plainly(value) for key, value in attributes.items()}
    if "" in texts:
        raise UsageError("an attribute has no name", hint="Write it as key=value.")
    for key in ("in", "out"):
        if key in texts and not (texts[key].isascii() and texts[key].isdigit()):
            raise UsageError(f"{key}={texts[key]} is not a number of tokens", hint="Write it as in=812.")
    if "cost" in texts and not re.fullmatch(r"\d{1,6}(\.\d{1,12})?", texts["cost"]):
        raise UsageError(f"cost={texts['cost']} is not an amount of US dollars", hint="Write it as cost=0.0031.")
    return texts


def _plainly(value: str | float) -> str:
    """Return a number without an exponent: 0.00001, not 1e-05."""
    return f"{value:.12f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


@operation(
    Command("thread archive", help="Archive thread NAME; searches skip it unless --archived is given.",
            fixed={"status": "archived"}, prints="path"),
    Command("thread resume", help="Reactivate thread NAME.", fixed={"status": "active"}, prints="path"),
    writes=True,
)  # fmt: skip
def set_thread_status(
    memory: Workspace, thread: ThreadName, status: Annotated[str, one_of(THREAD_STATUSES, "The new status.")]
) -> Written:
    """Make a thread active, paused, completed or archived. Searches skip archived threads by default."""
    is_archived = status == "archived"

    def change(path: NotePath) -> Done:
        def edit(text: str) -> str:
            changed = set_field(text, "status", status)
            was_archived = memory.editor.parse(path, text).archived
            return set_field(changed, "archived", is_archived) if is_archived or was_archived else changed

        return memory.writer.rewrite(path, edit)

    return _write(memory, thread, f"{status}: {thread}", change, comes_back=not is_archived)


def _write(
    memory: Workspace, thread: str, subject: str, change: Callable[[NotePath], Done], *, comes_back: bool = True
) -> Written:
    """Write to a thread, moving it out of archive/ first; if the write fails, move it back there."""
    named = memory.existing_thread(thread)  # before the lock: writers should not wait while files are compared

    def change_existing() -> Done:
        path = memory.existing_thread(named)
        memory.writer.refuse_instructions(path)
        if not comes_back or not path.startswith(ARCHIVE_FOLDER):
            return change(path)
        target = memory.archive.came_from(path)
        memory.writer.refuse_instructions(target)
        memory.writer.refuse_to_publish(path, target)
        move(memory.files.root, path, target)
        try:
            return replace(change(target), moved_from=path)
        except MemsyncError:
            with suppress(MemsyncError, FileNotFoundError):
                move(memory.files.root, target, path)
            raise

    return memory.write("thread", subject, change_existing)


# ------------------------------------------------------------------------------------------------ reading


@operation(Command("thread show", help="Print the messages of the thread NAME, from its file as it is now."))
def thread(
    memory: Workspace,
    thread: ThreadName,
    *,
    last: Annotated[int, Meta(ge=1, le=MAX_MESSAGES, description="Only the last N messages."), Cli(metavar="N")] = 0,
    at: At = "",
) -> Conversation:
    """Return a thread with its messages, all or the last ones. Raises NoThread."""
    path = memory.existing_thread(thread)
    note = memory.editor.read(path)
    with memory.as_of_now() as (reader, _):
        known = next(iter(reader.threads(path)), None)
        is_not_shared = path in reader.not_shared()
    if is_not_shared:
        hint = f"Read it with: memsync get {shlex.quote(path)}"
        raise NoteError(f"{path} is local-only, and not in the shared index", hint=hint)
    if note is None or known is None:
        raise NoteError(f"{path} has just been removed, or is not a thread", hint="See: memsync thread list")
    chosen = note.messages[-last:] if last else note.messages
    head = note.front_matter
    messages = tuple(_message(note, message) for message in chosen)
    warnings = conflict_in(path, note.lines)
    return Conversation(known, str(head.get("prompt") or ""), str(head.get("summary") or ""), messages, warnings)


@operation(several=Several.PATH, needs_no_files=True)
def neighbours(
    memory: Searched,
    path: Annotated[str, Meta(description="The note.")],
    start_line: Annotated[int, Meta(ge=1, le=MAX_MESSAGES, description="The first of its lines, counted from 1.")],
    *,
    end_line: Annotated[
        int, Meta(ge=0, le=MAX_MESSAGES, description="The last of its lines. [default: the first]")
    ] = 0,
    count: Annotated[int, Meta(ge=0, le=MAX_MESSAGES, description="How many messages on each side.")] = 1,
    at: At = "",
) -> Neighbours:
    """Return the messages before and after lines of a thread; nothing for any other note. Raises NoSuchNote."""
    note = read_note(memory.files, memory.reader, note_path(path))
    before = [message for message in note.messages if message.end_line < start_line][-count:] if count else []
    after = [message for message in note.messages if message.start_line > max(start_line, end_line)][:count]
    return Neighbours(*(tuple(_message(note, message) for message in side) for side in (before, after)))


def _message(note: Note, message: Message) -> ThreadMessage:
    text, attributes = original_of(note, message)
    lines = (message.start_line, message.end_line)
    return ThreadMessage(note.path, note.session, *lines, message.role, message.time, attributes, text)


@operation(Command("thread list", help="Print all threads, archived ones included, most recently active first."))
def threads(
    memory: Workspace, *, session: OfSession = "", status: OfStatus = "", user: OfUser = "", at: At = ""
) -> Threads:
    """Return every thread, most recently active first."""
    with memory.as_of_now() as (reader, pending):
        known, warnings = reader.threads(), not_shared(reader.not_shared())
    matching = [
        thread
        for thread in known
        if session in ("", thread.session) and status in ("", _status(thread)) and user in ("", thread.user)
    ]
    latest_first = sorted(matching, key=lambda thread: thread.last_active, reverse=True)
    return Threads(tuple(latest_first), pending, warnings)


@operation(Command("thread sessions", help="Print the sessions that threads share, most recently active first."))
def sessions(
    memory: Workspace,
    *,
    user: OfUser = "",
    status: OfStatus = "",
    project: Annotated[str, Meta(description="Only of this project.")] = "",
) -> Sessions:
    """Return the sessions that threads share, most recently active first.

    A thread without a session is a session of its own.
    """
    with memory.as_of_now() as (reader, pending):
        by_name = grouped((thread.session, thread) for thread in reader.threads())
        warnings = not_shared(reader.not_shared())
    known = [_session(name, threads) for name, threads in sorted(by_name.items())]
    matching = [s for s in known if user in ("", s.user) and status in ("", s.status) and project in ("", s.project)]
    latest_first = sorted(matching, key=lambda session: session.last_active, reverse=True)
    return Sessions(tuple(latest_first), pending, warnings)


def _session(name: str, threads: list[Thread]) -> Session:
    latest = max(threads, key=lambda thread: (thread.last_active, thread.path))
    latest_first = sorted(threads, key=lambda thread: thread is not latest)
    return Session(
        session=name,
        user=next((thread.user for thread in latest_first if thread.user), ""),
        project=next((thread.project for thread in latest_first if thread.project), ""),
        status=_status(latest),
        last_active=latest.last_active,
        threads=tuple(thread.path for thread in threads),
        usage=_total(thread.usage for thread in threads),
    )


def _status(thread: Thread) -> str:
    """Return a thread's status: "archived" if it is archived, otherwise the `status` in its front matter."""
    return "archived" if thread.archived else thread.status


def _total(usages: Iterable[Usage]) -> Usage:
    parts = list(usages)
    names = ("messages", "tokens_in", "tokens_out", "cost")
    messages, tokens_in, tokens_out, cost = (sum(getattr(usage, name) for usage in parts) for name in names)
    return Usage(messages, tokens_in, tokens_out, round(cost, 9))


@operation(Command("thread costs", help="Print tokens and dollars by session, model, agent or day."))
def costs(
    memory: Workspace,
    *,
    by: Annotated[str, one_of(COSTS_BY, "What to add up by.")] = "session",
    since: Annotated[
        str, Meta(description='Only since this moment: 2026-11-01, "7 days ago".'), Cli(metavar="DATE")
    ] = "",
) -> Costs:
    """Return tokens and dollars by session, model, agent or day."""
    moment = parse_when(since, clock.now()) if since else ""
    with memory.as_of_now() as (reader, pending):
        rows, warnings = reader.costs(by, moment), not_shared(reader.not_shared())
    return Costs(tuple(rows), _total(row.usage for row in rows), pending, warnings)


@operation(
    Command("thread runs", help="Print what agents ran, newest first: their task, how it ended, what it used.",
            fixed={"role": "agent"}, columns=("task", "status", "model")),
    Command("thread routes", help="Print how questions were routed, newest first.",
            fixed={"role": "router"}, columns=("intent", "complexity", "workflow", "method", "confidence")),
    Command("thread handoffs", help="Print what sessions handed over to each other, newest first.",
            fixed={"role": "handoff"}, columns=("from", "to", "status")),
)  # fmt: skip
def messages(
    memory: Workspace,
    role: Annotated[str, Meta(description="The role: user, router, handoff; agent means every agent.")],
    *,
    session: OfSession = "",
    limit: Annotated[int, Meta(ge=1, le=MAX_MESSAGES, description="How many of the newest.")] = 20,
) -> Messages:
    """Return the newest messages of a role, newest first."""
    with memory.as_of_now() as (reader, pending):
        return Messages(tuple(reader.messages(role, session)[:limit]), pending, not_shared(reader.not_shared()))
