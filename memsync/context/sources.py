"""Notes -> the passages that a context may hold of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta

from memsync.context.parts import Passage
from memsync.model import Chunk, Hit, IndexedNote, Kind, Note, NotePath

FIRST_PRIORITY = 100.0
"""Of a prompt that names none."""


def passages_of(note: Note, chunks: Sequence[Chunk]) -> list[Passage]:
    """Return a note's body as the passages that are retrieved, in the order of its lines.

    They cover it: a heading stands with what follows it, and a line that is too long for one is several.
    """
    single = [chunk for chunk in chunks if len(chunk.entries) == 1 and chunk.start_line > note.head_lines]
    ordered = sorted(single, key=lambda chunk: (chunk.start_line, chunk.start_column))
    return [
        Passage(note.path, chunk.start_line, chunk.end_line, _text(note, chunk), position)
        for position, chunk in enumerate(ordered)
    ]


def _text(note: Note, chunk: Chunk) -> str:
    if chunk.end_column:
        return note.lines[chunk.start_line - 1][chunk.start_column : chunk.end_column]
    return "\n".join(note.lines[chunk.start_line - 1 : chunk.end_line])


def thread_prompt(note: Note) -> list[Passage]:
    """Return the system prompt that a thread's front matter gives it, as lines of the head that holds it."""
    prompt = note.front_matter.get("prompt")
    text = prompt.strip() if isinstance(prompt, str) else ""
    return [Passage(note.path, 1, note.head_lines, text)] if text else []


def message_passages(note: Note, passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages of a thread's messages, the newest first."""
    first = note.messages[0].start_line if note.messages else len(note.lines) + 1
    return [passage for passage in reversed(passages) if passage.start_line >= first]


def hit_passage(hit: Hit) -> Passage:
    """Return what a search found as a passage."""
    return Passage(hit.path, hit.start_line, hit.end_line, hit.text)


def identity_notes(notes: Iterable[IndexedNote]) -> list[NotePath]:
    """Return the notes that say who the agent is, by path."""
    return [note.path for note in notes if note.kind is Kind.SOUL and not note.archived]


def prompt_notes(notes: Iterable[IndexedNote]) -> list[NotePath]:
    """Return the active prompts, the lowest priority first, then by path."""
    active = [
        note
        for note in notes
        if note.kind is Kind.PROMPT and not note.archived and note.front_matter.get("active", True) is not False
    ]
    return [note.path for note in sorted(active, key=lambda note: (_priority(note), note.path))]


def memory_notes(notes: Iterable[IndexedNote]) -> list[NotePath]:
    """Return what lasts: pinned notes by path, then those of the kind `memory`."""
    instructs = (Kind.SOUL, Kind.PROMPT)
    kept = [note for note in notes if not note.archived and note.kind not in instructs]
    pinned = [note.path for note in kept if note.pinned]
    return [*pinned, *(note.path for note in kept if note.kind is Kind.MEMORY and not note.pinned)]


def log_notes(notes: Iterable[IndexedNote], today: date) -> list[NotePath]:
    """Return the logs of today and yesterday, the newest first."""
    days = [today.isoformat(), (today - timedelta(days=1)).isoformat()]
    logs = [note for note in notes if note.kind is Kind.DAILY and not note.archived and note.date in days]
    return [note.path for note in sorted(logs, key=lambda note: (days.index(note.date), note.path))]


def _priority(note: IndexedNote) -> float:
    value = note.front_matter.get("priority", FIRST_PRIORITY)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else FIRST_PRIORITY
