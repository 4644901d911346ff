"""From a save to its answer, in a root of 10,000 notes: by word, by meaning, and after a checkout of 5,000."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.figures import Row
from benchmarks.memories import FOLDERS, RunningDaemon, note_path, running, write_notes
from memsync.memory import RemoteMemory
from memsync.search.retrievals import percentile

NOTES = 10_000
CHANGED = 5_000
SAVES = 40
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.005
CHECKOUT_POLL_SECONDS = 0.2


def saved_to_found(state: Path) -> list[Row]:
    """Save a new word and search for it until it is found; then check out another branch."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_notes(root, NOTES)
        with running(root, state) as daemon:
            daemon.settle()
            time.sleep(2.5)
            return [*_by_word(daemon, root), *_by_meaning(daemon, root), *_checkout(daemon, root)]


def _by_word(daemon: RunningDaemon, root: Path) -> list[Row]:
    rows = []
    with daemon.connect() as memory:
        for fresh in ("strict", "none"):
            times = []
            for number in range(SAVES):
                word = f"zyx{fresh}{number}"
                path = note_path(root, number)
                path.write_text(path.read_text() + f"\nThe bittern calls {word} tonight.\n")
                times.append(_seconds_until(partial(_has_word, memory, word, fresh)))
            rows += _rows(f"saved to found by word, {NOTES:,} notes, fresh={fresh}", times, (0.120, 0.300))
    return rows


def _has_word(memory: RemoteMemory, word: str, fresh: str) -> bool:
    return bool(memory.search(word, mode="keyword", limit=1, fresh=fresh).hits)


def _by_meaning(daemon: RunningDaemon, root: Path) -> list[Row]:
    times = []
    with daemon.connect() as memory:
        for number in range(SAVES // 2):
            path = note_path(root, number)
            path.write_text(
                f"# Rescue {number}\n\nThe kitten number {number} was carried down the ladder by firemen.\n"
            )
            question = f"a young cat number {number} saved from a height by emergency services"
            name = str(path.relative_to(root))
            times.append(_seconds_until(partial(_has_meaning, memory, question, name)))
    return _rows(f"saved to found by meaning, {NOTES:,} notes", times, (None, 1.0))


def _has_meaning(memory: RemoteMemory, question: str, name: str) -> bool:
    hits = memory.search(question, mode="vector", limit=3).hits
    return any(hit.path == name and "vector" in hit.ranks for hit in hits)


def _checkout(daemon: RunningDaemon, root: Path) -> list[Row]:
    """Change half the notes on a branch, let the daemon see both branches, and time a second switch to that branch."""
    git = ["git", "-C", str(root), "-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0"]

    def run(*arguments: str) -> None:
        subprocess.run([*git, *arguments], check=True, capture_output=True)

    run("init", "-q", "-b", "main")
    run("add", "-A")
    run("commit", "-qm", "one")
    run("checkout", "-qb", "other")
    for path in sorted(root.rglob("note-*.md"))[:CHANGED]:
        path.write_text(path.read_text() + "\nOn this branch the curlew sings in branchword.\n")
    run("commit", "-qam", "two")
    daemon.settle()
    run("checkout", "-q", "main")
    daemon.settle()
    with daemon.connect() as memory:
        before = memory.status()
        run("checkout", "-q", "other")
        in_last_folder = f"branchword in:{(CHANGED - 1) // (NOTES // FOLDERS):03d}/"
        took = _seconds_until(partial(_is_fresh, memory, in_last_folder), CHECKOUT_POLL_SECONDS)
        memory.wait(vectors=True, seconds=PATIENCE_SECONDS)
        after = memory.status()
        computed = after.vectors - before.vectors if after.pending_vectors else 0
    measure = f"git checkout of {CHANGED:,} notes seen before: text searchable"
    return [
        Row(measure, f"{took:.1f} s", "≤ 10 s", took <= 10),
        Row("the same: passages left to embed", computed, "0", computed == 0),
    ]


def _is_fresh(memory: RemoteMemory, query: str) -> bool:
    result = memory.search(query, mode="keyword", limit=1)
    return bool(result.hits) and not result.freshness.stale


def _seconds_until(is_found: Callable[[], bool], poll_seconds: float = POLL_SECONDS) -> float:
    started = time.perf_counter()
    while not is_found():
        if time.perf_counter() - started > PATIENCE_SECONDS:
            raise TimeoutError("no search finds the change")
        time.sleep(poll_seconds)
    return time.perf_counter() - started


def _rows(name: str, times: list[float], limits: tuple[float | None, float]) -> list[Row]:
    rows = []
    for share, limit in zip((0.5, 0.95), limits, strict=True):
        value = percentile(times, share)
        target = (f"≤ {limit * 1000:.0f} ms", value <= limit) if limit else ("", None)
        rows.append(Row(f"{name}: p{share * 100:.0f}", f"{value * 1000:.0f} ms", *target))
    return rows
