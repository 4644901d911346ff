"""Compose the context that an agent reads before it answers, from the files as they are now."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from msgspec.structs import replace

from memsync.edit.daily_logs import daily_log_path
from memsync.edit.session_entries import entries_of_sessions
from memsync.errors import NoteError, UsageError
from memsync.features.context.assemble import CountTokens, Passage, PassageSource, assemble
from memsync.model.answer import Hit, holds
from memsync.model.context import Context
from memsync.model.note import Chunk, Note
from memsync.model.query import IndexedNote, SearchRequest
from memsync.model.text import count, duration
from memsync.model.vocabulary import Form, Kind, NotePath, Origin, in_root, may_instruct, told_origin, trust
from memsync.notes.conflict_marks import conflict_in
from memsync.notes.dates import parse_day
from memsync.notes.origin import origin_of
from memsync.operation import At, Cli, Command, Several, Tool, operation
from memsync.search.validity import Validity
from memsync.system import clock

if TYPE_CHECKING:
    from memsync.notes.files import NoteFiles
    from memsync.notes.parse import NoteReader
    from memsync.workspace import Workspace

SECTION = "Search"

MIN_HITS = 50
MAX_HITS = 500
TOKENS_PER_HIT = 20
"""Tokens of a log line with its citation; decides how many hits to search for."""
MAX_TOKENS = 2**53
DAY = 86_400
DEFAULT_TOKENS = 4_000
DEFAULT_PRIORITY = 100.0
"""The priority of a prompt whose front matter names none."""
_HEADING = re.compile(r"\s*(?:#{1,6}(?:[ \t][^\n]*)?|[^\n]+\n {0,3}(?:=+|-+))\s*")
SHARES = {"soul": 0.15, "prompts": 0.15, "memory": 0.2, "messages": 0.2, "session": 0.2, "logs": 0.1}
"""Shares of the budget: SOUL.md, prompts, lasting memory, the thread's last messages, logs. Hits get the rest."""


@operation(
    Command(
        "context",
        help="Print what an agent should read before it answers QUERY, within a budget of tokens (docs/agents.md).",
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
        "Return what to read before you begin to work: instructions, long-term memory, the last messages of a thread, "
        "the logs of today and yesterday, and the hits for a query. Use it once, at the beginning of a task for "
        "which nothing was recalled.",
        ("query", "thread", "budget"),
        {"thread": "The name of the thread that is being continued."},
    ),
    several=Several.QUERY,
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
        int, Meta(ge=1, le=MAX_TOKENS, description="Maximum number of tokens."), Cli(metavar="TOKENS")
    ] = DEFAULT_TOKENS,
    day: Annotated[
        str, Meta(description="Include the logs of this day and the day before. [default: today]"), Cli(metavar="DATE")
    ] = "",
    found: Annotated[
        tuple[Hit, ...], Meta(description="Hits of registered memories, shown after its own."), Cli(is_hidden=True)
    ] = (),
    public: Annotated[bool, Meta(description="Leave out local-only notes."), Cli(is_hidden=True)] = False,
    session: Annotated[
        str, Meta(description="Show the note of this session before the logs."), Cli(is_hidden=True)
    ] = "",
    ended: Annotated[str, Meta(description="When that session ended: ISO 8601."), Cli(is_hidden=True)] = "",
    at: At = "",
) -> Context:
    """Return what an agent should read before it answers, as one text within a budget of tokens.

    The order: SOUL.md, active prompts, the thread's prompt, long-term memory, the thread's last messages, the logs of
    `day` and the day before, the hits for `query`. Equal files,
    arguments and day give equal text. Raises NoThread.
    """
    today = _day(day)
    path = memory.existing_thread(thread) if thread else None
    own, warnings, pending = _hits(memory, query, budget, day)
    with memory.index.reading() as index:
        validity = Validity.of(index, memory.reader.usual_origin)
    gathered = _Gathered(memory.files, memory.reader, validity, today, is_public=public)
    foreign = [hit_passage(hit) for hit in found if hit.root]
    hits = _hit_passages(hit for hit in (*own, *found) if hit.holds and not (public and hit.local_only))
    sources = _sources(memory, gathered, path, today, hits)
    if session and ended:
        sources.insert(-2, _session_source(memory, gathered, session, ended))
    assembled = assemble(sources, budget, memory.reader.count_tokens)
    paths = {passage.path for part in assembled.parts for passage in part.passages}
    memory.usage.read(paths.difference(passage.path for passage in foreign))
    return replace(assembled, warnings=(*warnings, *gathered.warnings), pending_text=pending)


