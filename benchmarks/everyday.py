"""Everyday questions in few words about small memories: a few notes, most questions in other words than theirs.

The authors of large question sets look at the notes while they write, and use the words of the notes. These questions
use other words, as somebody does who has forgotten the wording. So searches find fewer answers, with lower scores.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.figures import Row
from benchmarks.memories import opened
from memsync.features.evaluation.measures import area_under_roc, interval

DATA = Path(__file__).parent / "data" / "everyday.json"


def small_memories(state: Path) -> list[Row]:
    """Ask each memory answerable and unanswerable questions; a hit answers if it contains the expected words."""
    first: list[float] = []
    among_three: list[float] = []
    scores: dict[bool, list[float]] = {True: [], False: []}
    silenced: dict[bool, list[bool]] = {True: [], False: []}
    for memory_data in json.loads(DATA.read_text(encoding="utf-8"))["memories"]:
        answerable = memory_data["answerable"]
        with opened(_written(memory_data, state), state) as memory:
            memory.sync()
            for question in [*answerable, *memory_data["unanswerable"]]:
                hits = memory.search(question, min_score=0).hits
                is_answerable = question in answerable
                scores[is_answerable].append(hits[0].score if hits else 0.0)
                silenced[is_answerable].append(not memory.search(question).hits)
                if is_answerable:
                    answers = [answerable[question] in hit.text for hit in hits[:3]]
                    first.append(float(any(answers[:1])))
                    among_three.append(float(any(answers)))
    answered, others = scores[True], scores[False]
    measure = f"everyday, {len(first)} questions about three small memories: hit@1"
    return [
        Row(measure, fmean(first), interval=interval(first)),
        Row("everyday: hit@3", fmean(among_three), interval=interval(among_three)),
        Row(f"everyday: abstention, AUC against {len(others)} others", area_under_roc(answered, others)),
        Row("everyday: answerable questions that the default min_score silences", fmean(silenced[True])),
        Row("everyday: others that it silences", fmean(silenced[False])),
    ]


def _written(memory_data: dict[str, Any], state: Path) -> Path:
    root = state / f"everyday-{memory_data['name']}"
    for name, text in memory_data["notes"].items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root
