"""How likely it is that the hits contain the answer, and which hits are shown if that is unlikely. Pure.

The probability is a logistic regression over what tells an answerable question from another: how well the best entry
answers, among how many, and, where the question names a speaker, whether anybody else says it better. The more entries
are compared, the more easily one of them looks like an answer, so their number counts against it. It was fitted to
questions with and without an answer about logs, lists of facts and documents, about parts of these, and about memories
of a few notes (docs/search.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from memsync.model import Hit, Mode, Query
from memsync.notes.chunk import CountTokens
from memsync.search.rank import Found, Question
from memsync.search.snippet import holds_all, stems_of

FIRST = 3
LETTERS_A_PIECE = 2.0
"""If a word has at most so many letters for each word piece, the model does not know the word."""
_BASE, _BEST, _COMPARED = 11.8, 4.5, -1.4
_LEAST_SCORE = 0.02
_FEW, _MANY = 30, 300
"""Entries: each memory counts as if it had so many more than are compared, and at most `_MANY` of these count."""
_NAMES_A_SPEAKER, _BEST_THEN, _FIRST_FEW_THEN = -4.3, 15.4, 11.7
_BY_OTHERS, _BY_NAMED, _FIRST_BY_NAMED = -9.5, -20.1, 1.8


def probability(ranked: Sequence[Found], question: Question) -> float:
    """Return the chance, from 0 to 1, that the entries, best first, hold the answer to a question."""
    if not ranked:
        return 0.0
    first = [one.undated_score for one in ranked[:FIRST]]
    logit = _BASE + _BEST * math.log(max(first[0], _LEAST_SCORE)) + _COMPARED * math.log(min(len(ranked), _MANY) + _FEW)
    named, others = question.speakers(ranked)
    if named:
        by_named = max(one.plain for one in ranked if one.entry.speaker in named)
        by_others = max(one.plain for one in ranked if one.entry.speaker in others)
        logit += _NAMES_A_SPEAKER + _BEST_THEN * first[0] + _FIRST_FEW_THEN * sum(first) / len(first)
        logit += _BY_OTHERS * by_others + _BY_NAMED * by_named
        logit += _FIRST_BY_NAMED * (ranked[0].entry.speaker in named)
    return 1.0 / (1.0 + math.exp(-max(-50.0, min(50.0, logit))))


def are_letters_only(words: Sequence[str], count_tokens: CountTokens) -> bool:
    """Tell whether a model reads these words letter by letter, as it does `zzzqqqxxx`: what is near tells nothing.

    This is asked of words that stand in no note; the built-in model's word pieces stand for any model's.
    """
    if not words or not all(word.isascii() for word in words):
        return False
    return sum(map(len, words)) <= LETTERS_A_PIECE * sum(count_tokens(list(words)))


def likely_hits(hits: list[Hit], query: Query, mode: Mode, floor: float) -> list[Hit]:
    """Return the hits to show: those with the score that the query asks for.

    If it asks for none, all are shown if the best has a score of at least `floor`, else those with all words.
    """
    if query.min_score is not None:
        return [hit for hit in hits if hit.score >= query.min_score]
    if not hits or not query.text or mode is Mode.KEYWORD or hits[0].score >= floor:
        return hits
    stems = stems_of(query.words)
    return [hit for hit in hits if holds_all(hit.text, stems)]
