"""The measures of retrieval quality that only benchmarks use. A hit is (path, first line, last line), as is an answer.

recall in a budget: walk the hits in rank order, take each whose cost (12 tokens for the citation, then the word pieces
of its lines, each line of a file paid once) still fits; the share of relevant ranges whose every line was taken.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from memsync.features.evaluation.measures import Range

Line = tuple[str, int]
CITATION_TOKENS = 12


@dataclass(frozen=True, slots=True)
class Question:
    """One line of a question file."""

    qid: str
    root: str
    kind: str
    text: str
    relevant: tuple[Range, ...] = ()
    evidence: tuple[frozenset[Line], ...] = ()
    """For each piece of evidence, the lines that state it, any one of which will do."""


def read_questions(path: Path) -> list[Question]:
    """Read a .jsonl file of questions."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Question(
            row["qid"],
            row.get("root", ""),
            row["kind"],
            row["question"],
            tuple(map(tuple, row.get("relevant", ()))),
            tuple(frozenset(map(tuple, lines)) for lines in row.get("any_of", ())),
        )
        for row in rows
    ]


def taken_in_budget(hits: Sequence[Range], budget: int, line_cost: Callable[[str, int], int]) -> set[Line]:
    """Return the lines of the hits that fit into `budget` tokens, in rank order; one that does not is passed over."""
    taken: set[Line] = set()
    for path, first, last in hits:
        lines = [(path, line) for line in range(first, last + 1)]
        cost = CITATION_TOKENS + sum(line_cost(*line) for line in lines if line not in taken)
        if cost <= budget:
            budget -= cost
            taken.update(lines)
    return taken


def recall_in_budget(
    hits: Sequence[Range], relevant: Sequence[Range], budget: int, line_cost: Callable[[str, int], int]
) -> float:
    """Return the share of `relevant` that the hits cover within `budget` tokens."""
    taken = taken_in_budget(hits, budget, line_cost)
    return sum(all((path, line) in taken for line in range(a, b + 1)) for path, a, b in relevant) / len(relevant)


def evidence_in_budget(
    hits: Sequence[Range], evidence: Sequence[Set[Line]], budget: int, line_cost: Callable[[str, int], int]
) -> float:
    """Return the share of the pieces of evidence of which the hits give a line within `budget` tokens."""
    taken = taken_in_budget(hits, budget, line_cost)
    return sum(not taken.isdisjoint(lines) for lines in evidence) / len(evidence)


def holds_evidence(hits: Sequence[Range], evidence: Sequence[Set[Line]], most_lines: int) -> bool:
    """Tell whether a hit of at most so many lines has one that states a piece of evidence."""
    wanted = {line for lines in evidence for line in lines}
    return any(
        last - first < most_lines and any((path, line) in wanted for line in range(first, last + 1))
        for path, first, last in hits
    )


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
