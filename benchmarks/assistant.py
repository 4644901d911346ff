"""Conversations with an assistant: is the evidence found, which is mostly in what the user said?

The data are threads as `thread import` takes them. Each question is asked of its own thread. A piece of evidence is
found if a line of one of its messages is among the hits that fit into a budget of tokens.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from benchmarks.figures import Row
from benchmarks.measures import Line, lines_of, taken_in_budget
from benchmarks.memories import opened
from benchmarks.quality import line_costs
from memsync.features.conversations.importing import import_file
from memsync.features.evaluation.measures import area_under_roc, interval
from memsync.memory import Memory
from memsync.model.answer import Hit

HITS = 50
BOTH_SIDES_BUDGET = 2_000
BUDGETS = {1_000: 0.50, 2_000: 0.62, 4_000: 0.0}


def conversations(data: Path, state: Path) -> list[Row]:
    """Ask every question of its thread."""
    source, root = data / "beam", state / "assistant"
    if not root.exists():
        root.mkdir()
        _import(source / "chats.jsonl", root, state)
    questions = [msgspec.json.decode(line) for line in (source / "questions.jsonl").read_bytes().splitlines()]
    with opened(root, state, search_min_score="0") as memory:
        memory.sync()
        return _rows(memory, root, questions)


def _import(chats: Path, root: Path, state: Path) -> None:
    try:
        with opened(root, state) as memory:
            import_file(memory, chats)
    except BaseException:
        shutil.rmtree(root)
        raise


def _rows(memory: Memory, root: Path, questions: list[dict[str, Any]]) -> list[Row]:
    costs = line_costs(root)
    shares: dict[int, list[float]] = {budget: [] for budget in BUDGETS}
    newest: list[float] = []
    both_sides: list[float] = []
    scores: dict[bool, list[float]] = {True: [], False: []}
    for question in questions:
        path = f"threads/{question['thread']}.md"
        hits = memory.search(question["question"], limit=HITS, path=(path,)).hits
        scores[bool(question["any_of"])].append(hits[0].score if hits else 0.0)
        pieces = _pieces(memory, path, question["any_of"])
        if not pieces:
            continue
        ranges = [(hit.path, hit.start_line, hit.end_line) for hit in hits]
        for budget, found in shares.items():
            taken = taken_in_budget(ranges, budget, costs)
            found.append(fmean(not taken.isdisjoint(piece) for piece in pieces))
        if question["kind"] == "contradiction_resolution":
            taken = taken_in_budget(ranges, BOTH_SIDES_BUDGET, costs)
            both_sides.append(float(all(not taken.isdisjoint(piece) for piece in pieces)))
        if question["kind"] == "knowledge_update" and len(pieces) > 1:
            places = [_first(hits, piece) for piece in pieces[:2]]
            newest.append(float(places[1] < len(hits) and places[1] <= places[0]))
    name = f"assistant, {len(next(iter(shares.values())))} questions"
    rows = [
        Row(f"{name}: recall@{budget}t", fmean(found), f"≥ {goal:g}", fmean(found) >= goal, interval(found))
        for budget, goal in BUDGETS.items()
        if (found := shares[budget])
    ]
    return [
        *rows,
        Row(
            "assistant: the newer of two statements is not after the older",
            fmean(newest),
            "≥ 0.75",
            fmean(newest) >= 0.75,
            interval(newest),
        ),
        Row(
            f"assistant: both sides of a contradiction within {BOTH_SIDES_BUDGET} tokens",
            fmean(both_sides),
            "≥ 0.85",
            fmean(both_sides) >= 0.85,
            interval(both_sides),
        ),
        Row("assistant: abstention, AUC of the best hit's score", area_under_roc(scores[True], scores[False])),
    ]


def _pieces(memory: Memory, path: str, evidence: list[list[int]]) -> list[set[Line]]:
    """Return the lines of the messages of each piece of evidence; messages count from 0."""
    messages = memory.thread(path).messages
    return [
        {
            line
            for number in of_piece
            for line in lines_of((path, messages[number].start_line, messages[number].end_line))
        }
        for of_piece in evidence
    ]


def _first(hits: tuple[Hit, ...], piece: set[Line]) -> int:
    """Return the place of the first hit with a line of a piece of evidence, the number of hits if there is none."""
    found = (n for n, hit in enumerate(hits) if lines_of((hit.path, hit.start_line, hit.end_line)) & piece)
    return next(found, len(hits))
