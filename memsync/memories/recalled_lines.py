"""Turns hits into the lines that a prompt may recall, each with its own probability.

A hit of several list items or one-line paragraphs becomes the one that answers, because the vector of all of them says
little about each. Of a conversation, a question is recalled with the answer that followed it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from memsync.agents.project import facts_of
from memsync.memories.prompt_words import PromptWords, families_of, stems_of
from memsync.model.answer import Hit
from memsync.model.note import Message
from memsync.model.vocabulary import Kind, Origin, is_remembered
from memsync.notes.decode import split_lines
from memsync.notes.entry_text import ITEM_MARKER, as_read, said
from memsync.notes.message_format import find_headings, messages_in
from memsync.notes.origin import BY, origin_of
from memsync.search.snippet import make_snippet

MAX_ENTRY_CHARS = 400
MAX_ANSWER_CHARS, MAX_ASKED_CHARS = 400, 60
MAX_READ = 40
"""How many entries of one hit, or lines of one answer, are compared with the prompt."""
WORDS = 0.3
"""Of two entries, the one with all words of the prompt may be so much less alike."""
ALIKE, CHANCE = 8.0, 0.05
"""What an entry's cosine above that of its hit adds to the logit, less what the best of so many has by chance."""
LAST = 0.12
"""What a line of the last answer before the next question may be less alike."""
NEXT = 0.3
"""What the second best entry of a hit has less, and three times what it is less alike."""
REMEMBERED, SHORT, PASSAGE, ONLY_WORK = 0.27, 0.15, -0.5, -1.0
"""What is added to the logit of an entry of a log or list of facts, of another entry, of a passage of several lines,
and if the prompt has no telling words (docs/measuring.md)."""
IN_TALK, USUAL_COSINE = 8.0, 0.45
"""What a cosine above the usual one of an answer adds to the logit of a line of a conversation: its probability is also
that of the lines around it."""
TRIGGERED = 0.5
"""The same for a rule whose condition has a word of a task."""
NO_WORD = -1.0
"""The same for a line that shares no word with a task: tasks have many words, and of some of them it reminds."""
LONE = -0.8
"""The same for a line of a conversation if the prompt has only one telling word."""
SAME = 0.8
"""A message with this share of the prompt's words, and it of its words, says the same."""
_RULE = re.compile(
    r"\b(?:before|after|when(?:ever)?|if|unless|until|never|always|must|needs?|do not|don't|only|without|no|nothing"
    r"|each|every|vor|nach|wenn|bevor|nie|niemals|immer|muss|müssen|nur|keine?|ohne|jede[rsnm]?)\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[,:;.]\s|\s[–—-]\s")
_HEADING = re.compile(r"#{1,6}\s+(.*)")

Nearness = Callable[[Sequence[str]], Sequence[float]]
"""Returns the cosine of each text to the prompt; nothing without a model."""


class Line(NamedTuple):
    """What may be recalled: a hit with its own probability, and the question of a conversation that it answers."""

    hit: Hit
    asked: str = ""
    held: str = ""


class _Entry(NamedTuple):
    line: int
    text: str
    heading: str


def lines_of(
    hits: Sequence[Hit], prompt: PromptWords, near: Nearness, folders: Mapping[str, str], *, is_foreign: bool = False
) -> list[Line]:
    """Return what the hits say, the most probable first. `folders` has the folder of each memory by its name.

    If the prompt is foreign to the model, only lines with one of its words, or of the beginnings of them, are not held.
    """
    turns = _Turns(prompt, near, folders)
    lines = [line for hit in hits for line in (turns.line(hit) if hit.role else _entries_of(hit, prompt, near))]
    if is_foreign:
        held = "has no word of a prompt that the model does not know"
        lines = [
            line if _common(prompt.telling, f"{line.asked} {line.hit.text}") else line._replace(held=line.held or held)
            for line in lines
        ]
    return sorted(lines, key=lambda line: -line.hit.score)


def _common(stems: Iterable[str], text: str) -> int:
    """Return how many families of words a text has of these."""
    return len(families_of(stems) & families_of(stems_of(text)))


def _shifted(hit: Hit, by: float) -> Hit:
    chance = min(max(hit.score, 1e-6), 1 - 1e-6)
    return replace(hit, score=1.0 / (1.0 + math.exp(-by) * (1.0 - chance) / chance))


# ---------------------------------------------------------------------------------------------- entries


