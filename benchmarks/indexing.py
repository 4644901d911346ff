"""Indexing: throughput, memory and size from nothing; what a sync costs without a change, and with one paragraph."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from markdown_it import MarkdownIt

from benchmarks.figures import Row, in_turn, ms_over, ratio_row, seconds
from benchmarks.memories import opened, write_notes
from benchmarks.served import resident_mb
from memsync.embed import minilm
from memsync.memory import Memory

PARTS = 5
SAMPLE_SECONDS = 0.05
BATCH_TOKENS = 512
NOTES = 10_000
RUNS = 15


def throughput(data: Path, state: Path) -> list[Row]:
    """Index five disjoint fifths of the RFCs, each in turn with its own passages through onnxruntime alone."""
    files = sorted((data / "rfcs").rglob("*.md"))
    ratios, ours, bare = [], [], []
    for part in range(PARTS):
        with tempfile.TemporaryDirectory(dir=state) as folder:
            root = Path(folder) / "notes"
            for file in files[part::PARTS]:
                target = root / file.relative_to(data / "rfcs")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
            with opened(root, Path(folder)) as memory:
                texts = list(dict.fromkeys(text for _, in_note in passages(memory) for text in in_note))
                indexing = seconds(memory.sync)
            limit = seconds(_run_bare_model, texts)
        ours.append(len(texts) / indexing)
        bare.append(len(texts) / limit)
        ratios.append(limit / indexing)
    figure = f"{median(ratios):.2f} ({median(ours):.0f} over {median(bare):.0f} passages/s)"
    return [Row("cold index of rfcs/: passages/s over onnxruntime alone", figure, "≥ 0.90", median(ratios) >= 0.90)]


def size_and_memory(data: Path, state: Path) -> list[Row]:
    """Index all RFCs in another process; return the peak memory of it and its workers, and the index's size."""
    root = data / "rfcs"
    markdown = sum(file.stat().st_size for file in root.rglob("*.md"))
    with tempfile.TemporaryDirectory(dir=state) as folder:
        code = (
            "from benchmarks.memories import opened; from pathlib import Path\n"
            f"opened(Path({str(root)!r}), Path({folder!r})).sync()"
        )
        peak = 0.0
        process = subprocess.Popen([sys.executable, "-c", code])
        while process.poll() is None:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a worker has just ended
                peak = max(peak, resident_mb(process.pid))
            time.sleep(SAMPLE_SECONDS)
        assert process.returncode == 0
        index = sum(file.stat().st_size for file in Path(folder).rglob("index.db*"))
    return [
        Row("peak memory while indexing rfcs/, workers included", f"{peak:.0f} MB", "≤ 320 MB", peak <= 320),
        ratio_row("index size over the Markdown's", index / markdown, 4, f"{index / 1e6:.1f} MB"),
    ]


def passages(memory: Memory) -> Iterator[tuple[str, list[str]]]:
    """Yield each note of a memory with its passages, by path."""
    for path in sorted(memory.files.scan().files):
        _, chunks = memory.reader.read(path, memory.files.read(path)[0])
        yield path, [chunk.text for chunk in chunks]


def _run_bare_model(texts: Sequence[str]) -> None:
    """Run texts through the built-in model with nothing around it: sorted, batched by tokens, pooled, normalised."""
    import numpy as np
    import onnxruntime
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count() or 1
    session = onnxruntime.InferenceSession(str(minilm.FOLDER / "model.onnx"), options, ["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(minilm.FOLDER / "tokenizer.json"))
    encoded = sorted((encoding.ids for encoding in tokenizer.encode_batch(list(texts))), key=len)
    for batch in _batches(encoded):
        ids = np.zeros((len(batch), max(map(len, batch))), np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = session.run(None, feed)[0]
        vectors = (hidden * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)


def _batches(encoded: Sequence[list[int]]) -> Iterator[list[list[int]]]:
    batch: list[list[int]] = []
    for tokens in encoded:
        if batch and (len(batch) + 1) * len(tokens) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(tokens)
    if batch:
        yield batch


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
        with opened(root, Path(folder), search_mode="keyword") as memory:
            memory.syncer.refresh()  # without vectors, whose cost is another measure: words are searchable at once
            memory.search("warm up")
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
