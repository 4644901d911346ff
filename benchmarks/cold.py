"""Indexing from nothing: throughput over the bare model's, peak memory, and the size of the index."""

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

from benchmarks.figures import Row, ratio_row, seconds
from benchmarks.memories import note_reader, opened
from benchmarks.served import resident_mb
from memsync.embed import minilm
from memsync.model.vocabulary import NotePath

PARTS = 5
SAMPLE_SECONDS = 0.05
BATCH_TOKENS = 512


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
            texts = _passages(root)
            with opened(root, Path(folder)) as memory:
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


def _passages(root: Path) -> list[str]:
    """Return the distinct passages of a memory root."""
    reader = note_reader()
    texts: dict[str, None] = {}
    for file in sorted(root.rglob("*.md")):
        _, chunks = reader.read(NotePath(file.relative_to(root).as_posix()), file.read_bytes())
        texts.update(dict.fromkeys(chunk.text for chunk in chunks))
    return list(texts)


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
