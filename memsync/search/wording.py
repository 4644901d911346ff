"""Tell how a question is worded, and how literally a text has its words: how many, and how many side by side. Pure.

The keyword score of a long text is low even if it has every word, and two texts may be equally near to a question of
which only one has the words. Whoever remembers the words of a note expects that one first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from memsync.notes.entry_text import stems

COVERED = 0.3
"""Bonus for a text that has all words that somebody typed, weighted by their rarity, and far less for most of them.

None for a question: its answer need not have its words.
"""
COVERED_POWER = 12.0
SIDE_BY_SIDE = 0.5
"""Bonus for a text that has all words of the question side by side and in order."""
SIDE_BY_SIDE_POWER = 6.0
COMMON_WEIGHT = 0.5
"""The weight of a stop word. Other words have their idf, usually 2 to 10."""

_ASKS = re.compile(
    r"\s*(?:who|whom|whose|what|when|where|why|which|how|is|are|am|was|were|do|does|did|has|have|had|can|could|will"
    r"|would|should|may|might|must|wer|was|wann|wo|warum|wieso|wie|welche[mnrs]?|ist|sind|hat|haben|kann)\b|.*[?？]\s*$",
    re.IGNORECASE | re.DOTALL,
)
_ASKS_FOR_ANSWER = re.compile(
    r"""\b(?:did|had|have|were)\ (?:you|the\ (?:assistant|agent))\b
      | \byou\ (?:\w+\ )?(?:suggested|recommended|advised|proposed|said|told|answered|explained|gave|mentioned|listed|
                          described|showed|provided|wrote)\b
      | \byour\ (?:suggestion|recommendation|advice|answer|response|reply|explanation|proposal)s?\b
      | \bhast\ du\b | \bdeine?[rmn]?\ (?:vorschl[aä]ge?|rat|antwort|empfehlung|erklärung)""",
    re.IGNORECASE | re.VERBOSE,
)


def asks_for_answer(text: str) -> bool:
    """Tell whether a question asks what an assistant answered, not what a person said."""
    return _ASKS_FOR_ANSWER.search(text) is not None


class Wording:
    """The words of one question, in order, with their weights."""

    def __init__(self, text: str, weights: Mapping[str, float]) -> None:
        """`weights` has the idf of each word that is looked up."""
        by_stem = {stem: weight for word, weight in weights.items() for stem in stems(word)}
        self._words = list(stems(text))
        self._weights = {stem: max(by_stem.get(stem, COMMON_WEIGHT), COMMON_WEIGHT) for stem in self._words}
        self._total = sum(self._weights.values())
        self._asks = _ASKS.match(text) is not None

    def bonus(self, text: str, headings: Iterable[str]) -> float:
        """Return what is added to the score of a text under these headings."""
        covered, run = self.shares(text, headings)
        bonus: float = SIDE_BY_SIDE * run**SIDE_BY_SIDE_POWER
        if not self._asks:
            bonus += COVERED * covered**COVERED_POWER
        return bonus

    def shares(self, text: str, headings: Iterable[str]) -> tuple[float, float]:
        """Return the weighted share of the words that a text and its headings have, and that of its longest run.

        A run is a sequence of words of the question that stand side by side and in the same order in the text. A
        single word is no run.
        """
        if not self._total:
            return 0.0, 0.0
        words = list(stems(text))
        covered = self._weights.keys() & set(chain(words, *map(stems, headings)))
        share = sum(self._weights[word] for word in covered) / self._total
        return share, self._longest_run(words) / max(sum(self._weights[w] for w in self._words), self._total)

    def _longest_run(self, words: Sequence[str]) -> float:
        """Return the weight of the heaviest sequence of words that the question and a text have in common."""
        heaviest = 0.0
        places: dict[str, list[int]] = {}
        for place, word in enumerate(self._words):
            places.setdefault(word, []).append(place)
        runs: dict[int, float] = {}
        lengths: dict[int, int] = {}
        for word in words:
            before, lengths_before = runs, lengths
            runs, lengths = {}, {}
            for place in places.get(word, ()):
                runs[place] = before.get(place - 1, 0.0) + self._weights[word]
                lengths[place] = lengths_before.get(place - 1, 0) + 1
                if lengths[place] > 1:
                    heaviest = max(heaviest, runs[place])
        return heaviest
