"""Syncs when nothing changed, over a bare walk; and the search for one changed paragraph, over a parse of its note."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

from markdown_it import MarkdownIt

from benchmarks.figures import Row, in_turn, ms_over, ratio_row, seconds
from benchmarks.memories import opened, write_notes

NOTES = 10_000
RUNS = 15


def unchanged(state: Path) -> list[Row]:
    """Make the notes, sync them, and measure further syncs in turn with `os.scandir` and `stat`."""
    with tempfile.TemporaryDirectory() as folder:
        write_notes(Path(folder), NOTES)
        with opened(Path(folder), state) as memory:
            memory.sync()
            time.sleep(2.1)  # a stamp younger than its file by less than two seconds proves nothing
            memory.sync()
            ours, bare, ratio = in_turn(memory.sync, lambda: walk(folder), RUNS)
    return [ratio_row(f"sync of {NOTES:,} unchanged notes over scandir and stat", ratio, 2.0, ms_over(ours, bare))]


def walk(folder: str) -> None:
    """Stat every file under a folder."""
    pending = [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)


def one_paragraph(data: Path, state: Path) -> list[Row]:
    """Edit one note of median length in a copy of the RFCs and search for the new word, again and again."""
    with tempfile.TemporaryDirectory(dir=state) as folder:
        root = Path(folder) / "rfcs"
        shutil.copytree(data / "rfcs", root)
        notes = sorted(root.rglob("*.md"), key=lambda path: path.stat().st_size)
        note = notes[len(notes) // 2]
        size = note.stat().st_size
        paragraphs = note.read_text(encoding="utf-8").split("\n\n")
        parser = MarkdownIt("commonmark").enable("table")
        with opened(root, Path(folder), search_mode="keyword", search_deadline_ms="600000") as memory:
            memory.search("warm up")  # without vectors, whose cost is another measure: words are searchable at once
            searching, parsing = [], []
            for run in range(RUNS + 1):
                paragraphs[len(paragraphs) // 2] = f"The heron edit{run}x nests in the alder."
                text = "\n\n".join(paragraphs)
                note.write_text(text, encoding="utf-8")
                started = time.perf_counter()
                hits = memory.search(f"edit{run}x").hits
                searching.append(time.perf_counter() - started)
                assert hits and hits[0].path == note.relative_to(root).as_posix()
                parsing.append(seconds(parser.parse, text))
    del searching[0], parsing[0]
    ratio = median(a / b for a, b in zip(searching, parsing, strict=True))
    times = f"{median(searching) * 1000:.0f} ms over {median(parsing) * 1000:.1f} ms, {size / 1000:.0f} kB"
    return [ratio_row("one edited paragraph found again over markdown-it's parse of the note", ratio, 4, times)]
