"""Retrieval quality on the question files of a data folder (`locomo/`, `rfcs/`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.indexes import opened
from benchmarks.measures import (
    Question,
    Range,
    area_under_roc,
    file_rank,
    line_hit_at,
    ndcg_at,
    read_questions,
    recall_at,
    recall_in_budget,
)
from benchmarks.report import Row
from memsync.memory import Memory
from memsync.wiring import make_token_counter

HITS = 50


class LineCosts:
    """Word pieces of each line of a memory root, counted a file at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._counter = make_token_counter()
        self._files: dict[str, list[int]] = {}

    def __call__(self, path: str, line: int) -> int:
        """Return the cost of one line."""
        if path not in self._files:
            self._files[path] = self._counter.count((self._root / path).read_text(encoding="utf-8").split("\n"))
        return self._files[path][line - 1]


def locomo(data: Path, state: Path) -> list[Row]:
    """Ask every question of its own conversation."""
    answerable = read_questions(data / "locomo" / "questions.jsonl")
    unanswerable = read_questions(data / "locomo" / "unanswerable.jsonl")
    figures: list[tuple[float, float, float, float]] = []
    scores: list[float] = []
    hopeless: list[float] = []
    for name in sorted({question.root for question in answerable}):
        root = data / "locomo" / name
        with opened(root, state) as memory:
            memory.sync()
            costs = LineCosts(root)
            for question in (q for q in answerable if q.root == name):
                hits, score = _ask(memory, question)
                figures.append(
                    (
                        recall_in_budget(hits, question.relevant, 1000, costs),
                        recall_in_budget(hits, question.relevant, 2000, costs),
                        ndcg_at(hits, question.relevant, 10),
                        recall_at(hits, question.relevant, 10),
                    )
                )
                scores.append(score)
            hopeless += [_ask(memory, question)[1] for question in unanswerable if question.root == name]
    budget_1000, budget_2000, ndcg, recall = (fmean(column) for column in zip(*figures, strict=True))
    return [
        Row(f"locomo, {len(figures)} questions: recall@1000t", budget_1000, "≥ 0.84", budget_1000 >= 0.84),
        Row("locomo: recall@2000t", budget_2000, "≥ 0.895", budget_2000 >= 0.895),
        Row("locomo: nDCG@10", ndcg, "≥ 0.71", ndcg >= 0.71),
        Row("locomo: recall@10", recall, "printed"),
        Row("locomo: abstention, AUC of the top score", area_under_roc(scores, hopeless), "printed"),
    ]


def rfcs(data: Path, state: Path) -> list[Row]:
    """Ask the questions about the Rust RFCs."""
    questions = read_questions(data / "rfcs.questions.jsonl")
    with opened(data / "rfcs", state) as memory:
        memory.sync()
        answers = [_ask(memory, question)[0] for question in questions]
    ranks = [file_rank(hits, question.relevant) for hits, question in zip(answers, questions, strict=True)]
    lines = fmean(line_hit_at(hits, question.relevant, 5) for hits, question in zip(answers, questions, strict=True))
    first, third = fmean(rank == 1 for rank in ranks), fmean(0 < rank <= 3 for rank in ranks)
    reciprocal = fmean(1 / rank if 0 < rank <= 10 else 0.0 for rank in ranks)
    return [
        Row(f"rfcs, {len(questions)} questions: file hit@1", first, "≥ 0.80", first >= 0.80),
        Row("rfcs: file hit@3", third, "≥ 0.90", third >= 0.90),
        Row("rfcs: MRR@10", reciprocal, "≥ 0.84", reciprocal >= 0.84),
        Row("rfcs: line hit@5", lines, "≥ 0.80", lines >= 0.80),
    ]


def _ask(memory: Memory, question: Question) -> tuple[Sequence[Range], float]:
    result = memory.search(question.text, limit=HITS)
    hits = [(hit.path, hit.start_line, hit.end_line) for hit in result.hits]
    return hits, result.hits[0].score if result.hits else 0.0
