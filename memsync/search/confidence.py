"""How likely it is that the answer is among what was found. Pure.

A logistic regression over what tells an answerable question from another: how well the best entry answers, among how
many, and, where the question names a speaker, whether anybody else says it better. The more entries are compared, the
more easily one of them looks like an answer, so their number counts against it. Fitted to questions with and without an
answer about logs, lists of facts and documents, about parts of these, and about memories of a few notes
(docs/search.md). The shown score is this probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from memsync.search.rank import Found, Question

FIRST = 3
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
