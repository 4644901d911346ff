"""Turns hits into the lines that a prompt may recall, each with its own probability.

A hit of several list items or one-line paragraphs becomes the one that answers, because the vector of all of them says
little about each. Of a conversation, a question is recalled with the answer that followed it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from memsync.agents.project import facts_of
from memsync.memories.prompt_words import MAX_QUESTION_CHARS, PromptWords, stems_of
from memsync.model.answer import Hit
from memsync.model.note import Message
from memsync.model.vocabulary import Kind, Origin, is_remembered
from memsync.notes.decode import split_lines
from memsync.notes.entry_text import ITEM_MARKER, as_read, said
from memsync.notes.message_format import read_messages
from memsync.notes.origin import BY, origin_of
from memsync.search.snippet import make_snippet

MAX_ENTRY_CHARS = 400
MAX_ANSWER_CHARS, MAX_ASKED_CHARS = 400, 60
JOINED = 2
"""So many entries in one hit were as probable as each other."""
MAX_READ = 40
"""How many entries of one hit, or lines of one answer, are compared with the prompt."""
WORDS = 0.3
"""Of two entries, the one with all words of the prompt may be so much less alike."""
ALIKE, CHANCE = 8.0, 0.05
"""What an entry's cosine above that of its hit adds to the logit, less what the best of so many has by chance."""
LAST = 0.12
"""What a line of the last answer before the next question may be less alike."""
REMEMBERED, SHORT, PASSAGE, ONLY_WORK = 0.27, 0.15, -0.5, -1.0
"""What is added to the logit of an entry of a log or list of facts, of another entry, of a passage of several lines,
and if the prompt has no telling words (docs/measuring.md)."""
IN_TALK, USUAL_COSINE = 8.0, 0.45
"""What a cosine above the usual one of an answer adds to the logit of a line of a conversation: its probability is also
that of the lines around it."""
TRIGGERED = 0.5
"""The same for a rule whose condition has a word of a task.

Vectors of conditions found rules no better (hit@1 0.35) than those of whole lines (0.40), both retrievers 0.75.
"""
NO_WORD = -1.0
"""The same for a line that shares no word with a task: tasks have many words, and of some of them it reminds."""
BEGINNING = 6
LONE = -0.8
"""The same for a line of a conversation if the prompt has only one telling word."""
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


def lines_of(hits: Sequence[Hit], prompt: PromptWords, near: Nearness, folders: Mapping[str, str]) -> list[Line]:
    """Return what the hits say, the most probable first. `folders` has the folder of each memory by its name."""
    turns = _Turns(prompt, near, folders)
    lines = (turns.line(hit) if hit.role else _entry_of(hit, prompt, near) for hit in hits)
    return sorted(filter(None, lines), key=lambda line: -line.hit.score)


def _common(stems: Iterable[str], text: str) -> int:
    """Return how many words of a text begin as these do: words of one family (complain, complaint), or compounds."""
    return len({stem[:BEGINNING] for stem in stems} & {stem[:BEGINNING] for stem in stems_of(text)})


def _shifted(hit: Hit, by: float) -> Hit:
    chance = min(max(hit.score, 1e-6), 1 - 1e-6)
    return replace(hit, score=1.0 / (1.0 + math.exp(-by) * (1.0 - chance) / chance))


# ---------------------------------------------------------------------------------------------- entries


def _entry_of(hit: Hit, prompt: PromptWords, near: Nearness) -> Line:
    """Return the best entry of a hit with its probability; the hit itself if its lines do not stand for themselves."""
    entries = _standing(hit)[:MAX_READ] if not hit.validity and hit.text[:3] != "---" else []
    if entries:
        by = REMEMBERED if is_remembered(hit.kind, hit.tier) else SHORT
    else:
        by = PASSAGE if "\n" in hit.text else 0.0
    text = hit.text
    if len(entries) > JOINED:
        cosines = near([text for _, text, _ in entries]) or [0.0] * len(entries)
        rated = zip(cosines, entries, strict=True)
        cosine, (place, text, heading) = max(
            rated, key=lambda one: one[0] + WORDS * _share(prompt, " ".join(one[1][1:]))
        )
        own = hit.ranks["vector"].score if "vector" in hit.ranks else 1.0
        by += ALIKE * max(0.0, cosine - own - CHANCE * math.log(len(entries)))
        line, shown = hit.start_line + place, f"{heading}: {text}" if heading else text
        hit = replace(hit, start_line=line, end_line=line, text=shown, snippet=shown)
    if prompt.is_task and entries and hit.kind != Kind.DAILY and any(_fires(line, prompt) for line in text.split("\n")):
        by += TRIGGERED
    elif not prompt.telling and not prompt.names:
        by += ONLY_WORK
    elif prompt.is_task and not _common(prompt.words, text):
        by += NO_WORD
    return Line(_shifted(hit, by), held=_lacks(prompt, text))