def _sources(
    memory: Workspace, gathered: _Gathered, thread: NotePath | None, today: date, hits: Sequence[Passage]
) -> list[PassageSource]:
    """Return the parts of a context in their order (docs/agents.md)."""
    with memory.index.reading() as reader:
        notes = [note for note in reader.notes() if not note.archived]
    kind_of, passages = memory.reader.rules.kind, gathered.passages
    # Only a note in the place that the settings name may instruct: its front matter alone does not make it a prompt.
    in_place = [note for note in notes if kind_of(note.path) is note.kind]
    soul = passages(note.path for note in in_place if note.kind is Kind.SOUL)
    prompts = passages(prompt_notes(in_place))
    conversation = gathered.note(thread) if thread else None
    instructs = conversation and kind_of(conversation[0].path) is Kind.THREAD
    own_prompt = thread_prompt(conversation[0], memory.reader.usual_origin) if conversation and instructs else []
    messages = message_passages(*conversation) if conversation else []
    logs = [passage for path in log_notes(notes, today) for passage in reversed(passages([path]))]
    least = trust(memory.reader.usual_origin)
    foreign = [passage for passage in (*soul, *prompts, *own_prompt) if trust(passage.origin) < least]
    soul, prompts, own_prompt = ([p for p in part if p not in foreign] for part in (soul, prompts, own_prompt))
    for path in dict.fromkeys(passage.path for passage in foreign):
        gathered.warnings.append(f"{path}: has text that is not the owner's, which does not instruct")
    lasting = [*foreign, *passages(memory_notes(notes))]
    return [
        PassageSource("soul", "Identity", SHARES["soul"], soul, is_quoted=False),
        PassageSource("prompts", "Instructions", SHARES["prompts"], prompts, is_quoted=False),
        PassageSource("thread_prompt", "Instructions of this conversation", 0, own_prompt, is_quoted=False),
        PassageSource("memory", "Lasting memory", SHARES["memory"], _own_first(lasting)),
        PassageSource("messages", "This conversation", SHARES["messages"], messages, is_unbroken=True),
        PassageSource("logs", "Today and yesterday", SHARES["logs"], _own_first(logs)),
        _hits_source(hits),
    ]


