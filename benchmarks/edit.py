"""One changed paragraph in a note of median length: how soon its text is searchable, over markdown-it's parse of it."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

from markdown_it import MarkdownIt

from benchmarks.indexes import opened
from benchmarks.report import Row
from benchmarks.timing import seconds

RUNS = 15


def one_paragraph(data: Path, state: Path) -> list[Row]:
    """Edit one note of a copy of the RFCs and ask for the new word, again and again."""
    with tempfile.TemporaryDirectory(dir=state) as folder:
        root = Path(folder) / "rfcs"
        shutil.copytree(data / "rfcs", root)
        notes = sorted(root.rglob("*.md"), key=lambda path: path.stat().st_size)
        note = notes[len(notes) // 2]
        paragraphs = note.read_text(encoding="utf-8").split("\n\n")
        parser = MarkdownIt("commonmark").enable("table")
        with opened(root, Path(folder), search_mode="keyword", search_deadline_ms="600000") as memory:
            memory.search("warm up")  # without vectors, whose cost is another measure: words are searchable at once
            found, parsing = [], []
            for run in range(RUNS + 1):
                paragraphs[len(paragraphs) // 2] = f"The heron edit{run}x nests in the alder."
                note.write_text("\n\n".join(paragraphs), encoding="utf-8")
                started = time.perf_counter()
                hits = memory.search(f"edit{run}x").hits
                found.append(time.perf_counter() - started)
                assert hits and hits[0].path == note.relative_to(root).as_posix()
                text = note.read_text(encoding="utf-8")
                parsing.append(seconds(lambda text=text: parser.parse(text)))  # type: ignore[misc]  # because: as in cold.py
    ratio = median(a / b for a, b in zip(found[1:], parsing[1:], strict=True))
    size = (data / "rfcs" / note.relative_to(root)).stat().st_size
    times = f"{median(found[1:]) * 1000:.0f} ms over {median(parsing[1:]) * 1000:.1f} ms"
    figure = f"{ratio:.2f} × ({times}, {size / 1000:.0f} kB)"
    return [Row("one edited paragraph found again over markdown-it's parse of the note", figure, "≤ 4 ×", ratio <= 4)]
