"""Propose changes by rules alone: what was decided, preferred, repeated, replaced or done. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from memsync.edit.note_paths import NOTE_OF_TIER
from memsync.features.curation.gathering import GatheredStatement
from memsync.model.curation import Act, Proposed
from memsync.model.grouped import grouped
from memsync.model.text import count
from memsync.model.vocabulary import NotePath, Origin, Tier
from memsync.notes.contradicting import FramedStatement as Statement
from memsync.notes.contradicting import opposed, said_in
from memsync.notes.entry_text import stems
from memsync.search.stop_words import STOP_WORDS

SAME = 0.8
"""Two statements say the same if they share so much of the words of the shorter one."""
MAX_VALUES = 2
"""A key with more values in the logs is a series."""
TIMES = 3
"""A statement recurs if it was made on so many days."""
MIN_STEMS = 2
MEMORY = NOTE_OF_TIER[Tier.PERSONAL]
_DECIDED = re.compile(
    r"^(?:decided|decision|chose|agreed|entschieden|beschlossen)\b|\b(?:we|i|team)(?: have|'ve)? (?:finally )?"
    r"(?:chose|decided|agreed|settled on|picked|switched to|moved to|will use|go with|are going with)\b"
    r"|\bwir (?:haben uns|nehmen|verwenden|nutzen)\b",
    re.IGNORECASE,
)
_PREFERS = re.compile(
    r"\b(?:i|we) (?:prefer|always|never|like to|don't like|do not like|hate|love)\b|^(?:please )?(?:always|never)\b"
    r"|\bich (?:bevorzuge|mag)\b",
    re.IGNORECASE,
)
_DONE = re.compile(r"^(?:done|finished|completed|shipped|fixed|erledigt|fertig)\b[:,]?\s*", re.IGNORECASE)
_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-ZÄÖÜ])")
_PAIR = re.compile(r"[^\W\d_][\w .-]{1,40}:\s+\S.{0,80}")
_TRACKED = re.compile(r"[^:]+:\s*[\W\d]*\d[\W\d]*[^\W\d]{0,4}")
"""A number with a unit, as trackers write it: `weight: 71 kg`."""
_LASTS = re.compile(
    r"\b(?:always|never|must(?:n't)?|from now on|instead of|rather than|prefer|only|immer|nie(?:mals)?|muss|müssen"
    r"|stattdessen|ab jetzt|lieber)\b",
    re.IGNORECASE,
)
"""Of what was decided in a session, a memory keeps what holds for more than that session."""
_TIME = re.compile(
    r"\b\d{1,2}:\d\d\b|\b(?:today|tomorrow|yesterday|this (?:morning|week)|heute|gestern|morgen)\b", re.I
)


def by_rules(said: Sequence[GatheredStatement], proposed: Iterable[Proposed]) -> Iterator[Proposed]:
    """Yield changes, the most useful first; none that was `proposed` before, and none that memory has already."""
    logs = [one for one in said if one.is_log and (one.origin == Origin.OWNER or one.is_of_session)]
    kept = [one for one in said if not one.is_log]
    before = list(proposed)
    seen, known = {key_of(change) for change in before}, _Known(kept)
    for change in before:
        known.add(change)  # not in other words either
    own = [one for one in logs if not one.is_of_session]
    found = chain(
        _replacing(own, kept), _decided(logs), _done(own, kept), _preferred(own), _pairs(own), _recurring(own),
        _doubled(kept),
    )  # fmt: skip
    for change in found:
        is_new = change.act is not Act.ADD or change.supersedes or not known.has(change.text)
        if is_new and key_of(change) not in seen:
            seen.add(key_of(change))
            known.add(change)
            yield change


def key_of(change: Proposed) -> tuple[Act, str, str]:
    """Return what makes two changes the same: what they do to which note, and from which statement or to which text.

    A person may edit what a change adds, and the lines of its sources may move.
    """
    source = change.sources[0].partition("~")[2] if change.act is Act.ADD and change.sources else ""
    return change.act, change.note, source or " ".join(change.text.split()).casefold()


class _Known:
    """What notes say already, or will."""

    def __init__(self, said: Iterable[GatheredStatement]) -> None:
        self._by_word: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
        for one in said:
            self._add(one.text)

    def add(self, change: Proposed) -> None:
        if change.act is Act.ADD:
            self._add(change.text)

    def has(self, text: str) -> bool:
        words = _words(text)
        near = [other for word in words for other in self._by_word[word]]
        return any(_are_same(words, other) for other in near)

    def _add(self, text: str) -> None:
        words = _words(text)
        for word in words:
            self._by_word[word].append(words)


def _words(text: str) -> frozenset[str]:
    return frozenset(stems(text)) - STOP_WORDS


def _are_same(left: frozenset[str], right: frozenset[str]) -> bool:
    return len(left & right) >= max(
        MIN_STEMS, SAME * min(len(left), len(right)), SAME * 0.75 * max(len(left), len(right))
    )


def _add(one: GatheredStatement, text: str, section: str, reason: str, *more: GatheredStatement) -> Proposed:
    sources = tuple(dict.fromkeys(said.citation for said in (one, *more)))
    return Proposed(Act.ADD, NotePath(MEMORY), sources, text, section, reason=reason)


def _sentence(text: str, pattern: re.Pattern[str]) -> str:
    """Return the sentence that a pattern is in, unless it is a question; empty if there is none."""
    sentences = (sentence for sentence in _SENTENCES.split(text) if pattern.search(sentence))
    return next((sentence for sentence in sentences if not sentence.endswith("?")), "")


def _decided(logs: Iterable[GatheredStatement]) -> Iterator[Proposed]:
    for one in logs:
        is_marked = one.is_decision and (not one.is_of_session or _LASTS.search(one.text))
        if text := one.text if is_marked else _sentence(one.text, _DECIDED) * (not one.is_of_session):
            yield _add(one, text, "Decisions", f"decided on {one.day}")


def _preferred(logs: Iterable[GatheredStatement]) -> Iterator[Proposed]:
    for one in logs:
        if text := _sentence(one.text, _PREFERS):
            yield _add(one, text, "Preferences", f"said on {one.day}")


def _pairs(logs: Iterable[GatheredStatement]) -> Iterator[Proposed]:
    items = (one for one in logs if one.is_item and _PAIR.fullmatch(one.text) and not _TIME.search(one.text))
    items = (one for one in items if not _TRACKED.fullmatch(one.text))
    pairs = [(one, *one.text.casefold().partition(":")) for one in items]
    values = Counter(key for key, _ in {(key, value.strip()) for _, key, _, value in pairs})
    for one, key, _, _ in pairs:
        if values[key] <= MAX_VALUES:
            yield _add(one, one.text, "Remembered", f"noted on {one.day}")


def _recurring(logs: Sequence[GatheredStatement]) -> Iterator[Proposed]:
    said = ((_words(_TIME.sub("", one.text)), one) for one in logs if not one.task)
    groups = grouped((words, one) for words, one in said if len(words) > MIN_STEMS)
    for group in groups.values():
        days = {one.day: one for one in group}
        if len(days) >= TIMES:
            yield _add(
                group[-1], group[-1].text, "Recurring", f"on {count(len(days), 'day')}", *list(days.values())[-TIMES:]
            )


def _replacing(logs: Iterable[GatheredStatement], kept: Iterable[GatheredStatement]) -> Iterator[Proposed]:
    """Yield what the logs say otherwise than long-term memory: another value, number, name or a negation."""
    statements = ((statement, one) for one in chain(kept, logs) for statement in _stated(one))
    for left, right in opposed(statements):
        older = next((one for one in (*left, *right) if not one.is_log), None)
        others = right if older in left else left
        newer = max((one for one in others if one.is_log), key=lambda one: one.day, default=None)
        if older and newer:
            reason = f"said on {newer.day}, and differs from {older.path}:{older.first}"
            section = older.heading or "Remembered"
            yield Proposed(Act.ADD, older.path, (newer.citation,), newer.text, section, 0, older.citation, reason)


def _stated(one: GatheredStatement) -> Iterator[Statement]:
    return said_in([f"## {one.heading}", f"- {one.text}"], path=one.path, is_log=one.is_log)


def _done(logs: Sequence[GatheredStatement], kept: Iterable[GatheredStatement]) -> Iterator[Proposed]:
    """Yield the open tasks of notes that a log says are done."""
    done = [(one, _words(_DONE.sub("", one.text))) for one in logs if one.task == "x" or _DONE.match(one.text)]
    for task in kept:
        words = _words(task.text)
        by = next((one for one, said in done if len(words & said) >= max(MIN_STEMS, SAME * len(words))), None)
        if task.task == " " and by is not None:
            yield Proposed(Act.TICK, task.path, (by.citation,), task.text, line=task.first, reason=f"done on {by.day}")


def _doubled(kept: Iterable[GatheredStatement]) -> Iterator[Proposed]:
    """Yield the statements that stand in the notes twice, word for word: all but the first are struck."""
    first: dict[str, GatheredStatement] = {}
    for one in sorted(kept, key=lambda one: (one.path != MEMORY, one.path, one.first)):
        if len(_words(one.text)) > MIN_STEMS + 1 and not one.task:
            other = first.setdefault(one.digest, one)
            if other is not one and MEMORY in (one.path, other.path):
                reason = f"is in {other.path}:{other.first}, too"
                yield Proposed(Act.STRIKE, one.path, (other.citation,), one.text, line=one.first, reason=reason)
