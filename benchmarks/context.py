"""What a context of a budget holds of the evidence, beside plain search at the same budget (`locomo/`)."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import fmean, median

from benchmarks.indexes import opened
from benchmarks.measures import Question, read_questions, recall_in_budget
from benchmarks.quality import LineCosts
from benchmarks.report import Row
from memsync.features.context.compose import hits_for
from memsync.model.context import Context
from memsync.wiring import make_token_counter

BUDGETS = (500, 2_000, 8_000)


def evidence(data: Path, state: Path) -> list[Row]:
    """Ask every question of its own conversation, once as a context and once as a search, at each budget."""
    questions = read_questions(data / "locomo" / "questions.jsonl")
    count = make_token_counter().count
    shares: dict[int, list[tuple[float, float]]] = {budget: [] for budget in BUDGETS}
    over, times = 0, []
    for name in sorted({question.root for question in questions}):
        root = data / "locomo" / name
        with opened(root, state) as memory:
            memory.sync()
            costs = LineCosts(root)
            for question in (one for one in questions if one.root == name):
                for budget in BUDGETS:
                    found = memory.search(question.text, limit=hits_for(budget)).hits
                    hits = [(hit.path, hit.start_line, hit.end_line) for hit in found]
                    started = time.perf_counter()
                    context = memory.context(question.text, budget=budget)
                    times.append((time.perf_counter() - started) * 1000)
                    over += count([context.text])[0] > budget or context.tokens > budget
                    plain = recall_in_budget(hits, question.relevant, budget, costs)
                    shares[budget].append((_share(context, question), plain))
    rows = [
        Row(
            f"context, {len(questions)} questions at {', '.join(f'{b:,}' for b in BUDGETS)}: over the budget",
            over,
            "0",
            not over,
        ),
        Row("context: median time, in-process, ms", median(times), "printed"),
    ]
    for budget, figures in shares.items():
        own, plain = (fmean(column) for column in zip(*figures, strict=True))
        rows.append(Row(f"context: evidence at {budget:,}", own, f"printed; plain search {plain:.3f}"))
    return rows


def _share(context: Context, question: Question) -> float:
    """Return the share of the relevant ranges whose every line the context quotes."""
    lines = {
        (passage.path, line)
        for part in context.parts
        for passage in part.passages
        for line in range(passage.start_line, passage.end_line + 1)
    }
    ranges = question.relevant
    return sum(all((path, line) in lines for line in range(a, b + 1)) for path, a, b in ranges) / len(ranges)
