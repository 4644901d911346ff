"""Select the notes and passages that a context may hold. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta

from memsync.features.context.parts import Passage
from memsync.model.answer import Hit
from memsync.model.note import Chunk, Note
from memsync.model.query import IndexedNote
from memsync.model.vocabulary import Kind, NotePath

KindOf = Callable[[NotePath], Kind]
"""Returns a note's kind by its path alone."""

FIRST_PRIORITY = 100.0
"""The priority of a prompt that names none."""


def passages_of(note: Note, chunks: Sequence[Chunk]) -> list[Passage]:
    """Return a note's body as the passages that searches retrieve, in the order of its lines.

    They cover the body: a heading belongs to the passage after it, and an overlong line is several passages.
    """
    single = [chunk for chunk in chunks if len(chunk.entries) == 1 and chunk.start_line > note.head_lines]
    ordered = sorted(single, key=lambda chunk: (chunk.start_line, chunk.start_column))
    return [
        Passage(note.path, chunk.start_line, chunk.end_line, _text(note, chunk), position, column=chunk.start_column)
        for position, chunk in enumerate(ordered)
    ]


def _text(note: Note, chunk: Chunk) -> str:
    if chunk.end_column:
        return note.lines[chunk.start_line - 1][chunk.start_column : chunk.end_column]
    return "\n".join(note.lines[chunk.start_line - 1 : chunk.end_line])


def thread_prompt(note: Note) -> list[Passage]:
    """Return the system prompt in a thread's front matter as a passage that cites the front matter's lines."""
    prompt = note.front_matter.get("prompt")
    text = prompt.strip() if isinstance(prompt, str) else ""
    return [Passage(note.path, 1, note.head_lines, text)] if text else []


def message_passages(note: Note, passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages of a thread's messages, newest first."""
    begins = [message.start_line for message in note.messages]
    labelled = []
    for passage in passages:
        at = bisect_right(begins, passage.start_line) - 1
        if at >= 0:
            message = note.messages[at]
            is_whole = passage.start_line == message.start_line
            speaker = f"{message.role} {message.time}".rstrip()
            labelled.append(passage._replace(about="" if is_whole else f" ({speaker}, continued)"))
    return labelled[::-1]


def hit_passage(hit: Hit) -> Passage:
    """Return a search hit as a passage."""
    speaks = hit.role and not hit.text.startswith("## ")
    about = f" ({hit.role} {hit.date}, continued)" if speaks else ""
    return Passage(hit.path, hit.start_line, hit.end_line, hit.text, about=about)


def identity_notes(notes: Iterable[IndexedNote], kind_of: KindOf) -> list[NotePath]:
    """Return the notes that say who the agent is, by path.

    Counts only notes in the place that the settings name: front matter alone does not make a note an instruction.
    """
    return [note.path for note in notes if _is_both(note, Kind.SOUL, kind_of)]


def prompt_notes(notes: Iterable[IndexedNote], kind_of: KindOf) -> list[NotePath]:
    """Return the active prompts in the place that the settings name, lowest priority first, then by path."""
    active = [
        note
        for note in notes
        if _is_both(note, Kind.PROMPT, kind_of) and note.front_matter.get("active", True) is not False
    ]
    return [note.path for note in sorted(active, key=lambda note: (_priority(note), note.path))]


def memory_notes(notes: Iterable[IndexedNote]) -> list[NotePath]:
    """Return the notes of long-term memory: pinned notes by path, then those of the kind `memory`."""
    kept = [note for note in notes if not note.archived]
    pinned = [note.path for note in kept if note.pinned]
    return [*pinned, *(note.path for note in kept if note.kind is Kind.MEMORY and not note.pinned)]


def day_before(day: date) -> date:
    """Return the day before. Raises OverflowError for the earliest possible date."""
    return day - timedelta(days=1)


def log_notes(notes: Iterable[IndexedNote], today: date) -> list[NotePath]:
    """Return the logs of today and yesterday, newest first."""
    days = [today.isoformat(), day_before(today).isoformat()]
    logs = [note for note in notes if note.kind is Kind.DAILY and not note.archived and note.date in days]
    return [note.path for note in sorted(logs, key=lambda note: (days.index(note.date), note.path))]


def _is_both(note: IndexedNote, kind: Kind, kind_of: KindOf) -> bool:
    return not note.archived and note.kind is kind and kind_of(note.path) is kind


def _priority(note: IndexedNote) -> float:
    value = note.front_matter.get("priority", FIRST_PRIORITY)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else FIRST_PRIORITY
