"""Tell how a question is worded, and how literally a text has its words. Pure.

The keyword score of a long text is low even if it has every word, and of two texts that are equally near to a question
only one may have its words. A person who remembers the words of a note expects that note first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set

from memsync.model.words import folded
from memsync.notes.entry_text import stem
from memsync.search.stop_words import STOP_WORDS

COVERED = 0.3
"""Bonus for a text that, with its headings, has all the typed words, in any form.

Words count by their rarity. A text with fewer of the words gets far less, see LITERAL_POWER. Questions add none of it,
because an answer need not have the words of its question.
"""
ONE_LINE = 0.5
"""Bonus for a text that has all these words in one line, exactly as they were typed."""
SIDE_BY_SIDE = 0.5
"""Bonus for a text that has the words side by side and in order, or whose heading has them."""
IDENTIFIED = 0.5
"""Bonus for a text that has the identifiers of the question, such as `parse_row`, exactly as they were typed."""
LITERAL_POWER = 12.0
"""A share of the words counts as its 12th power: 0.9 of them as 0.28, half of them as nothing."""
LEAST_SHARE = 0.4
"""A text with a smaller share of the words is not looked at line by line: its bonus is under 0.0001."""
COMMON_WEIGHT = 0.5
"""The weight of a stop word. Other words have their idf, usually 2 to 10."""

_COMMON = frozenset(map(stem, STOP_WORDS))
_WORD = re.compile(r"[^\W_]+(?:\+\+|#(?!\w))?")  # C++ and C# are words, too
_IDENTIFIER = re.compile(r"\b(?:[A-Za-z]\w*_\w+|[a-z]{2}[a-z0-9]*[A-Z]\w*|(?:[A-Z][a-z0-9]+){3,})\b")  # no YouTube
_ASKS = re.compile(
    r"\s*(?:who|whom|whose|what|when|where|why|which|how|is|are|am|was|were|do|does|did|has|have|had|can|could|will"
    r"|would|should|may|might|must|wer|was|wann|wo|warum|wieso|wie|welche[mnrs]?|ist|sind|hat|haben|kann)\b|.*[?？]\s*$",
    re.IGNORECASE | re.DOTALL,
)
_ASKS_ABOUT_SELF = re.compile(r"\W*(?:have|had|did|do|am|was|habe|hatte|war) (?:I|ich)\b", re.IGNORECASE)
_ASKS_FOR_ANSWER = re.compile(
    r"""\b(?:did|had|have|were)\ (?:you|the\ (?:assistant|agent))\b
      | \byou\ (?:\w+\ )?(?:suggested|recommended|advised|proposed|said|told|answered|explained|gave|mentioned|listed|
                          described|showed|provided|wrote)\b
      | \byour\ (?:suggestion|recommendation|advice|answer|response|reply|explanation|proposal)s?\b
      | \bhast\ du\b | \bdeine?[rmn]?\ (?:vorschl[aä]ge?|rat|antwort|empfehlung|erklärung)""",
    re.IGNORECASE | re.VERBOSE,
)


def asks_about_self(text: str) -> bool:
    """Tell whether a person asks what he did himself, which he has said and no assistant."""
    return _ASKS_ABOUT_SELF.match(text) is not None


def asks_for_answer(text: str) -> bool:
    """Tell whether a question asks what an assistant answered, not what a person said."""
    return _ASKS_FOR_ANSWER.search(text) is not None


def _share(weights: Mapping[str, float], present: Set[str]) -> float:
    return sum(weights[word] for word in weights.keys() & present) / sum(weights.values())


class Wording:
    """The words of one question, in order, with their weights; `asks` is whether it is worded as a question."""

    def __init__(self, text: str, weights: Mapping[str, float]) -> None:
        """`weights` has the idf of each word that is looked up."""
        self._words = [(word, stem(word)) for word in _WORD.findall(folded(text).lower())]
        self._exact = {word: max(weights.get(word, 0.0), COMMON_WEIGHT) for word, _ in self._words}
        self._stems = {word_stem: self._exact[word] for word, word_stem in self._words}
        self._run_weight = sum(self._exact[word] for word, _ in self._words)
        self._names = frozenset(_IDENTIFIER.findall(text))
        self.asks = _ASKS.match(text) is not None

    def bonus(self, text: str, headings: Sequence[str]) -> float:
        """Return what is added to the score of a text under these headings."""
        covered, in_line, run = self.shares(text, headings)
        bonus: float = SIDE_BY_SIDE * run**LITERAL_POWER
        if not self.asks:
            bonus += COVERED * covered**LITERAL_POWER + ONE_LINE * in_line**LITERAL_POWER
        if self._names:
            bonus += IDENTIFIED * len(self._names & set(_IDENTIFIER.findall(text))) / len(self._names)
        return bonus

    def name_bonus(self, name: str, around: Iterable[str]) -> float:
        """Return what the name of a note adds to its score: a title under its folders, a link to it under its headings.

        It adds nothing unless the question has all words of the name that are not common, and two with those above it.
        """
        words = {*map(stem, _WORD.findall(folded(name).lower()))} - _COMMON
        if not words or not words <= self._stems.keys():
            return 0.0
        around_words = {*map(stem, _WORD.findall(folded(" ".join(around)).lower()))} - _COMMON
        if len((words | around_words) & self._stems.keys()) < 2:
            return 0.0
        covered = _share(self._stems, words | around_words | _COMMON)
        whole = SIDE_BY_SIDE if self.asks else COVERED + ONE_LINE + SIDE_BY_SIDE
        bonus: float = whole * covered**LITERAL_POWER
        return bonus

    def shares(self, text: str, headings: Sequence[str]) -> tuple[float, float, float]:
        """Return three shares of the words by their weight: in the text and its headings, in one line, in one run.

        A run is a sequence of at least two words that stand side by side and in order, in the text or in a heading. If
        the question is a single word, it is a run.
        """
        if not self._words:
            return 0.0, 0.0, 0.0
        text = folded(text).lower()
        flowing = _WORD.findall(text)
        titles = [_WORD.findall(folded(heading).lower()) for heading in headings]
        present = set(flowing).union(*titles)
        covered = _share(self._exact, present) if self.asks else _share(self._stems, set(map(stem, present)))
        if covered < LEAST_SHARE:
            return covered, 0.0, 0.0
        lines = [_WORD.findall(line) for line in text.split("\n")]
        in_lines = (sum(self._exact[word] for word in self._exact.keys() & set(words)) for words in lines)
        in_line = max(in_lines) / sum(self._exact.values())
        run = max(self._longest_run(words) for words in (flowing, *titles)) / self._run_weight
        return covered, in_line, run

    def _longest_run(self, words: Iterable[str]) -> float:
        """Return the weight of the heaviest run of words that the question has, too."""
        heaviest = 0.0
        runs: dict[int, float] = {}
        for word in words:
            before, runs = runs, {}
            if word in self._exact:
                for place, (wanted, _) in enumerate(self._words):
                    if wanted == word:
                        runs[place] = before.get(place - 1, 0.0) + self._exact[word]
                        if place - 1 in before or len(self._words) == 1:
                            heaviest = max(heaviest, runs[place])
        return heaviest
