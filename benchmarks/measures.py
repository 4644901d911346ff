"""The measures of retrieval quality. A hit is (path, first line, last line); relevant ranges have the same form.

recall in a budget: walk the hits in rank order, take each whose cost (12 tokens for the citation, then the word pieces
of its lines, each line of a file paid once) still fits; the share of relevant ranges whose every line was taken.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Range = tuple[str, int, int]
CITATION_TOKENS = 12


@dataclass(frozen=True, slots=True)
class Question:
    """One line of a question file."""

    qid: str
    root: str
    kind: str
    text: str
    relevant: tuple[Range, ...]


def read_questions(path: Path) -> list[Question]:
    """Read a .jsonl file of questions."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Question(row["qid"], row.get("root", ""), row["kind"], row["question"], tuple(map(tuple, row["relevant"])))
        for row in rows
    ]


def recall_in_budget(
    hits: Sequence[Range], relevant: Sequence[Range], budget: int, line_cost: Callable[[str, int], int]
) -> float:
    """Return the share of `relevant` that the hits cover within `budget` tokens."""
    taken: set[tuple[str, int]] = set()
    for path, first, last in hits:
        lines = [(path, line) for line in range(first, last + 1)]
        cost = CITATION_TOKENS + sum(line_cost(*line) for line in lines if line not in taken)
        if cost <= budget:
            budget -= cost
            taken.update(lines)
    return sum(all((path, line) in taken for line in range(a, b + 1)) for path, a, b in relevant) / len(relevant)


def gains(hits: Sequence[Range], relevant: Sequence[Range]) -> list[int]:
    """Return for each hit how many relevant ranges it is the first to cover whole."""
    seen: set[int] = set()
    found = []
    for path, first, last in hits:
        new = {i for i, (p, a, b) in enumerate(relevant) if p == path and first <= a and b <= last} - seen
        seen |= new
        found.append(len(new))
    return found


def recall_at(hits: Sequence[Range], relevant: Sequence[Range], k: int) -> float:
    """Return the share of relevant ranges covered by the first k hits."""
    return sum(gains(hits[:k], relevant)) / len(relevant)


def ndcg_at(hits: Sequence[Range], relevant: Sequence[Range], k: int) -> float:
    """Return nDCG over the first k hits, against one relevant range a rank."""
    dcg = sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains(hits[:k], relevant), 1))
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(relevant)) + 1))
    return min(1.0, dcg / ideal)


def file_rank(hits: Sequence[Range], relevant: Sequence[Range]) -> int:
    """Return the rank (from 1) of the first hit in an answering file, 0 for none."""
    files = {path for path, _, _ in relevant}
    return next((rank for rank, hit in enumerate(hits, 1) if hit[0] in files), 0)


def line_hit_at(hits: Sequence[Range], relevant: Sequence[Range], k: int) -> bool:
    """Tell whether one of the first k hits overlaps an answering range."""
    return any(p == path and first <= b and last >= a for path, first, last in hits[:k] for p, a, b in relevant)


def area_under_roc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Return the chance that a positive's score is above a negative's, ties counting half."""
    wins = sum((p > n) + 0.5 * (p == n) for p in positive for n in negative)
    return wins / (len(positive) * len(negative))
