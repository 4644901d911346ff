"""Questions with known answers: read from JSON Lines, or made from the headings of notes. Pure."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec
from msgspec import Struct

from memsync.errors import UsageError
from memsync.features.evaluation.measures import Range
from memsync.model.note import Note
from memsync.model.vocabulary import NotePath
from memsync.notes.naming import folded
from memsync.search.stop_words import STOP_WORDS

MIN_WORDS = 2
"""A heading with fewer content words does not make a question."""

_PLACE = re.compile(r"(?P<path>.+?)(?::(?P<first>[1-9]\d{0,8})(?:-(?P<last>[1-9]\d{0,8}))?)?")
_EXAMPLE = 'Example: {"question": "which store did we choose", "answers": ["decisions/store.md:3-9"]}'
_WORD = re.compile(r"[^\W\d_]{2,}")
_SYNTAX = re.compile(r"[\"“”„:`*_|>\[\]]|(?<!\w)-+")
"""Characters to remove from a generated question: those with a meaning in a query, and Markdown syntax."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and places that each answer it; without any, the memory cannot answer it.

    `source` says where it is from, for messages. The search leaves out the note `without`.
    """

    text: str
    answers: tuple[Range, ...]
    source: str
    without: str = ""


# ------------------------------------------------------------------------------------------- from a file


class _Row(Struct):
    """One line of a file."""

    question: str
    answers: list[str]


def read_questions(content: bytes, name: str, known: Iterable[NotePath]) -> list[Question]:
    """Return the questions of a file of JSON Lines; `known` are the paths of all notes. Raises UsageError.

    A line is an object with `question` and `answers`: a list of `PATH`, `PATH:LINE` or `PATH:FIRST-LAST`.
    """
    notes = frozenset[str](known)
    lines = enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1)
    questions = [_read(line, f"{name} line {number}", notes) for number, line in lines if line.strip()]
    if not questions:
        raise UsageError(f"{name} holds no questions", hint=_EXAMPLE)
    return questions


def _read(line: bytes, source: str, notes: frozenset[str]) -> Question:
    try:
        row = msgspec.json.decode(line, type=_Row)
        answers = tuple(map(_place, row.answers))
        if not row.question.strip():
            raise ValueError("it is empty")
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise UsageError(f"{source}: this is not a question: {error}", hint=_EXAMPLE) from None
    for path, _, _ in answers:
        if path not in notes:
            raise UsageError(f"{source}: there is no note {path!r}", hint="Name notes as search results do.")
    return Question(row.question, answers, source)


def _place(text: str) -> Range:
    match = _PLACE.fullmatch(text)
    first, last = (int(match["first"] or 1), int(match["last"] or match["first"] or sys.maxsize)) if match else (1, 0)
    if match is None or first > last:
        raise ValueError("an answer is PATH, PATH:LINE or PATH:FIRST-LAST")
    return match["path"].removeprefix("./"), first, last


# ----------------------------------------------------------------------------------------- from headings


def questions_of(notes: Iterable[Note], limit: int) -> list[Question]:
    """Return at most `limit` questions made of headings; equal notes give equal questions in equal order.

    A heading with at least two content words that only one section has asks for that section and its subsections.
    """
    sections: dict[str, list[Question]] = {}
    for note in notes:
        for number, section in enumerate(note.sections):
            has_text = any(line.strip() for line in note.lines[section.start_line : section.end_line])
            if section.heading_path and not section.role and has_text:
                heading = section.heading_path[-1]
                place = (note.path, section.start_line, _last_line(note, number))
                question = Question(_asked(heading), (place,), f"heading at {place[0]}:{place[1]}")
                sections.setdefault(folded(heading), []).append(question)
    questions = [same[0] for same in sections.values() if len(same) == 1 and _is_telling(same[0])]
    # The order is pseudo-random, and depends only on the content.
    questions.sort(key=lambda q: hashlib.sha256(f"{q.text}\0{q.answers}".encode("utf-8", "replace")).digest())
    return questions[:limit]


def without_answers(question: Question) -> Question:
    """Return the same question without the note that answers it: it has no answer."""
    return replace(question, answers=(), without=question.answers[0][0])


def paths_besides(path: str) -> tuple[str, ...]:
    """Return globs that together match every path except this one: one differs at a character, is shorter or longer."""
    literal = [f"[{char}]" if char in "*?[" else char for char in path]
    starts = ["".join(literal[:size]) for size in range(len(path))]
    different = [f"{start}[^{char}]*" for start, char in zip(starts, path, strict=True)]
    return (*different, *starts[1:], "".join(literal) + "?*")


def _is_telling(question: Question) -> bool:
    return len({word.lower() for word in _WORD.findall(question.text)} - STOP_WORDS) >= MIN_WORDS


def _asked(text: str) -> str:
    return " ".join(_SYNTAX.sub(" ", text).split())


def _last_line(note: Note, number: int) -> int:
    """Return the last line of a section and its subsections."""
    level = note.sections[number].level
    last = note.sections[number].end_line
    for section in note.sections[number + 1 :]:
        if section.level <= level:
            break
        last = section.end_line
    return last
