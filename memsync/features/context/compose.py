"""Compose the context that an agent reads before it answers, from the files as they are now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from msgspec.structs import replace

from memsync.errors import NoteError, UsageError
from memsync.features.context.assemble import assemble
from memsync.features.context.parts import Passage, Source
from memsync.features.context.sources import (
    day_before,
    hit_passage,
    identity_notes,
    log_notes,
    memory_notes,
    message_passages,
    passages_of,
    prompt_notes,
    thread_prompt,
)
from memsync.model.context import Context
from memsync.model.filters import Filters
from memsync.model.note import Note
from memsync.model.vocabulary import Fresh, Kind, Mode, NotePath
from memsync.notes.dates import parse_day
from memsync.notes.files import NoteFiles
from memsync.notes.parse import NoteReader
from memsync.operation import Cli, Command, Tool, operation
from memsync.search.query_syntax import parse_query

if TYPE_CHECKING:
    from memsync.workspace import Workspace

LEAST_HITS = 50
TOKENS_A_HIT = 20
"""Tokens of a log line with its citation; decides how many hits to search for."""
MOST_HITS = 500
MOST_TOKENS = 2**53
SHARES = ("soul", "prompts", "memory", "messages", "logs")


@operation(
    Command(
        "context",
        help="Print what an agent should read before it answers QUERY, within a budget of tokens (docs/context.md).",
        notes="SOUL.md, active prompts and the thread's prompt come first. Then it quotes, with path and line, "
        "pinned notes and MEMORY.md, the thread's last messages, the logs of today and yesterday, and the hits for "
        "QUERY. It lists what does not fit on stderr.",
        examples=(
            "memsync context which store did we choose --budget 2000",
            "memsync context --thread the-store --json",
        ),
    ),
    tool=Tool(
        "memory_context",
        "Assemble a context",
        "Return what to read before starting to work: who the agent is, active prompts, long-term memory, the last "
        "messages of a thread, the logs of today and yesterday, and the hits for a query; never over the budget. "
        "Use it once at the beginning of a conversation or task.",
        ("query", "thread", "budget"),
        {"thread": "The name of the thread that is being continued."},
    ),
)
def context(
    memory: Workspace,
    query: Annotated[str, Meta(description="What the work is about (optional)."), Cli(is_text=True)] = "",
    *,
    thread: Annotated[
        str,
        Meta(description="Include this thread's own prompt and its last messages."),
        Cli(metavar="NAME", names="note"),
    ] = "",
    budget: Annotated[
        int,
        Meta(ge=0, le=MOST_TOKENS, description="Maximum number of tokens. [default: context.budget, 4000]"),
        Cli(metavar="TOKENS"),
    ] = 0,
    day: Annotated[
        str,
        Meta(description="Include the logs of this day and the day before. [default: today]"),
        Cli(metavar="DATE"),
    ] = "",
) -> Context:
    """Return what an agent should read before it answers, as one text within a budget of tokens.

    The order: SOUL.md, active prompts, the thread's prompt, long-term memory, the thread's last messages, the logs of
    `day` and the day before, the hits for `query`. [context] sets the shares and the default budget. Equal files,
    arguments and day give equal text. Raises NoThread.
    """
    budget = budget or memory.settings["context.budget"]
    today = _day(day)
    path = memory.existing_thread(thread) if thread else None
    hits, warnings, pending = _hits(memory, query, budget)
    gathered = _Gathered(memory.files, memory.reader)
    assembled = assemble(_sources(memory, gathered, path, today, hits), budget, memory.reader.count_tokens)
    memory.usage.read(passage.path for part in assembled.parts for passage in part.passages)
    return replace(assembled, warnings=(*warnings, *gathered.warnings), pending_text=pending)


def _sources(
    memory: Workspace, gathered: _Gathered, thread: NotePath | None, today: date, hits: Sequence[Passage]
) -> Sequence[Source]:
    """Return the parts of a context in their order (docs/context.md)."""
    with memory.index.reading() as reader:
        notes = reader.notes()
    kind_of, passages = memory.reader.rules.kind, gathered.passages
    share = {name: memory.settings[f"context.{name}"] for name in SHARES}
    soul, prompts = passages(identity_notes(notes, kind_of)), passages(prompt_notes(notes, kind_of))
    conversation = gathered.note(thread) if thread else None
    # As with prompts, only a note in the right place may instruct: its front matter alone does not make it a thread.
    instructs = conversation and kind_of(conversation[0].path) is Kind.THREAD
    own_prompt = thread_prompt(conversation[0]) if conversation and instructs else []
    messages = message_passages(*conversation) if conversation else []
    logs = [passage for path in log_notes(notes, today) for passage in reversed(passages([path]))]
    return (
        Source("soul", "Identity", share["soul"], soul, is_quoted=False),
        Source("prompts", "Instructions", share["prompts"], prompts, is_quoted=False),
        Source("thread_prompt", "Instructions of this conversation", 0, own_prompt, is_quoted=False),
        Source("memory", "Lasting memory", share["memory"], passages(memory_notes(notes))),
        Source("messages", "This conversation", share["messages"], messages, is_unbroken=True),
        Source("logs", "Today and yesterday", share["logs"], logs),
        Source("hits", "Found in memory", 1, hits, in_rank_order=True),
    )


def _hits(memory: Workspace, query: str, budget: int) -> tuple[list[Passage], Sequence[str], int]:
    """Return the hits (none without a query), warnings, and the number of changed files that are not searched yet."""
    if not query.strip():
        report = memory.answering.compare()
        return [], [f"{failure.path}: {failure.reason}" for failure in report.failed], report.pending
    mode = Mode(memory.settings["search.mode"])
    asked = parse_query(query, now=datetime.now(), limit=hits_for(budget), mode=mode, filters=Filters())
    result = memory.answering.found(asked, tokens=None, fresh=Fresh.STRICT, generation=0)
    return [hit_passage(hit) for hit in result.hits], result.warnings, result.freshness.pending_text


def hits_for(budget: int) -> int:
    """Return how many hits to search for to fill a budget of tokens."""
    return min(MOST_HITS, max(LEAST_HITS, budget // TOKENS_A_HIT))


class _Gathered:
    """Notes read for one context, each once; `warnings` names those that could not be read."""

    def __init__(self, files: NoteFiles, reader: NoteReader) -> None:
        self._files = files
        self._reader = reader
        self._known: dict[NotePath, tuple[Note, list[Passage]] | None] = {}
        self.warnings: list[str] = []

    def passages(self, paths: Iterable[NotePath]) -> list[Passage]:
        gathered = (self.note(path) for path in paths)
        return [passage for pair in gathered if pair is not None for passage in pair[1]]

    def note(self, path: NotePath) -> tuple[Note, list[Passage]] | None:
        """Return a note as it is now, with its passages; None when it is gone or cannot be read."""
        if path not in self._known:
            self._known[path] = self._read(path)
        return self._known[path]

    def _read(self, path: NotePath) -> tuple[Note, list[Passage]] | None:
        try:
            content, _ = self._files.read(path)
            note, chunks = self._reader.read(path, content)
        except FileNotFoundError:
            return None
        except NoteError as error:  # its message names the note
            self.warnings.append(error.message)
            return None
        except ValueError as error:
            self.warnings.append(f"{path}: {error}")
            return None
        return note, passages_of(note, chunks)


def _day(text: str) -> date:
    day = parse_day(text, datetime.now()) if text else date.today()
    try:
        day_before(day)
    except OverflowError as error:
        raise UsageError(f"{text!r} has no day before it", hint="Write a later day.") from error
    return day
