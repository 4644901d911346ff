"""Questions with known answers: read from JSON Lines, or made from the headings and links of notes. Pure."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import Any

import msgspec

from memsync.errors import UsageError
from memsync.features.evaluation.measures import Range
from memsync.model.note import Block, Link, Note
from memsync.model.vocabulary import NotePath
from memsync.search.stop_words import STOP_WORDS

MIN_HEADING_WORDS = 2
"""A heading with fewer content words does not make a question."""
MIN_SENTENCE_WORDS = 3
"""The same for a sentence around a link: "see the motivation" could mean any motivation."""
MAX_MISSING = 20
"""How many notes may be left out to make a question unanswerable."""
MAX_CHARS = 300
"""A longer sentence is probably a paragraph without full stops, about several things."""

_PLACE = re.compile(r"(?P<path>.+?)(?::(?P<first>[1-9]\d{0,8})(?:-(?P<last>[1-9]\d{0,8}))?)?")
_EXAMPLE = 'Example: {"question": "which store did we choose", "answers": ["decisions/store.md:3-9"]}'
_WORD = re.compile(r"[^\W\d_]{2,}")
_WIKI_LINK = re.compile(r"!?\[\[([^\[\]|\n]*)(?:\|([^\[\]\n]*))?\]\]")
_MARKDOWN_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)|\[[^\[\]\n]*\])")
_BLOCK_MARKS = re.compile(r"^\s*(?:(?:[-*+>]|#{1,6}|\d{1,9}[.)])\s+)*(?:\[[ xX]\]\s+)?", re.MULTILINE)
_SYNTAX = re.compile(r"[\"“”„:`*_|>\[\]]|(?<!\w)-+")
"""Characters to remove from a generated question: those with a meaning in a query, and Markdown syntax."""
_TAG = re.compile(r"(?<![^\s(])#[^\W\d_][\w/-]*")
_PATH = re.compile(r"[\w./-]+[/-][\w.-]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and places that each answer it; without any, the memory cannot answer it.

    `source` says where it is from, for messages. The search leaves out the notes in `without`. `mentions` are the
    notes that link to a note with the answer.
    """

    text: str
    answers: tuple[Range, ...]
    source: str
    without: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()


# ------------------------------------------------------------------------------------------- from a file


def read_questions(content: bytes, name: str, known: Iterable[NotePath]) -> list[Question]:
    """Return the questions of a file of JSON Lines; `known` are the paths of all notes. Raises UsageError.

    A line is an object with `question` and `answers`: a list of `PATH`, `PATH:LINE` or `PATH:FIRST-LAST`. Instead of
    `answers` it may have `relevant`, a list of [PATH, FIRST, LAST], or `any_of`, a list of lists of [PATH, LINE].
    """
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name} line {line}: this is not UTF-8", hint="Save the file as UTF-8.") from None
    notes = frozenset[str](known)
    questions = [_read(line, f"{name} line {number}", notes) for number, line in enumerate(lines, 1) if line.strip()]
    if not questions:
        raise UsageError(f"{name} holds no questions", hint=_EXAMPLE)
    return questions


def _read(line: str, source: str, notes: frozenset[str]) -> Question:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise UsageError(f"{source}: this is not a JSON object", hint=_EXAMPLE)
    text = row.get("question")
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f'{source}: "question" must be text', hint=_EXAMPLE)
    keys = [name for name in _SHAPES if name in row]
    if not keys:
        raise UsageError(f'{source}: the question has no list of answers: "answers" is missing', hint=_EXAMPLE)
    if len(keys) > 1:
        both = " and ".join(f'"{name}"' for name in keys)
        raise UsageError(f"{source}: the question has {both}; give only one list of answers", hint=_EXAMPLE)
    kind, ranges_of, shape = _SHAPES[keys[0]]
    try:
        answers = tuple(_checked(place) for place in ranges_of(msgspec.convert(row[keys[0]], kind)))
    except ValueError:  # also the ValidationError of msgspec
        raise UsageError(f'{source}: "{keys[0]}" must be {shape}', hint=_EXAMPLE) from None
    for path, _, _ in answers:
        if path not in notes:
            raise UsageError(f"{source}: there is no note {path!r}", hint="Name notes as search results do.")
    return Question(text, answers, source)