def _session_source(memory: Workspace, gathered: _Gathered, session: str, ended: str) -> PassageSource:
    """Return the note of a session, from the log of the day on which it ended."""
    moment = datetime.fromisoformat(ended).astimezone()
    path = daily_log_path(moment.date(), memory.files, memory.reader.rules)
    note = gathered.note(path)
    entries = entries_of_sessions("\n".join(note[0].lines)) if note else []
    said = [
        passage
        if (first, last) == (passage.start_line, passage.end_line)
        else passage._replace(start_line=first, end_line=last, text="\n".join(note[0].lines[first - 1 : last]))
        for entry in entries
        for passage in (gathered.passages([path]) if entry.session == session else ())
        if note and (first := max(passage.start_line, entry.first)) <= (last := min(passage.end_line, entry.last))
    ]
    seconds = (clock.utc() - moment).total_seconds()
    age = count(int(seconds // DAY), "day") if seconds >= 2 * DAY else duration(seconds // 60 * 60)
    title = f"The last session in this project, {age} ago"
    return PassageSource("session", title, SHARES["session"], said)


def _own_first(passages: Iterable[Passage]) -> list[Passage]:
    """Return passages with those of imports, tools and web pages last: however they are pinned, they displace none."""
    return sorted(passages, key=lambda passage: not may_instruct(passage.origin))


def _hits_source(hits: Sequence[Passage]) -> PassageSource:
    return PassageSource("hits", "Found in memory", 1, hits, in_rank_order=True)


def context_of_hits(hits: Sequence[Hit], budget: int, count: CountTokens) -> Context:
    """Return a context of hits alone: outside a memory root there is nothing else."""
    return assemble([_hits_source(_hit_passages(hits))], budget, count)


def _hits(memory: Workspace, query: str, budget: int, day: str) -> tuple[Sequence[Hit], Sequence[str], int]:
    """Return the hits (none without a query), warnings, and the number of changed files that are not searched yet."""
    if not query.strip():
        report = memory.fresh_search.compare()
        return [], [f"{failure.path}: {failure.reason}" for failure in report.failed], report.pending
    as_of = (("valid", day),) if day else ()
    parsed = memory.parse(SearchRequest(query, limit=hits_for(budget), filters=as_of))
    result = memory.fresh_search.answer_uncounted(parsed)
    return result.hits, result.warnings, result.freshness.pending_text


def hits_for(budget: int) -> int:
    """Return how many hits to search for to fill a budget of tokens."""
    return min(MAX_HITS, max(MIN_HITS, budget // TOKENS_PER_HIT))


class _Gathered:
    """Notes read for one context, each once; `warnings` names those that could not be read."""

    def __init__(
        self, files: NoteFiles, reader: NoteReader, validity: Validity, day: date, *, is_public: bool = False
    ) -> None:
        self._is_public = is_public
        self._validity, self._day = validity, day.isoformat()
        self._past: set[Passage] = set()
        self._files = files
        self._reader = reader
        self.note = cache(self._read)
        self.warnings: list[str] = []

    def passages(self, paths: Iterable[NotePath]) -> list[Passage]:
        """Return the passages of notes, without those that do not hold."""
        gathered = (self.note(path) for path in paths)
        return [passage for pair in gathered if pair is not None for passage in pair[1] if passage not in self._past]

    def _is_past(self, note: Note, chunk: Chunk) -> bool:
        """Tell whether nothing of a chunk holds; of a short list, the items that hold count."""
        texts = ("\n".join(note.lines[entry.start_line - 1 : entry.end_line]) for entry in chunk.entries)
        reasons = [
            self._validity.reason(note.path, entry, partial(str, text), self._day, chunk.origin)
            for entry, text in zip(chunk.entries, texts, strict=True)
        ]
        return chunk.form is not Form.WINDOW and not any(map(holds, reasons))

    def _read(self, path: NotePath) -> tuple[Note, list[Passage]] | None:
        """Return a note as it is now, with its passages; None if it is gone or cannot be read."""
        try:
            content, _ = self._files.read(path)
            note, chunks = self._reader.read(path, content)
            if self._is_public and note.local_only:
                return None
            self.warnings += conflict_in(path, note.lines)
            passages = passages_of(note, chunks)
            past = {(chunk.start_line, chunk.start_column) for chunk in chunks if self._is_past(note, chunk)}
            self._past.update(passage for passage in passages if (passage.start_line, passage.column) in past)
            return note, passages
        except FileNotFoundError:
            pass
        except NoteError as error:  # its message names the note
            self.warnings.append(error.message)
        except ValueError as error:
            self.warnings.append(f"{path}: {error}")
        return None


def _day(text: str) -> date:
    day = parse_day(text, clock.now()) if text else clock.today()
    if day == date.min:
        raise UsageError(f"{text!r} has no day before it", hint="Write a later day.")
    return day


# ----------------------------------------------------------------------- notes and passages of each part, pure


def passages_of(note: Note, chunks: Sequence[Chunk]) -> list[Passage]:
    """Return a note's body as the passages that searches retrieve, in the order of its lines.

    They cover the whole body except headings with no text under them: a heading belongs to the passage after it, and an
    overlong line is several passages.
    """
    body = [chunk for chunk in chunks if chunk.form is not Form.WINDOW and chunk.start_line > note.head_lines]
    paths = {chunk.heading_path for chunk in body if chunk.form is not Form.HEADING}
    filled = {path[:depth] for path in paths for depth in range(1, len(path) + 1)}
    shown = [chunk for chunk in body if chunk.form is not Form.HEADING or chunk.heading_path in filled]
    ordered = sorted(shown, key=lambda chunk: (chunk.start_line, chunk.start_column))
    return [
        Passage(
            note.path,
            chunk.start_line,
            chunk.end_line,
            _text(note, chunk),
            position,
            _remark(chunk.origin, chunk.role),
            chunk.start_column,
            chunk.origin,
        )
        for position, chunk in enumerate(ordered)
    ]


def _remark(origin: str, role: str) -> str:
    """Return ` (by codex)` for a citation; empty for the owner, and if the message's role tells it."""
    return f" ({by})" if (by := told_origin(origin, role)) else ""


def _text(note: Note, chunk: Chunk) -> str:
    if chunk.end_column:
        return note.lines[chunk.start_line - 1][chunk.start_column : chunk.end_column]
    return "\n".join(note.lines[chunk.start_line - 1 : chunk.end_line])


def thread_prompt(note: Note, usual_origin: str = Origin.OWNER) -> list[Passage]:
    """Return the system prompt in a thread's front matter as a passage that cites the front matter's lines."""
    prompt = note.front_matter.get("prompt")
    text = prompt.strip() if isinstance(prompt, str) else ""
    origin = origin_of(note.front_matter, "", (), usual_origin)
    return [Passage(note.path, 1, note.head_lines, text, remark=_remark(origin, ""), origin=origin)] if text else []


def message_passages(note: Note, passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages of a thread's messages, newest first."""
    starts = [message.start_line for message in note.messages]
    labelled = []
    for passage in passages:
        index = bisect_right(starts, passage.start_line) - 1
        if index >= 0:
            message = note.messages[index]
            is_first = passage.start_line == message.start_line
            speaker = f"{message.role} {message.time}".rstrip()
            labelled.append(passage._replace(remark=passage.remark + ("" if is_first else f" ({speaker}, continued)")))
    return labelled[::-1]


def _hit_passages(hits: Iterable[Hit]) -> list[Passage]:
    """Return hits as passages, without those that are nothing but a heading."""
    return [hit_passage(hit) for hit in hits if not _HEADING.fullmatch(hit.text)]


def hit_passage(hit: Hit) -> Passage:
    """Return a search hit as a passage."""
    remark = _remark(hit.origin, hit.role) + (f" ({f'{hit.role} {hit.date}'.rstrip()})" if hit.role else "")
    path = NotePath(in_root(hit.root, hit.path))
    return Passage(path, hit.start_line, hit.end_line, hit.text, remark=remark, origin=hit.origin)


def prompt_notes(notes: Iterable[IndexedNote]) -> list[NotePath]:
    """Return the active prompts among the notes, lowest priority first, then by path."""
    active = [note for note in notes if note.kind is Kind.PROMPT and note.front_matter.get("active", True) is not False]
    return [note.path for note in sorted(active, key=lambda note: (_priority(note), note.path))]


def memory_notes(notes: Sequence[IndexedNote]) -> list[NotePath]:
    """Return the notes of long-term memory: pinned notes by path, then those of the kind `memory`."""
    pinned = [note.path for note in notes if note.pinned]
    return [*pinned, *(note.path for note in notes if note.kind is Kind.MEMORY and not note.pinned)]


def log_notes(notes: Iterable[IndexedNote], today: date) -> list[NotePath]:
    """Return the logs of today and yesterday, newest first."""
    days = [today.isoformat(), (today - timedelta(days=1)).isoformat()]
    logs = [note for note in notes if note.kind is Kind.DAILY and note.date in days]
    return [note.path for note in sorted(logs, key=lambda note: (days.index(note.date), note.path))]


def _priority(note: IndexedNote) -> float:
    value = note.front_matter.get("priority", DEFAULT_PRIORITY)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else DEFAULT_PRIORITY
