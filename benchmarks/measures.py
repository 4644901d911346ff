"""The measures of retrieval quality that only benchmarks use. A hit is (path, first line, last line), as is an answer.

Recall in a budget: hits are taken in rank order; one that does not fit is skipped. A hit costs 12 tokens for its
citation and the tokens of those lines that were not taken before. The recall is the share of relevant ranges whose
every line was taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from pathlib import Path

import msgspec
from msgspec import Struct, field

from memsync.features.evaluation.measures import Range

Line = tuple[str, int]
LineCost = Callable[[str, int], int]
"""Returns the tokens of a line, by its path and number."""
CITATION_TOKENS = 12


class Question(Struct, frozen=True):
    """One line of a question file.

    `evidence` has, for each piece of evidence, the lines that state it; one of them is enough.
    """

    kind: str
    text: str = field(name="question")
    root: str = ""
    relevant: tuple[Range, ...] = ()
    evidence: tuple[frozenset[Line], ...] = field(default=(), name="any_of")


def read_questions(path: Path) -> list[Question]:
    """Read a .jsonl file of questions."""
    return [msgspec.json.decode(line, type=Question) for line in path.read_bytes().splitlines()]


def rfc_questions(data: Path) -> list[str]:
    """Return the texts of the questions about the RFCs."""
    return [question.text for question in read_questions(data / "rfcs.questions.jsonl")]


def lines_of(place: Range) -> set[Line]:
    """Return the lines of a hit or of an answer."""
    path, first, last = place
    return {(path, line) for line in range(first, last + 1)}


def taken_in_budget(hits: Sequence[Range], budget: int, line_cost: LineCost) -> set[Line]:
    """Return the lines of the hits that fit into `budget` tokens, in rank order; skip each hit that does not fit."""
    taken: set[Line] = set()
    for hit in hits:
        lines = lines_of(hit)
        cost = CITATION_TOKENS + sum(line_cost(*line) for line in lines - taken)
        if cost <= budget:
            budget -= cost
            taken |= lines
    return taken


def covered_share(relevant: Sequence[Range], lines: Set[Line]) -> float:
    """Return the share of the relevant ranges whose every line is among `lines`."""
    return sum(lines_of(place) <= lines for place in relevant) / len(relevant)


def holds_evidence(hits: Sequence[Range], evidence: Sequence[Set[Line]], max_lines: int) -> bool:
    """Tell whether a hit of at most `max_lines` lines contains a line that states a piece of evidence."""
    stating = {line for lines in evidence for line in lines}
    return any(hit[2] - hit[1] < max_lines and not stating.isdisjoint(lines_of(hit)) for hit in hits)


def gains(hits: Sequence[Range], relevant: Sequence[Range]) -> list[int]:
    """Return for each hit how many relevant ranges it is the first to cover completely."""
    covered: set[int] = set()
    gained = []
    for path, first, last in hits:
        new = {i for i, (p, a, b) in enumerate(relevant) if p == path and first <= a and b <= last} - covered
        covered |= new
        gained.append(len(new))
    return gained


def recall_at(hits: Sequence[Range], relevant: Sequence[Range], k: int) -> float:
    """Return the share of relevant ranges covered by the first k hits."""
    return sum(gains(hits[:k], relevant)) / len(relevant)


def ndcg_at(hits: Sequence[Range], relevant: Sequence[Range], k: int) -> float:
    """Return nDCG over the first k hits; the ideal list has one relevant range at each rank."""
    dcg = sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains(hits[:k], relevant), 1))
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(relevant)) + 1))
    return min(1.0, dcg / ideal)


def file_rank(hits: Sequence[Range], relevant: Sequence[Range]) -> int:
    """Return the rank (from 1) of the first hit in an answering file, 0 for none."""
    files = {path for path, _, _ in relevant}
    return next((rank for rank, hit in enumerate(hits, 1) if hit[0] in files), 0)