def _places(texts: Iterable[str]) -> Iterator[Range]:
    for text in texts:
        match = _PLACE.fullmatch(text)
        if match is None:
            raise ValueError
        yield match["path"], int(match["first"] or 1), int(match["last"] or match["first"] or sys.maxsize)


def _checked(place: Range) -> Range:
    path, first, last = place
    if not 1 <= first <= last:
        raise ValueError
    return path.removeprefix("./"), first, last


# The key of the answers -> its type, what makes ranges of it, and the shape that a message names.
_SHAPES: Mapping[str, tuple[Any, Callable[[Any], Iterable[Range]], str]] = {
    "answers": (list[str], _places, "a list of PATH, PATH:LINE or PATH:FIRST-LAST"),
    "relevant": (list[Range], iter, "a list of [PATH, FIRST, LAST]"),
    "any_of": (
        list[list[tuple[str, int]]],
        lambda groups: ((path, line, line) for group in groups for path, line in group),
        "a list of lists of [PATH, LINE]",
    ),
}


# ----------------------------------------------------------------------------------- from headings and links


@dataclass(frozen=True, slots=True)
class _Mention:
    """A link, and the sentence around it."""

    note: NotePath
    link: Link
    sentence: str


@dataclass(slots=True)
class Vault:
    """Gathers questions from the headings and links of notes, one note at a time.

    A heading with at least two content words that only one section has asks for that section and its subsections. A
    sentence around a link asks for the linked note; the search leaves out the note with the sentence, because that
    would always be the first hit.
    """

    _headings: dict[str, list[tuple[str, Range]]] = field(default_factory=dict)
    _mentions: list[_Mention] = field(default_factory=list)
    _names: dict[str, set[NotePath]] = field(default_factory=dict)
    _paths: set[NotePath] = field(default_factory=set)

    def add(self, note: Note) -> None:
        """Gather a note's headings and links, and the names that links may use for it."""
        self._paths.add(note.path)
        file_name = note.path.rpartition("/")[2]
        for name in (note.path, note.path.rpartition(".")[0], file_name.rpartition(".")[0], note.title, *note.aliases):
            self._names.setdefault(_folded(name), set()).add(note.path)
        for number, section in enumerate(note.sections):
            if section.heading_path and not section.role:
                heading = section.heading_path[-1]
                place = (note.path, section.start_line, _last_line(note, number))
                if any(line.strip() for line in note.lines[section.start_line : section.end_line]):
                    self._headings.setdefault(_folded(heading), []).append((heading, place))
        self._mentions += (_Mention(note.path, link, _sentence(note, link)) for link in note.links)

    def questions(self, limit: int) -> list[Question]:
        """Return at most `limit` questions, of both kinds in turn; equal notes give equal questions in equal order."""
        targets = [(mention, target) for mention in self._mentions if (target := self._target(mention))]
        linking: dict[str, set[str]] = {}
        for mention, target in targets:
            linking.setdefault(target, set()).add(mention.note)
        mentions = {target: tuple(sorted(notes - {target})) for target, notes in linking.items()}
        headings = [
            Question(_asked(text), (place,), f"heading at {place[0]}:{place[1]}", (), mentions.get(place[0], ()))
            for same in self._headings.values()
            if len(same) == 1
            for text, place in same
        ]
        links = [
            Question(
                _asked(mention.sentence),
                ((target, 1, sys.maxsize),),
                f"link at {mention.note}:{mention.link.line}",
                (mention.note,),
                mentions[target],
            )
            for mention, target in targets
            if target != mention.note
        ]
        in_turn = zip_longest(_drawn(headings, MIN_HEADING_WORDS), _drawn(_of_one_target(links), MIN_SENTENCE_WORDS))
        return [question for pair in in_turn for question in pair if question is not None][:limit]

    def _target(self, mention: _Mention) -> NotePath | None:
        """Return the note that a link leads to; None if there is no such note or there are several."""
        link = mention.link
        if link.wiki:
            notes = self._names.get(_folded(link.target), set())
            return next(iter(notes)) if len(notes) == 1 else None
        if not link.target or link.target.startswith("/") or "://" in link.target:
            return None
        path = posixpath.normpath(posixpath.join(posixpath.dirname(mention.note), link.target))
        return next((NotePath(name) for name in (path, f"{path}.md") if name in self._paths), None)


