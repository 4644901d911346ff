"""Retrieval quality on the question files of a data folder: conversations, facts, questions about documents, RFCs.

Each figure is a mean over questions with its 95 % bootstrap interval. A measurement also asks what its memory cannot
answer, and shows how well the score of the best hit tells one from the other.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.indexes import opened
from benchmarks.measures import (
    Question,
    evidence_in_budget,
    file_rank,
    holds_evidence,
    ndcg_at,
    read_questions,
    recall_at,
    recall_in_budget,
)
from benchmarks.report import Row
from memsync.errors import MemsyncError
from memsync.features.evaluation.measures import (
    MOST_LOST,
    Range,
    answer_rank,
    area_under_roc,
    interval,
    line_hit_at,
    reciprocal,
)
from memsync.memory import Memory
from memsync.settings.load import SETTINGS
from memsync.wiring import make_token_counter

HITS = 50
FLOOR = next(setting.default for setting in SETTINGS if setting.name == "search.min_score")
OTHER_NOTES = 60
"""Files of the RFCs that the facts are hidden among."""
MOST_LINES = 11
"""Of a hit that counts as one that shows a fact."""

Hits = Sequence[Range]


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


class _Answers:
    """What a memory answers to questions that it can answer and to others, reranked or not."""

    def __init__(self, *, rerank: bool) -> None:
        self._rerank = rerank
        self.hits: list[tuple[Question, Hits, LineCosts]] = []
        self.scores: list[float] = []
        self.hopeless: list[float] = []

    def ask(self, root: Path, state: Path, questions: Iterable[Question], unanswerable: Iterable[Question]) -> None:
        costs = LineCosts(root)
        with opened(root, state, search_min_score="0") as memory:
            memory.sync()
            for question in questions:
                hits, score = _ask(memory, question, self._rerank)
                self.hits.append((question, hits, costs))
                self.scores.append(score)
            self.hopeless += [_ask(memory, question, self._rerank)[1] for question in unanswerable]

    def row(
        self, name: str, measure: Callable[[Question, Hits, LineCosts], float], least: float = 0.0, *, kind: str = ""
    ) -> Row:
        """Return the mean of a measure over the questions, or those of one kind."""
        values = [float(measure(*answer)) for answer in self.hits if not kind or answer[0].kind == kind]
        mean = fmean(values)
        asked = {"asked": f"≥ {least:g}", "met": mean >= least} if least else {"asked": "printed"}
        return Row(name, mean, interval=interval(values), **asked)

    def abstention(self, name: str, least: float) -> list[Row]:
        """Return how well the best score tells answerable questions from others, and what the default floor does."""
        area = area_under_roc(self.scores, self.hopeless)
        lost, silenced = (fmean(score < FLOOR for score in scores) for scores in (self.scores, self.hopeless))
        under = f"{name}: best score under the default min_score ({FLOOR:g})"
        return [
            Row(f"{name}: abstention, AUC of the best hit's score", area, f"≥ {least:g}", area >= least),
            Row(f"{under}, answerable questions", lost, f"≤ {MOST_LOST:g}", lost <= MOST_LOST),
            Row(f"{under}, others", silenced, "printed"),
        ]


def locomo(data: Path, state: Path, *, rerank: bool = False) -> list[Row]:
    """Ask every question of its own conversation."""
    questions = read_questions(data / "locomo" / "questions.jsonl")
    unanswerable = read_questions(data / "locomo" / "unanswerable.jsonl")
    answers = _Answers(rerank=rerank)
    for name in sorted({question.root for question in questions}):
        own = [question for question in questions if question.root == name]
        answers.ask(data / "locomo" / name, state, own, (q for q in unanswerable if q.root == name))

    def recall(budget: int) -> Callable[[Question, Hits, LineCosts], float]:
        return lambda question, hits, costs: recall_in_budget(hits, question.relevant, budget, costs)

    return [
        answers.row(f"locomo, {len(questions)} questions: recall@1000t", recall(1000), 0.87),
        answers.row("locomo: recall@2000t", recall(2000), 0.915),
        answers.row("locomo: multi-hop, recall@1000t", recall(1000), 0.62, kind="multi-hop"),
        answers.row("locomo: nDCG@10", lambda question, hits, _: ndcg_at(hits, question.relevant, 10), 0.71),
        answers.row("locomo: recall@10", lambda question, hits, _: recall_at(hits, question.relevant, 10)),
        *answers.abstention("locomo", 0.80),
    ]


def facts(data: Path, state: Path, *, rerank: bool = False) -> list[Row]:
    """Ask for single facts in daily logs and a MEMORY.md among other notes; then what only another memory knows."""
    questions = read_questions(data / "facts" / "questions.jsonl")
    answers = _Answers(rerank=rerank)
    answers.ask(_facts_among_notes(data, state), state, questions, read_questions(data / "faq" / "questions.jsonl"))

    def evidence(budget: int) -> Callable[[Question, Hits, LineCosts], float]:
        return lambda question, hits, costs: evidence_in_budget(hits, question.evidence, budget, costs)

    def hit_at(k: int, most_lines: int) -> Callable[[Question, Hits, LineCosts], float]:
        return lambda question, hits, _: holds_evidence(hits[:k], question.evidence, most_lines)

    return [
        answers.row(f"facts, {len(questions)} questions: hit@1", hit_at(1, MOST_LINES), 0.61),
        answers.row("facts: hit@5", hit_at(5, MOST_LINES), 0.82),
        answers.row("facts: line hit@1", hit_at(1, 3), 0.58),
        answers.row("facts: recall@300t", evidence(300), 0.82),
        answers.row("facts: recall@1000t", evidence(1000)),
        *answers.abstention("facts", 0.85),
    ]


def faq(data: Path, state: Path, *, rerank: bool = False) -> list[Row]:
    """Ask questions about documents in other words than theirs; then what only another memory knows."""
    questions = read_questions(data / "faq" / "questions.jsonl")
    answers = _Answers(rerank=rerank)
    answers.ask(data / "faq" / "notes", state, questions, read_questions(data / "facts" / "questions.jsonl"))

    def rank(question: Question, hits: Hits) -> int:
        return answer_rank(hits, question.relevant)

    return [
        answers.row(f"faq, {len(questions)} questions: hit@1", lambda q, hits, _: rank(q, hits) == 1, 0.77),
        answers.row("faq: hit@5", lambda q, hits, _: 0 < rank(q, hits) <= 5, 0.93),
        answers.row("faq: MRR@10", lambda q, hits, _: reciprocal(rank(q, hits)), 0.845),
        *answers.abstention("faq", 0.85),
    ]


def rfcs(data: Path, state: Path, *, rerank: bool = False) -> list[Row]:
    """Ask the questions about the Rust RFCs."""
    questions = read_questions(data / "rfcs.questions.jsonl")
    answers = _Answers(rerank=rerank)
    answers.ask(data / "rfcs", state, questions, ())

    def rank(question: Question, hits: Hits) -> int:
        return file_rank(hits, question.relevant)

    return [
        answers.row(f"rfcs, {len(questions)} questions: file hit@1", lambda q, hits, _: rank(q, hits) == 1, 0.85),
        answers.row("rfcs: file hit@3", lambda q, hits, _: 0 < rank(q, hits) <= 3, 0.875),
        answers.row("rfcs: MRR@10", lambda q, hits, _: reciprocal(rank(q, hits)), 0.875),
        answers.row("rfcs: line hit@5", lambda q, hits, _: line_hit_at(hits, q.relevant, 5), 0.80),
    ]


def _facts_among_notes(data: Path, state: Path) -> Path:
    """Return a root that holds the facts and the first files of the RFCs, by path."""
    root = state / "facts-among-notes"
    if not root.exists():
        shutil.copytree(data / "facts" / "notes", root)
        names = sorted(path.relative_to(data / "rfcs").as_posix() for path in (data / "rfcs").rglob("*.md"))
        for name in names[:OTHER_NOTES]:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(data / "rfcs" / name, root / name)
    return root


def _ask(memory: Memory, question: Question, rerank: bool) -> tuple[Hits, float]:
    result = memory.search(question.text, limit=HITS, rerank=rerank)
    if rerank and any("rerank" not in hit.ranks for hit in result.hits):  # it would measure something else
        raise MemsyncError(f"not reranked: {'; '.join(result.warnings)}")
    hits = [(hit.path, hit.start_line, hit.end_line) for hit in result.hits]
    return hits, result.hits[0].score if result.hits else 0.0
