"""Retrieval quality on the question files of a data folder: conversations, facts, questions about documents, RFCs.

Each figure is a mean over questions with its 95 % bootstrap interval. A measurement also asks what its memory cannot
answer, and shows how well the score of the best hit tells one from the other. `context` shows what a context holds of
the evidence, beside plain search with the same budget.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean, median

from benchmarks.figures import Row
from benchmarks.measures import (
    LineCost,
    Question,
    covered_share,
    file_rank,
    holds_evidence,
    lines_of,
    ndcg_at,
    read_questions,
    recall_at,
    taken_in_budget,
)
from benchmarks.memories import opened
from memsync.errors import MemsyncError
from memsync.features.context.compose import hits_for
from memsync.features.evaluation.measures import (
    MAX_LOST_SHARE,
    Range,
    answer_rank,
    area_under_roc,
    interval,
    reciprocal,
)
from memsync.memory import Memory
from memsync.model.answer import Hit
from memsync.settings.settings_list import SETTINGS
from memsync.wiring import make_token_counter

HITS, HITS_FOR_NOTES = 50, 100
FLOOR = next(setting.default for setting in SETTINGS if setting.name == "search.min_score")
OTHER_NOTES = 60
"""Files of the RFCs that the facts are hidden among."""
MAX_LINES = 11
"""A longer hit does not count as one that shows a fact."""
BUDGETS = (500, 2_000, 8_000)

Hits = Sequence[Range]
Measure = Callable[[Question, Hits, LineCost], float]


def line_costs(root: Path) -> LineCost:
    """Return what gives the tokens of a line of a memory root; it counts a file at a time."""
    counter = make_token_counter()

    @cache
    def costs(path: str) -> Sequence[int]:
        return counter.count((root / path).read_text(encoding="utf-8").split("\n"))

    return lambda path, line: costs(path)[line - 1]


class _Answers:
    """The hits of a memory for questions that it can answer, and the best scores for these and for others."""

    def __init__(self, *, rerank: bool) -> None:
        self._rerank = rerank
        self.hits: list[tuple[Question, Hits, LineCost]] = []
        self.notes: list[tuple[Question, list[str]]] = []
        self.scores: list[float] = []
        self.hopeless: list[float] = []

    def ask(self, root: Path, state: Path, questions: Iterable[Question], unanswerable: Iterable[Question]) -> None:
        costs = line_costs(root)
        with opened(root, state, search_min_score="0") as memory:
            memory.sync()
            for question in questions:
                hits, score = _ask(memory, question, self._rerank)
                self.hits.append((question, hits[:HITS], costs))
                self.notes.append((question, list(dict.fromkeys(path for path, _, _ in hits))))
                self.scores.append(score)
            self.hopeless += [_ask(memory, question, self._rerank)[1] for question in unanswerable]

    def row(self, name: str, measure: Measure, target: float = 0.0, *, kind: str = "") -> Row:
        """Return the mean of a measure over the questions, or those of one kind."""
        values = [float(measure(*answer)) for answer in self.hits if kind in ("", answer[0].kind)]
        mean = fmean(values)
        if not target:
            return Row(name, mean, "printed", interval=interval(values))
        return Row(name, mean, f"≥ {target:g}", mean >= target, interval(values))

    def by_note(self, name: str, first: float, recall: Mapping[int, float]) -> Iterator[Row]:
        """Yield how often the first note has evidence, and the share of the notes with evidence among the first k."""
        found = [({path for path, _, _ in question.relevant}, notes) for question, notes in self.notes]
        hit = [float(notes[:1] != [] and notes[0] in wanted) for wanted, notes in found]
        yield Row(f"{name}: note hit@1", fmean(hit), f"≥ {first:g}", fmean(hit) >= first, interval(hit))
        for k, target in recall.items():
            shares = [len(wanted.intersection(notes[:k])) / len(wanted) for wanted, notes in found]
            whole = fmean(share == 1.0 for share in shares)
            measure = f"{name}: note recall@{k} (all notes with evidence: {whole:.3f})"
            yield Row(measure, fmean(shares), f"≥ {target:g}", fmean(shares) >= target, interval(shares))

    def abstention(self, name: str, target: float) -> list[Row]:
        """Return how well the best score tells answerable questions from others, and what the default floor does."""
        area = area_under_roc(self.scores, self.hopeless)
        lost, silenced = (fmean(score < FLOOR for score in scores) for scores in (self.scores, self.hopeless))
        under = f"{name}: best score under the default min_score ({FLOOR:g})"
        return [
            Row(f"{name}: abstention, AUC of the best hit's score", area, f"≥ {target:g}", area >= target),
            Row(f"{under}, answerable questions", lost, f"≤ {MAX_LOST_SHARE:g}", lost <= MAX_LOST_SHARE),
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

    def recall(budget: int) -> Measure:
        return lambda q, hits, costs: covered_share(q.relevant, taken_in_budget(hits, budget, costs))

    return [
        answers.row(f"locomo, {len(questions)} questions: recall@1000t", recall(1000), 0.87),
        answers.row("locomo: recall@2000t", recall(2000), 0.915),
        answers.row("locomo: multi-hop, recall@1000t", recall(1000), 0.62, kind="multi-hop"),
        answers.row("locomo: nDCG@10", lambda q, hits, _: ndcg_at(hits, q.relevant, 10), 0.71),
        answers.row("locomo: recall@10", lambda q, hits, _: recall_at(hits, q.relevant, 10)),
        *answers.by_note("locomo", 0.78, {5: 0.90, 10: 0.95}),
        *answers.abstention("locomo", 0.80),
    ]


def facts(data: Path, state: Path, *, rerank: bool = False) -> list[Row]:
    """Ask for single facts in daily logs and a MEMORY.md among other notes; then ask what only another memory knows."""
    questions = read_questions(data / "facts" / "questions.jsonl")
    answers = _Answers(rerank=rerank)
    answers.ask(_facts_among_notes(data, state), state, questions, read_questions(data / "faq" / "questions.jsonl"))

    def recall(budget: int) -> Measure:
        def share(question: Question, hits: Hits, costs: LineCost) -> float:
            """Return the share of the pieces of evidence of which a line is among the hits."""
            lines = taken_in_budget(hits, budget, costs)
            return fmean(not lines.isdisjoint(stating) for stating in question.evidence)

        return share

    def hit_at(k: int, max_lines: int = MAX_LINES) -> Measure:
        return lambda q, hits, _: holds_evidence(hits[:k], q.evidence, max_lines)

    return [
        answers.row(f"facts, {len(questions)} questions: hit@1", hit_at(1), 0.61),
        answers.row("facts: hit@5", hit_at(5), 0.82),
        answers.row("facts: line hit@1", hit_at(1, 3), 0.58),
        answers.row("facts: recall@300t", recall(300), 0.82),
        answers.row("facts: recall@1000t", recall(1000)),
        *answers.abstention("facts", 0.85),
    ]


def faq(data: Path, state: Path, *, rerank: bool = False) -> list[Row]:
    """Ask questions about documents in other words than theirs; then ask what only another memory knows."""
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
        answers.row("rfcs: line hit@5", lambda q, hits, _: 0 < answer_rank(hits, q.relevant) <= 5, 0.80),
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
    result = memory.search(question.text, limit=HITS_FOR_NOTES, rerank=rerank)
    if rerank and any("rerank" not in hit.ranks for hit in result.hits):  # it would measure something else
        raise MemsyncError(f"not reranked: {'; '.join(result.warnings)}")
    return _ranges(result.hits), result.hits[0].score if result.hits else 0.0


def _ranges(hits: Iterable[Hit]) -> Hits:
    return [(hit.path, hit.start_line, hit.end_line) for hit in hits]


def context(data: Path, state: Path) -> list[Row]:
    """Ask every question of its own conversation, once for a context and once as a search, with each budget."""
    questions = read_questions(data / "locomo" / "questions.jsonl")
    count = make_token_counter().count
    shares: dict[int, list[tuple[float, float]]] = {budget: [] for budget in BUDGETS}
    over, times = 0, []
    for name in sorted({question.root for question in questions}):
        root = data / "locomo" / name
        with opened(root, state) as memory:
            memory.sync()
            costs = line_costs(root)
            for question in (question for question in questions if question.root == name):
                for budget in BUDGETS:
                    hits = _ranges(memory.search(question.text, limit=hits_for(budget)).hits)
                    started = time.perf_counter()
                    composed = memory.context(question.text, budget=budget)
                    times.append((time.perf_counter() - started) * 1000)
                    over += count([composed.text])[0] > budget or composed.tokens > budget
                    passages = [passage for part in composed.parts for passage in part.passages]
                    quoted = {line for p in passages for line in lines_of((p.path, p.start_line, p.end_line))}
                    plain = covered_share(question.relevant, taken_in_budget(hits, budget, costs))
                    shares[budget].append((covered_share(question.relevant, quoted), plain))
    measure = f"context, {len(questions)} questions at {', '.join(f'{b:,}' for b in BUDGETS)}: over the budget"
    rows = [Row(measure, over, "0", not over), Row("context: median time, in-process, ms", median(times), "printed")]
    for budget, figures in shares.items():
        own, plain = (fmean(column) for column in zip(*figures, strict=True))
        rows.append(Row(f"context: evidence at {budget:,}", own, f"printed; plain search {plain:.3f}"))
    return rows
