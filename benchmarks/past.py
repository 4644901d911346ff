"""Search a repository's notes as they were: the same answers as in a clone of that commit, and how long they take.

`history/` in the data folder is a git repository of notes, with or without a working tree.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from statistics import median

from benchmarks.figures import Row, seconds
from benchmarks.memories import opened, own_user_folders
from memsync.memory import Memory
from memsync.past import drop_states

REPOSITORY = "history"
COMMITS = 200
QUESTIONS = 40
ASKED = 8
"""How many questions each commit gets; every fifth of all commits gets the next ones."""
STEP = 20
"""The first search of one in so many commits is timed."""
CACHE = 4_000_000_000
LISTED = 20

Answer = list[tuple[str, int, int, str]]


def states(data: Path, state: Path) -> list[Row]:
    """Compare the answers of COMMITS commits with those of clones, and take times."""
    source = data / REPOSITORY
    if not source.exists():
        return [Row("past", f"skipped: no repository {source}")]
    clone = state / "past"
    _git("clone", "--quiet", "--shared", str(source), str(clone))
    commits = _git("-C", str(clone), "log", "--first-parent", "--format=%H").split()
    chosen = commits[:: max(1, len(commits) // COMMITS)][:COMMITS]
    questions = _questions(clone)
    with own_user_folders(state), opened(clone, state / "live", cache_bytes=CACHE) as memory:
        memory.sync()
        rows = [*_times(memory, chosen, questions), _first(memory, source, state, chosen[1::STEP], questions[0])]
        different = _different(memory, source, state, chosen, questions)
    shown = [Row("past: differs", text) for text in different[:LISTED]]
    return [
        Row(f"past: answers of {len(chosen)} commits that differ", len(different), "0", not different),
        *rows,
        *shown,
    ]


def _times(memory: Memory, commits: list[str], questions: list[str]) -> list[Row]:
    """Time searches of one commit, of the files now, and the first search of a commit."""
    memory.search(questions[0], at=commits[-1])
    pairs = [
        (seconds(memory.search, question, at=commits[-1]), seconds(memory.search, question)) for question in questions
    ]
    ratio = median(then / now for then, now in pairs)
    p50 = 1000 * median(then for then, _ in pairs)
    cold = [seconds(memory.search, questions[0], at=commit) for commit in commits[1::STEP]]
    return [
        Row("past: warm, × a search of the files now (p50)", ratio, "≤ 2", ratio <= 2),
        Row("past: warm, p50", f"{p50:.1f} ms"),
        Row(
            f"past: first search of a commit, p50 and slowest of {len(cold)}",
            f"{median(cold):.2f} s, {max(cold):.2f} s",
        ),
    ]


def _first(memory: Memory, source: Path, state: Path, commits: list[str], question: str) -> Row:
    """Compare the first search of a commit with a sync of a working tree that was switched to it.

    The vectors of all of them are in the cache already. States are dropped, and each begins from the one before it.
    """
    tree, beyond = state / "tree", list[float]()
    _git("clone", "--quiet", "--shared", str(source), str(tree))
    drop_states(memory.settings.index_dir)
    with opened(tree, state / "switched", cache_bytes=CACHE) as switched:
        switched.sync()
        for commit in commits:
            _git("-C", str(tree), "checkout", "--quiet", "--force", commit)
            indexing = seconds(switched.sync)
            first = seconds(memory.search, question, at=commit)
            beyond.append((first - indexing) * 1000 / switched.status().notes)
    text = f"{median(beyond):.2f} s, {max(beyond):.2f} s"
    measure = f"past: first search of a commit for 1,000 notes, less a sync to it: median and most of {len(beyond)}"
    return Row(measure, text, "≤ 1 s", median(beyond) <= 1)


def _different(memory: Memory, source: Path, state: Path, commits: list[str], questions: list[str]) -> list[str]:
    """Return each question whose answer differs from that of a clone at the commit that was indexed anew."""
    clone, different = state / "clone", list[str]()
    _git("clone", "--quiet", "--shared", str(source), str(clone))
    for number, commit in enumerate(commits):
        _git("-C", str(clone), "checkout", "--quiet", "--force", commit)
        asked = [questions[(number * ASKED + offset) % len(questions)] for offset in range(ASKED)]
        with opened(clone, state / "anew", cache_bytes=CACHE) as anew:
            anew.sync()
            expected = [_answer(anew, question) for question in asked]
        shutil.rmtree(state / "anew")
        for question, answer in zip(asked, expected, strict=True):
            while memory.search(question, at=commit).freshness.pending_vectors:
                pass
            if _answer(memory, question, at=commit) != answer:
                different.append(f"{commit[:12]}: {question}")
    return different


def _answer(memory: Memory, question: str, at: str = "") -> Answer:
    return [(hit.path, hit.start_line, hit.end_line, hit.text) for hit in memory.search(question, at=at).hits]


def _questions(root: Path) -> list[str]:
    """Return headings of notes, evenly taken."""
    notes = sorted(path for path in root.rglob("*.md") if ".git" not in path.parts)
    lines = (path.read_text(errors="replace").splitlines() for path in notes[:: max(1, len(notes) // QUESTIONS)])
    return [next((line.lstrip("# ") for line in text if line.startswith("#")), text[0]) for text in lines if text]


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout
