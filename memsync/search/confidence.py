"""Estimate the probability that the hits contain the answer, and hide hits if it is low. Pure.

The probability is a logistic regression on the best scores, the highest cosine, the number of entries compared and, if
the question names a speaker of a conversation, whether the best lines are by that speaker. The more entries are
compared, the more easily one of them looks like an answer, so their number counts against it. It was fitted to
questions with and without an answer about logs, lists of facts and documents, about parts of these, and about memories
of a few notes (docs/search.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from memsync.model.answer import Hit
from memsync.model.query import Query
from memsync.model.vocabulary import Mode
from memsync.notes.chunk import CountTokens
from memsync.search.rank import QuestionWords, Scored

FIRST = 3
LETTERS_A_PIECE = 2.0
"""A word with at most this many letters for each of its tokens is not a word that the model knows."""
_BASE, _BEST, _COMPARED, _NEAREST = 3.6, 1.8, -1.15, 8.1
_SLOPE = 2.0
"""How much the logit of an entry falls for each factor of e in its score under that of the first."""
_MIN_SCORE = 0.02
ROLES = frozenset({"user", "assistant", "system", "tool", "router", "handoff"})
"""Speakers that have no name: a question with such a word seldom means them."""
_ALONE, _NEAREST_ALONE = -5.0, 11.0
"""The logit of a cosine alone, by a model that knows many languages (docs/measuring.md)."""
_FEW, _MANY = 30, 300
"""The number of entries compared counts as min(number, _MANY) + _FEW."""
_NAMES_A_SPEAKER, _LOG_BEST_THEN, _COMPARED_THEN, _BEST_THEN, _FIRST_FEW_THEN = 7.5, 4.5, -1.4, 15.4, 11.7
_BY_OTHERS, _BY_NAMED, _FIRST_BY_NAMED = -9.5, -20.1, 1.8


def certainty(
    ranked: Sequence[Scored], question: QuestionWords, *, is_multilingual: bool = False
) -> Callable[[float], float]:
    """Return a function from an entry's score to the probability that it shows the answer to a question.

    `ranked` are the entries that were compared, best first. The function never decreases. A question in another
    language than the notes shares no words with them, so with a multilingual model the cosine alone may decide.
    """
    if not ranked:
        return lambda score: 0.0
    first = [scored.telling_score for scored in ranked[:FIRST]]
    best, top = math.log(max(first[0], _MIN_SCORE)), max(ranked[0].score, _MIN_SCORE)
    compared = math.log(min(len(ranked), _MANY) + _FEW)
    named, others = question.speakers(ranked)
    nearest = max(scored.cosine or 0.0 for scored in ranked)
    if not named - ROLES or 2 * sum(bool(scored.entry.speaker) for scored in ranked) <= len(ranked):
        logit = _BASE + _BEST * best + _COMPARED * compared + _NEAREST * nearest
    else:
        logit = _NAMES_A_SPEAKER + _LOG_BEST_THEN * best + _COMPARED_THEN * compared
        by_named = max(scored.plain for scored in ranked if scored.entry.speaker in named)
        by_others = max(scored.plain for scored in ranked if scored.entry.speaker in others)
        logit += _BEST_THEN * first[0] + _FIRST_FEW_THEN * sum(first) / len(first)
        logit += _BY_OTHERS * by_others + _BY_NAMED * by_named
        logit += _FIRST_BY_NAMED * (ranked[0].entry.speaker in named)
    if is_multilingual:
        logit = max(logit, _ALONE + _NEAREST_ALONE * nearest)
    return lambda score: _logistic(logit + _SLOPE * math.log(max(score, _MIN_SCORE) / top))


def _logistic(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-50.0, min(50.0, logit))))


def are_letters_only(words: Sequence[str], count_tokens: CountTokens) -> bool:
    """Tell whether a model splits these words into letters (`zzzqqqxxx`), so that its nearest texts mean nothing.

    Call this only for words that no note contains. It uses the built-in model's tokens for every model.
    """
    if not words or not all(word.isascii() for word in words):
        return False
    return sum(map(len, words)) <= LETTERS_A_PIECE * sum(count_tokens(list(words)))


def likely_hits(hits: list[Hit], query: Query, mode: Mode, floor: float) -> list[Hit]:
    """Return the hits to show: those with at least the query's `min_score`, or `floor` if it has none.

    By words alone, only a `min_score` leaves hits out: scores are no probabilities then.
    """
    if query.request.min_score is None and (not query.text or mode is Mode.KEYWORD):
        return hits
    least = floor if query.request.min_score is None else query.request.min_score
    return [hit for hit in hits if hit.score >= least]