def _entries_of(hit: Hit, prompt: PromptWords, near: Nearness) -> Iterator[Line]:
    """Yield the best two entries of a hit; the hit itself if its lines do not stand for themselves."""
    entries = _standing(hit) if not hit.validity and hit.text[:3] != "---" else []
    if not entries:
        yield _weighed(hit, hit.text, prompt, PASSAGE if "\n" in hit.text else 0.0)
        return
    kept = entries[:MAX_READ]
    cosines = near([entry.text for entry in kept]) if len(kept) > 1 else ()
    own = hit.ranks["vector"].score if "vector" in hit.ranks else 1.0
    scores = [cosine + WORDS * _share(prompt, entry) for entry, cosine in zip(kept, cosines or [own], strict=False)]
    order = sorted(range(len(scores)), key=lambda number: -scores[number])
    kind = REMEMBERED if is_remembered(hit.kind, hit.tier) else SHORT
    for place, number in enumerate(order[:2]):
        entry, by = kept[number], kind
        if place:
            by -= NEXT + 3.0 * (scores[order[0]] - scores[number])
        elif cosines:
            by += ALIKE * max(0.0, cosines[number] - own - CHANCE * math.log(len(kept)))
        line = hit.start_line + entry.line
        text = f"{entry.heading}: {entry.text}" if entry.heading else entry.text
        narrow = replace(hit, start_line=line, end_line=line, text=text, snippet=text) if len(kept) > 1 else hit
        yield _weighed(narrow, entry.text, prompt, by)


def _weighed(hit: Hit, text: str, prompt: PromptWords, by: float) -> Line:
    """Return a hit with its probability, after what its text has of the prompt was weighed, too."""
    clause = _CLAUSE_END.split(f"{text} ", maxsplit=1)[0]
    is_rule = hit.kind != Kind.DAILY and "\n" not in text and _RULE.search(text) is not None
    if prompt.is_task and is_rule and _common(prompt.deeds, clause):
        by += TRIGGERED
    elif not prompt.telling and not prompt.names:
        by += ONLY_WORK
    elif prompt.is_task and not _common(prompt.words, text):
        by += NO_WORD
    return Line(_shifted(hit, by), held=_lacks_names(prompt, text))


def _lacks_names(prompt: PromptWords, text: str) -> str:
    is_named = not prompt.names or prompt.telling or any(name in text for name in prompt.names)
    return "" if is_named else "has no name of what was pasted"


def _share(prompt: PromptWords, entry: _Entry) -> float:
    return len(prompt.words & stems_of(f"{entry.heading} {entry.text}")) / max(1, len(prompt.words))


def _standing(hit: Hit) -> list[_Entry]:
    """Return the list items, table rows and one-line paragraphs of a hit; nothing if it has other lines, too."""
    entries, before, heading = list[_Entry](), "", ""
    for number, line in enumerate(hit.text.split("\n")):
        is_item = ITEM_MARKER.match(line) is not None or line.lstrip().startswith("|")
        if line.lstrip().startswith(("```", "~~~")) or len(line) > MAX_ENTRY_CHARS:
            return []
        if found := _HEADING.match(line):
            heading, before = found[1], ""
            continue
        if line.strip() and before.strip() and not is_item:
            return []
        text = said(line).strip()
        if any(map(str.isalnum, text)):
            entries.append(_Entry(number, text, heading if heading != hit.title else ""))
        before = line
    return entries


# ---------------------------------------------------------------------------------------- conversations


