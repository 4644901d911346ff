"""A context for one memory root: what its files say now, gathered, and assembled under a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime

from memsync.answering import Answering
from memsync.context.assemble import assemble
from memsync.context.parts import Passage, Source
from memsync.context.sources import (
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
from memsync.errors import NoteError, UsageError
from memsync.model import Context, Filters, Fresh, Kind, Mode, Note, NotePath
from memsync.notes.files import NoteFiles
from memsync.notes.reader import NoteReader
from memsync.notes.when import parse_day
from memsync.ports import Index
from memsync.search.query_syntax import parse_query
from memsync.settings import Settings
from memsync.usage import Usage

LEAST_HITS = 50
TOKENS_A_HIT = 20
"""As many hits are looked for as may fit; a log line with its citation takes about so many word pieces."""
MOST_HITS = 500
SHARES = ("soul", "prompts", "memory", "messages", "logs")


class Composer:
    """Composes contexts from the files of one memory root as they are."""

    def __init__(
        self,
        settings: Settings,
        files: NoteFiles,
        reader: NoteReader,
        index: Index,
        answering: Answering,
        usage: Usage,
        thread_path: Callable[[str], NotePath],
    ) -> None:
        """`thread_path` returns the path of a thread that is there by its name, or raises NoteError."""
        self._settings = settings
        self._files = files
        self._reader = reader
        self._index = index
        self._answering = answering
        self._usage = usage
        self._thread_path = thread_path

    def context(self, query: str, thread: str, budget: int, day: str) -> Context:
        """See Calls.context."""
        if budget < 0:
            raise UsageError(f"budget {budget} is not at least 1", hint="Name the word pieces that there is room for.")
        budget = budget or self._settings["context.budget"]
        today = _day(day)
        path = self._thread_path(thread) if thread else None
        hits, warnings, pending = self._hits(query, budget)
        gathered = _Gathered(self._files, self._reader)
        found = assemble(self._sources(gathered, path, today, hits), budget, self._reader.count_tokens)
        self._usage.read(passage.path for part in found.parts for passage in part.passages)
        return replace(found, warnings=(*warnings, *gathered.warnings), pending_text=pending)

    def _sources(
        self, gathered: _Gathered, thread: NotePath | None, today: date, hits: Sequence[Passage]
    ) -> Sequence[Source]:
        """Return the parts of a context in their order (docs/context.md)."""
        with self._index.reading() as reader:
            notes = reader.notes()
        kind_of, passages = self._reader.rules.kind, gathered.passages
        share = {name: self._settings[f"context.{name}"] for name in SHARES}
        soul, prompts = passages(identity_notes(notes, kind_of)), passages(prompt_notes(notes, kind_of))
        conversation = gathered.note(thread) if thread else None
        instructs = conversation and kind_of(conversation[0].path) is Kind.THREAD  # as with prompts, by its place
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

    def _hits(self, query: str, budget: int) -> tuple[list[Passage], Sequence[str], int]:
        """Return what is found (nothing without a query), warnings, and how many changed files are not in it."""
        if not query.strip():
            report = self._answering.compare()
            return [], [f"{one.path}: {one.reason}" for one in report.failed], report.pending
        mode = Mode(self._settings["search.mode"])
        asked = parse_query(query, now=datetime.now(), limit=hits_for(budget), mode=mode, filters=Filters())
        result = self._answering.found(asked, tokens=None, fresh=Fresh.STRICT, generation=0)
        return [hit_passage(hit) for hit in result.hits], result.warnings, result.freshness.pending_text


def hits_for(budget: int) -> int:
    """Return how many hits are looked for to fill so many word pieces."""
    return min(MOST_HITS, max(LEAST_HITS, budget // TOKENS_A_HIT))


class _Gathered:
    """Notes read for one context, each once; `warnings` tells which could not be."""

    def __init__(self, files: NoteFiles, reader: NoteReader) -> None:
        self._files = files
        self._reader = reader
        self._known: dict[NotePath, tuple[Note, list[Passage]] | None] = {}
        self.warnings: list[str] = []

    def passages(self, paths: Iterable[NotePath]) -> list[Passage]:
        found = (self.note(path) for path in paths)
        return [passage for one in found if one is not None for passage in one[1]]

    def note(self, path: NotePath) -> tuple[Note, list[Passage]] | None:
        """Return a note as it is now, with its passages; None when it has gone or cannot be read."""
        if path not in self._known:
            self._known[path] = self._read(path)
        return self._known[path]

    def _read(self, path: NotePath) -> tuple[Note, list[Passage]] | None:
        try:
            content, _ = self._files.read(path)
            note, chunks = self._reader.read(path, content)
        except FileNotFoundError:
            return None
        except NoteError as error:  # it names the note
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
        raise UsageError(f"{text!r} is the first day there is", hint="Write a later one.") from error
    return day
