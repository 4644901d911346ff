"""What it costs to find that nothing changed: a sync of 10,000 notes over a bare walk of the same tree."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from benchmarks.indexes import opened
from benchmarks.report import Row
from benchmarks.timing import in_turn

NOTES = 10_000
FOLDERS = 100
RUNS = 15


def ten_thousand(state: Path) -> list[Row]:
    """Make the notes, sync them, and measure further syncs in turn with `os.scandir` and `stat`."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number in range(NOTES):
            path = root / f"{number % FOLDERS:03d}" / f"note-{number:05d}.md"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"# Note {number}\n\nThe heron number {number} nests in alder {number % 97}.\n")
        with opened(root, state) as memory:
            memory.sync()
            time.sleep(2.1)  # a stamp younger than its file by less than two seconds proves nothing
            memory.sync()
            ours, bare, ratio = in_turn(memory.sync, lambda: walk(folder), RUNS)
    figure = f"{ratio:.2f} × ({ours * 1000:.0f} ms over {bare * 1000:.0f} ms)"
    return [Row(f"sync of {NOTES:,} unchanged notes over scandir and stat", figure, "≤ 2.0 ×", ratio <= 2.0)]


def walk(folder: str) -> int:
    """Stat every file beneath a folder and return how many there are."""
    count = 0
    pending = [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)
                    count += 1
    return count
