"""How many planted contradictions memsync finds, and how many other pairs it lists.

`contradictions` copies a statement of the notes into a note of its own with another number or name, or a negation.
`pairs` reads pairs of notes that people might write; half of these pairs do not contradict each other.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean

from benchmarks.figures import Row
from benchmarks.memories import opened
from memsync.features.evaluation.measures import interval

PAIRS = Path(__file__).parent / "data" / "contradictions.jsonl"
"""Pairs of two notes: `form` of the statement, whether they `contradict`, and `why` not."""
SEED = 26
PLANTED = 100
"""In each of the two memories."""
NAMES = ("Marta", "Oslo", "Kernel", "Delta", "Quito", "Noor")
_STATEMENT = re.compile(r"(?:- (?:\d\d:\d\d )?)?([A-Z][^|>#]{40,200}\.)")
_NUMBER = re.compile(r"(?<![\w`./#-])\d+(?:[.,]\d+)?(?![\w`/-])")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}\b")
_VERB = re.compile(r"\b(?:is|are|was|were|can|will|should|has|must)\b(?! not)")


def written_pairs(state: Path) -> list[Row]:
    """Look for a contradiction in each of the pairs of notes."""
    found: Counter[tuple[bool, bool]] = Counter()
    for number, line in enumerate(PAIRS.read_text(encoding="utf-8").splitlines()):
        pair, root = json.loads(line), state / f"pair-{number}"
        for path, text in pair["notes"].items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        with opened(root, state, search_mode="keyword") as memory:
            memory.sync()
            is_listed = bool(memory.contradictions().contradictions)
        if is_listed != pair["contradict"]:
            print(f"{'listed' if is_listed else 'missed'}: {pair['notes']}", file=sys.stderr)
        found[pair["contradict"], is_listed] += 1
    recall = found[True, True] / (found[True, True] + found[True, False])
    precision = found[True, True] / max(found[True, True] + found[False, True], 1)
    return [
        Row(f"pairs: of {found.total()}, contradictions that are found (recall)", recall, "≥ 0.85", recall >= 0.85),
        Row("pairs: contradictions among those that are listed (precision)", precision, "≥ 0.9", precision >= 0.9),
    ]


def planted_pairs(data: Path, state: Path) -> list[Row]:
    """Plant statements in facts and in the Rust RFCs, and look for them."""
    found: list[float] = []
    false = notes = 0
    for name, source in (("facts", data / "facts" / "notes"), ("rfcs", data / "rfcs")):
        root = state / f"contradictions-{name}"
        if not root.exists():
            shutil.copytree(source, root)
        planted = _plant(root)
        with opened(root, state, search_mode="keyword") as memory:
            memory.sync()
            result = memory.contradictions()
        pairs = {frozenset((one.older.path, one.newer.path)) for one in result.contradictions}
        found += [float(frozenset(pair) in pairs) for pair in planted.items()]
        false += sum(not any(path.startswith("planted/") for path in pair) for pair in pairs)
        notes += result.notes - len(planted)
    a_hundred = 100 * false / notes
    return [
        Row(f"contradictions: of {len(found)} planted ones, those found", fmean(found), "≥ 0.8", fmean(found) >= 0.8,
            interval(found)),
        Row(f"contradictions: others, in 100 of {notes} notes", a_hundred, "≤ 1", a_hundred <= 1),
    ]  # fmt: skip


def _plant(root: Path) -> dict[str, str]:
    """Write altered statements into notes of their own; return those notes with the note of each original."""
    chance, statements = random.Random(SEED), []
    for path in sorted(root.rglob("*.md")):
        is_code = False
        for line in path.read_text(encoding="utf-8").split("\n") if "planted" not in path.parts else ():
            is_code ^= line.startswith("```")
            if not is_code and (match := _STATEMENT.fullmatch(line)):
                statements.append((path.relative_to(root).as_posix(), match[1]))
    chance.shuffle(statements)
    planted: dict[str, str] = {}
    for source, text in statements:
        if len(planted) < PLANTED and (other := _altered(text, chance)):
            note = f"planted/{len(planted)}.md"
            (root / note).parent.mkdir(exist_ok=True)
            (root / note).write_text(f"# Note {len(planted)}\n\n- {other}\n", encoding="utf-8")
            planted[note] = source
    return planted


def _altered(text: str, chance: random.Random) -> str:
    """Return a statement that contradicts another one; empty if nothing in it can be altered."""
    places = [(kind, match) for kind in (_NUMBER, _NAME, _VERB) if (match := _one(list(kind.finditer(text)), chance))]
    if not places:
        return ""
    kind, match = chance.choice(places)
    new = {_NUMBER: str(chance.randint(200, 900)), _NAME: chance.choice(NAMES)}.get(kind, f"{match[0]} not")
    return text[: match.start()] + new + text[match.end() :]


def _one(matches: list[re.Match[str]], chance: random.Random) -> re.Match[str] | None:
    return chance.choice(matches) if matches else None