def _fires(line: str, prompt: PromptWords) -> bool:
    """Tell whether a line is a rule whose condition has a word of the task."""
    return bool(_RULE.search(line) and _common(prompt.deeds, _CLAUSE_END.split(f"{said(line)} ", maxsplit=1)[0]))


def _lacks(prompt: PromptWords, text: str) -> str:
    """Return what a text lacks to be recalled; empty for nothing."""
    if prompt.names and not prompt.telling and not any(name in text for name in prompt.names):
        return "has no name of what was pasted"
    is_known = not prompt.is_foreign or prompt.names or _common(prompt.telling, text)
    return "" if is_known else "has no word of a prompt that the model does not know"


def _share(prompt: PromptWords, text: str) -> float:
    return len(prompt.words & stems_of(text)) / max(1, len(prompt.words))


def _standing(hit: Hit) -> list[tuple[int, str, str]]:
    """Return the list items, table rows and one-line paragraphs of a hit; nothing if it has other lines, too.

    Each has its place, its text and the heading above it.
    """
    entries, before, heading = list[tuple[int, str, str]](), "", ""
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
            entries.append((number, text, heading if heading != hit.title else ""))
        before = line
    return entries


# ---------------------------------------------------------------------------------------- conversations


class _Turns:
    """Finds what answers a prompt in conversations: each question once, with the lines that answer it best."""

    def __init__(self, prompt: PromptWords, near: Nearness, folders: Mapping[str, str]) -> None:
        self._prompt, self._near, self._folders = prompt, near, folders
        self._thread = cache(self._read)
        self._seen: set[tuple[str, str, int]] = set()

    def line(self, hit: Hit) -> Line | None:
        """Return what a hit of a conversation says; None if its question was there before."""
        prompt = self._prompt
        if len(prompt.telling) < (2 if prompt.is_task else 1) and not prompt.names:
            return Line(hit, held="the prompt has too few telling words")
        lines, turn = self._turn(hit)
        if turn and (key := (hit.root, hit.path, turn[0].start_line)) in self._seen:
            return None
        asked, line, alike = "", Line(hit), 0.0
        if turn:
            self._seen.add(key)
            asked = " ".join(lines[turn[0].body_line - 1 : turn[0].end_line])[:MAX_QUESTION_CHARS].strip()
            line, alike = self._answer(hit, lines, turn[1:], asked)
        if "vector" in hit.ranks:
            alike = max(alike, hit.ranks["vector"].score)
        heard = f"{line.hit.text} {asked}"
        held = _lacks(prompt, heard)
        if _common(prompt.telling, heard) < min(2 if prompt.is_task else 1, len(prompt.telling)):
            held = "has too few telling words of the prompt"
        elif hit.role == "user" and not line.asked and PromptWords.of(hit.text).words <= prompt.words:
            held = "says the same as the prompt"
        by = 0.0 if prompt.names else IN_TALK * (alike - USUAL_COSINE)
        by += LONE if len(prompt.telling) == 1 else 0.0
        return line._replace(hit=_shifted(line.hit, by), held=held)

    def _turn(self, hit: Hit) -> tuple[Sequence[str], list[Message]]:
        """Return the lines of a hit's thread, and the user's message with the answers to it, if they are there."""
        lines, messages = self._thread(hit.root, hit.path)
        before = [number for number, message in enumerate(messages) if message.start_line <= hit.start_line]
        first = next((number for number in reversed(before) if messages[number].role == "user"), None)
        if first is None or hit.role not in ("user", "assistant"):
            return lines, []
        after = (number for number in range(first + 1, len(messages)) if messages[number].role == "user")
        turn = messages[first : next(after, len(messages))]
        return lines, [turn[0], *(message for message in turn[1:] if message.role == "assistant")]

    def _read(self, root: str, path: str) -> tuple[Sequence[str], Sequence[Message]]:
        """Return the lines and messages of a thread; nothing if it is not in a folder."""
        lines: Sequence[str] = ()
        if folder := self._folders.get(root):
            with suppress(OSError):
                lines = split_lines(Path(folder, path).read_text(encoding="utf-8", errors="replace"))
        return lines, read_messages(lines)

    def _answer(self, hit: Hit, lines: Sequence[str], answers: Sequence[Message], asked: str) -> tuple[Line, float]:
        """Return the lines of the answers that are most like the prompt, and how much they are."""
        rated = [
            (WORDS * _share(self._prompt, lines[number - 1]) + LAST * (message is answers[-1]), number, message)
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
        head, marks = facts_of(Path(self._folders[hit.root], hit.path)), filter(None, [message.attributes.get(BY)])
        line = Line(
            replace(
                hit, start_line=first, end_line=last, text=text, snippet=snippet, role=message.role,
                date=message.time or hit.date, origin=origin_of(head, message.role, tuple(marks), Origin.OWNER),
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
