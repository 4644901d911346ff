"""Retrieval measures. A hit is (path, first line, last line), and so is a relevant range. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from memsync.model.grouped import grouped

Range = tuple[str, int, int]
RESAMPLES = 2_000
BINS = 10
MAX_LOST_SHARE = 0.01
"""The share of answered questions that a suggested floor may lose."""


def answer_rank(hits: Sequence[Range], relevant: Sequence[Range]) -> int:
    """Return the rank (from 1) of the first hit that overlaps an answering range, 0 for none."""
    for rank, (path, first, last) in enumerate(hits, 1):
        if any(p == path and first <= b and last >= a for p, a, b in relevant):
            return rank
    return 0


def reciprocal(rank: int) -> float:
    """Return the reciprocal rank for MRR@10: 1 / rank, 0 beyond rank 10 or without an answer."""
    return 1 / rank if 0 < rank <= 10 else 0.0


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean, from resamples with a fixed seed."""
    import numpy as np

    draw = np.random.default_rng(1)
    means = np.asarray(values)[draw.integers(len(values), size=(RESAMPLES, len(values)))].mean(axis=1)
    return middle(means.tolist())


def middle(resampled: Sequence[float]) -> tuple[float, float]:
    """Return the middle 95 % of the resampled figures as a range."""
    import numpy as np

    low, high = np.quantile(np.asarray(resampled), (0.025, 0.975))
    return float(low), float(high)


def area_under_roc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Return the probability that a positive's score is above a negative's; ties count half."""
    import numpy as np

    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, "left") + np.searchsorted(ordered, positive, "right")
    return float(below.sum() / 2 / (len(positive) * len(negative)))


def resampled_areas(positive: Sequence[float], negative: Sequence[float]) -> list[float]:
    """Return `area_under_roc` of resamples; the seed is fixed, so equally long lists are resampled alike (paired)."""
    import numpy as np

    draw = np.random.default_rng(2)
    yes, no = np.asarray(positive, dtype=np.float64), np.asarray(negative, dtype=np.float64)

    def resampled(scores: Any) -> Any:
        return scores[draw.integers(len(scores), size=len(scores))]

    return [area_under_roc(resampled(yes), resampled(no)) for _ in range(RESAMPLES)]


def bins_of(pairs: Sequence[tuple[float, bool]]) -> list[tuple[float, float, list[tuple[float, bool]]]]:
    """Return (from, to, pairs) for each tenth of the scores from 0 to 1 with any pairs; 1 belongs to the last tenth."""
    bins = grouped((min(BINS - 1, int(pair[0] * BINS)), pair) for pair in pairs)
    return [(number / BINS, (number + 1) / BINS, bins[number]) for number in sorted(bins)]


def highest_floor(scores: Sequence[float]) -> float:
    """Return the highest floor with at most MAX_LOST_SHARE of the scores below it, rounded down to thousandths.

    A score is that of the best hit with the answer; there must be one.
    """
    ordered = sorted(scores)
    allowed = int(len(ordered) * MAX_LOST_SHARE)
    return math.floor(ordered[allowed] * 1000) / 1000


def mean_of(values: Sequence[float]) -> float:
    """Return the mean; 0 without any."""
    return math.fsum(values) / len(values) if values else 0.0


MEASURES: dict[str, Callable[[int], float]] = {
    "recall@1": lambda rank: float(rank == 1),
    "recall@5": lambda rank: float(0 < rank <= 5),
    "recall@10": lambda rank: float(0 < rank <= 10),
    "MRR@10": reciprocal,
}
"""Each measure of the rank of the first answering hit (0: none); a figure is its mean over the questions."""