class _Turns:
    """Finds what answers a prompt in conversations: each question once, with the lines that answer it best."""

    def __init__(self, prompt: PromptWords, near: Nearness, folders: Mapping[str, str]) -> None:
        self._prompt, self._near, self._folders = prompt, near, folders
        self._threads: dict[tuple[str, str], tuple[Sequence[str], Sequence[Message]]] = {}
        self._seen: set[tuple[str, str, int]] = set()

    def line(self, hit: Hit) -> Iterator[Line]:
        """Yield what a hit of a conversation says; nothing if its question was there before."""
        if not self._prompt.telling and not self._prompt.names:
            yield Line(hit, held="the prompt has no telling word")
            return
        lines, turn = self._turn(hit)
        if turn:
            key = (hit.root, hit.path, turn[0].start_line)
            if key in self._seen:
                return
            self._seen.add(key)
        asked = " ".join(lines[turn[0].body_line - 1 : turn[0].end_line]).strip() if turn else ""
        line, alike = self._answer(hit, lines, turn[1:], asked) if len(turn) > 1 else (Line(hit), 0.0)
        if "vector" in hit.ranks:
            alike = max(alike, hit.ranks["vector"].score)
        heard = f"{line.hit.text} {asked}"
        held = _lacks_names(self._prompt, heard)
        least = min(2 if self._prompt.is_task else 1, len(self._prompt.telling))
        if _common(self._prompt.telling, heard) < least:
            held = "has too few telling words of the prompt"
        elif len(turn) <= 1 and hit.role == "user" and self._says_the_same(hit.text):
            held = "says the same as the prompt"
        by = 0.0 if self._prompt.names else IN_TALK * (alike - USUAL_COSINE)
        by += LONE if len(self._prompt.telling) == 1 else 0.0
        yield line._replace(hit=_shifted(line.hit, by), held=held)

    def _says_the_same(self, text: str) -> bool:
        words = PromptWords.of(text).words
        common = len(words & self._prompt.words)
        return text.rstrip().endswith("?") or common >= SAME * max(len(words), len(self._prompt.words))

    def _turn(self, hit: Hit) -> tuple[Sequence[str], list[Message]]:
        """Return the lines of a hit's thread, and the user's message with the answers to it, if they are there."""
        lines, messages = self._thread(hit)
        before = [number for number, message in enumerate(messages) if message.start_line <= hit.start_line]
        first = next((number for number in reversed(before) if messages[number].role == "user"), None)
        if first is None or hit.role not in ("user", "assistant"):
            return lines, []
        after = (number for number in range(first + 1, len(messages)) if messages[number].role == "user")
        turn = messages[first : next(after, len(messages))]
        return lines, [turn[0], *(message for message in turn[1:] if message.role == "assistant")]

    def _thread(self, hit: Hit) -> tuple[Sequence[str], Sequence[Message]]:
        key = (hit.root, hit.path)
        if key not in self._threads:
            try:
                text = (Path(self._folders.get(hit.root, "")) / hit.path).read_text(encoding="utf-8", errors="replace")
            except OSError:
                text = ""
            lines = split_lines(text)
            self._threads[key] = lines, list(messages_in((section for section, _ in find_headings(lines, 1)), lines))
        return self._threads[key]

    def _share(self, text: str) -> float:
        return len(self._prompt.words & stems_of(text)) / max(1, len(self._prompt.words))

    def _origin(self, hit: Hit, message: Message) -> str:
        mark = message.attributes.get(BY, "")
        head = facts_of(Path(self._folders[hit.root]) / hit.path)
        return origin_of(head, message.role, (mark,) if mark else (), Origin.OWNER)

    def _answer(self, hit: Hit, lines: Sequence[str], answers: Sequence[Message], asked: str) -> tuple[Line, float]:
        """Return the lines of the answers that are most like the prompt, and how much they are."""
        rated = [
            (WORDS * self._share(lines[number - 1]) + LAST * (message is answers[-1]), number, message)
            for message in answers
            for number in range(message.body_line, message.end_line + 1)
            if any(map(str.isalnum, lines[number - 1]))
        ]
        if not rated:
            return Line(hit), 0.0
        rated = sorted(rated, key=lambda one: -one[0])[:MAX_READ]
        cosines = self._near([said(lines[number - 1]).strip()[:MAX_ENTRY_CHARS] for _, number, _ in rated])
        scores = [by + cosine for (by, *_), cosine in zip(rated, cosines or [0.0] * len(rated), strict=True)]
        place = scores.index(max(scores))
        _, best, message = rated[place]
        first, last = _around(lines, best, message)
        text = "\n".join(lines[first - 1 : last]).strip()
        snippet = as_read(text)
        if len(snippet) > MAX_ANSWER_CHARS:
            snippet, _ = make_snippet(snippet, self._prompt.words)
        line = Line(
            replace(
                hit, start_line=first, end_line=last, text=text, snippet=snippet, role=message.role,
                date=message.time or hit.date, origin=self._origin(hit, message),
            ),
            asked if len(asked) <= MAX_ASKED_CHARS else f"{asked[:MAX_ASKED_CHARS]}…",
        )  # fmt: skip
        return line, cosines[place] if cosines else 0.0


def _around(lines: Sequence[str], best: int, message: Message) -> tuple[int, int]:
    """Return the first and last line of what is quoted of a message: the best line and what follows or precedes it."""
    first = last = best
    room = MAX_ANSWER_CHARS - len(lines[best - 1])
    while first > message.body_line or last < message.end_line:
        is_below = last < message.end_line and (last - best <= best - first or first == message.body_line)
        room -= len(lines[last if is_below else first - 2]) + 1
        if room < 0:
            break
        first, last = (first, last + 1) if is_below else (first - 1, last)
    return first, last
