"""How likely it is that the answer is among what was found. Pure.

A logistic regression over what tells an answerable question from another: how well the best entry answers, how well the
first few do, and, where the question names a speaker, whether anybody else says it better. Fitted to questions with and
without an answer about logs, lists of facts and documents (docs/search.md); the shown score is this probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from memsync.search.rank import Found, Question

FIRST = 3
_BASE, _BEST, _FIRST_FEW = -8.9, 10.4, 10.4
_BY_OTHERS, _BY_NAMED, _NAMES_A_SPEAKER, _FIRST_BY_NAMED = -9.0, -9.5, 5.1, 1.8


def probability(ranked: Sequence[Found], question: Question) -> float:
    """Return the chance, from 0 to 1, that the entries, best first, hold the answer to a question."""
    if not ranked:
        return 0.0
    first = [one.score for one in ranked[:FIRST]]
    logit = _BASE + _BEST * first[0] + _FIRST_FEW * sum(first) / len(first)
    named, others = question.speakers(ranked)
    if named:
        by_named = max(one.plain for one in ranked if one.entry.speaker in named)
        by_others = max(one.plain for one in ranked if one.entry.speaker in others)
        logit += _NAMES_A_SPEAKER + _BY_OTHERS * by_others + _BY_NAMED * by_named
        logit += _FIRST_BY_NAMED * (ranked[0].entry.speaker in named)
    return 1.0 / (1.0 + math.exp(-max(-50.0, min(50.0, logit))))