def without_answers(question: Question) -> Question | None:
    """Return the same question without the notes that answer it and those that link to them: it has no answer.

    None if these are more than MAX_MISSING notes: the rest would be too different a memory.
    """
    missing = {*question.without, *question.mentions, *(path for path, _, _ in question.answers)}
    if len(missing) > MAX_MISSING:
        return None
    return replace(question, answers=(), without=tuple(sorted(missing)))


def paths_besides(names: Sequence[str]) -> tuple[str, ...]:
    """Return globs that together match every path except these.

    They cover every path that differs from each of these at some character, or is shorter or longer than one of them.
    """
    if not names:
        return ()
    excluded = set(names)
    prefixes = sorted({name[:size] for name in excluded for size in range(len(name) + 1)})
    globs = []
    for prefix in prefixes:
        following = {name[len(prefix)] for name in excluded if name.startswith(prefix) and len(name) > len(prefix)}
        start = "".join(f"[{char}]" if char in "*?[" else char for char in prefix)
        globs.append(f"{start}{_any_but(following)}*")
        if prefix and prefix not in excluded:
            globs.append(start)
    return tuple(globs)


def _any_but(characters: set[str]) -> str:
    """Return a glob for one character that is not among these; `]` must come first in it, and `-` last."""
    if not characters:
        return "?"
    inner = "".join(sorted(characters - {"]", "-"}))
    return f"[^{']' if ']' in characters else ''}{inner}{'-' if '-' in characters else ''}]"


def _of_one_target(questions: Iterable[Question]) -> list[Question]:
    """Return the questions whose text asks for only one note."""
    by_text = dict[str, list[Question]]()
    for question in questions:
        by_text.setdefault(_folded(question.text), []).append(question)
    return [same[0] for same in by_text.values() if len({question.answers for question in same}) == 1]


def _drawn(questions: Iterable[Question], min_words: int) -> list[Question]:
    """Return the questions with enough content words, in a pseudo-random order that depends only on their content."""
    telling = [
        question
        for question in questions
        if len(question.text) <= MAX_CHARS
        and len({word.lower() for word in _WORD.findall(question.text)} - STOP_WORDS) >= min_words
    ]
    return sorted(telling, key=lambda q: hashlib.sha256(f"{q.text}\0{q.answers}".encode("utf-8", "replace")).digest())


def _asked(text: str) -> str:
    return " ".join(_SYNTAX.sub(" ", text).split())


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def _last_line(note: Note, number: int) -> int:
    """Return the last line of a section and its subsections."""
    level = note.sections[number].level
    last = note.sections[number].end_line
    for section in note.sections[number + 1 :]:
        if section.level <= level:
            break
        last = section.end_line
    return last


def _sentence(note: Note, link: Link) -> str:
    """Return the sentence around a link as a reader sees it; empty if it does not contain the link's label."""
    block: Block | None = None
    blocks: Iterable[Block] = chain.from_iterable(note.blocks)
    while inner := next((child for child in blocks if child.start_line <= link.line <= child.end_line), None):
        block, blocks = inner, inner.children
    if block is None:
        return ""
    text = _BLOCK_MARKS.sub("", "\n".join(note.lines[block.start_line - 1 : block.end_line]))
    text = _TAG.sub(" ", text)
    text = _WIKI_LINK.sub(lambda match: _label(match[2] or match[1]), text)
    text = " ".join(_MARKDOWN_LINK.sub(lambda match: match[1], text).split())
    label = _label(link.label) if link.wiki else link.label
    return next((sentence for sentence in _SENTENCE_END.split(text) if label and label in sentence), "")


def _label(text: str) -> str:
    """Return what a reader sees of a wiki link; for a path, its last part with spaces for hyphens."""
    text = text.strip()
    return text.rpartition("/")[2].replace("-", " ") if _PATH.fullmatch(text) else text
