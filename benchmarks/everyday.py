"""Everyday questions in few words about small memories: a few notes, most questions in other words than theirs.

The authors of large question sets look at the notes while they write, and use the words of the notes. These questions
use other words, as somebody does who has forgotten the wording. So searches find fewer answers, with lower scores.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.indexes import opened
from benchmarks.report import Row
from memsync.features.evaluation.measures import area_under_roc, interval
from memsync.memory import Memory
from memsync.model.answer import Hit

DATA = Path(__file__).parent / "data" / "everyday.json"


def small_memories(state: Path) -> list[Row]:
    """Ask each memory what it knows and what it does not; an answer is a hit with the words that tell it."""
    first, among_three, shown, silent = [], [], [], []
    sure, unsure = [], []
    for about in json.loads(DATA.read_text(encoding="utf-8"))["memories"]:
        root = _written(about, state)
        with opened(root, state) as memory:
            memory.sync()
            for question, words in about["answerable"].items():
                hits = memory.search(question, min_score=0).hits
                first.append(float(_tells(hits[:1], words)))
                among_three.append(float(_tells(hits[:3], words)))
                sure.append(hits[0].score if hits else 0.0)
                shown.append(_is_answered(memory, question))
            for question in about["unanswerable"]:
                hits = memory.search(question, min_score=0).hits
                unsure.append(hits[0].score if hits else 0.0)
                silent.append(not _is_answered(memory, question))
    return [
        Row(
            f"everyday, {len(first)} questions about three small memories: hit@1",
            fmean(first),
            interval=interval(first),
        ),
        Row("everyday: hit@3", fmean(among_three), interval=interval(among_three)),
        Row(f"everyday: abstention, AUC against {len(unsure)} others", area_under_roc(sure, unsure)),
        Row("everyday: answerable questions that the default min_score silences", 1 - fmean(shown)),
        Row("everyday: others that it silences", fmean(silent)),
    ]


def _written(about: dict[str, Any], state: Path) -> Path:
    root = state / f"everyday-{about['name']}"
    for name, text in about["notes"].items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def _tells(hits: tuple[Hit, ...], words: str) -> bool:
    return any(words in hit.text for hit in hits)


def _is_answered(memory: Memory, question: str) -> bool:
    return bool(memory.search(question).hits)
