"""A wiki of link lists, indexed from nothing: seconds until all words and vectors, size, and searches meanwhile."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from pathlib import Path

import apsw

from benchmarks.figures import Row, ratio_row, seconds
from benchmarks.measures import rfc_questions
from benchmarks.memories import connected, index_dir, note_reader, opened, running
from benchmarks.search import RandomVectors
from benchmarks.wiki import NOTES, make_wiki
from memsync.features.evaluation.measures import percentile
from memsync.index.sqlite import schema
from memsync.index.sqlite.rows import note_rows
from memsync.memory import Memory
from memsync.model.vocabulary import NotePath
from memsync.wiring import make_token_counter

WATCHED_SECONDS = 45.0
PAUSE_SECONDS = 0.1
POLL_SECONDS = 0.2


class _Measured(Exception):
    """Raised to end a sync once everything is measured."""


def from_the_first_minute(data: Path, state: Path) -> list[Row]:
    """Index the wiki from nothing, and search it with a daemon that indexes it."""
    root = state / "wiki"
    size = make_wiki(data / "rfcs", root)
    fill = _bare_fill(root, state)
    with tempfile.TemporaryDirectory(dir=state) as folder, opened(root, Path(folder)) as memory:
        words, vectors, message = _sync_until_vectors(memory)
    measure = f"wiki of link lists, {NOTES:,} notes, {size / 1e6:.0f} MB: all words found"
    return [
        Row(measure, f"{words:.1f} s", "≤ 15 s", words <= 15),
        Row("the same over a bare FTS5 fill of the same rows", f"{words / fill:.2f} × ({fill:.1f} s)"),
        Row("every note has a vector", f"{vectors:.1f} s", "≤ 60 s", vectors <= 60),
        Row("what sync then says", message),
        *_sizes(root, state, size),
        *_searches(root, data, state),
    ]


def _bare_fill(root: Path, state: Path) -> float:
    """Return how long FTS5 alone takes for the words of all chunks."""
    reader = note_reader()
    rows = [
        columns
        for file in sorted(root.rglob("*.md"))
        for chunk in note_rows(*reader.read(NotePath(file.relative_to(root).as_posix()), file.read_bytes())).chunks
        for columns in chunk.columns
    ]
    with tempfile.TemporaryDirectory(dir=state) as folder:
        database = apsw.Connection(str(Path(folder) / "fill.db"))
        database.pragma("journal_mode", "wal")
        schema.load_vec0(database)
        schema.run_all(database, schema.TABLES)

        def fill() -> None:
            with database:
                database.executemany("INSERT INTO chunk_fts (body, heading, context, cjk) VALUES (?, ?, ?, ?)", rows)

        return seconds(fill)


def _sync_until_vectors(memory: Memory) -> tuple[float, float, str]:
    """Sync until every note has a vector; return the seconds until all words and until then, and the last message."""
    started = time.perf_counter()
    words: list[float] = []
    message = ""

    def watch() -> None:
        while memory.status().notes < NOTES:
            time.sleep(POLL_SECONDS)
        words.append(time.perf_counter() - started)

    def progress(what: str, done: int, total: int) -> None:
        nonlocal message
        message = message if total else what
        if message and what == "computing vectors" and done >= NOTES and _every_note_has_a_vector(memory):
            raise _Measured

    watching = threading.Thread(target=watch)
    watching.start()
    with contextlib.suppress(_Measured):
        memory.sync(progress=progress)
    watching.join()
    return words[0], time.perf_counter() - started, message


def _every_note_has_a_vector(memory: Memory) -> bool:
    with memory.index.reading() as reader:
        space = reader.active_space()
        return space is not None and all(note.telling not in note.passages for note in reader.waiting_notes(space))


def _sizes(root: Path, state: Path, size: int) -> list[Row]:
    """Return the number of vectors and the size of the finished index; random vectors are as large as real ones."""
    texts = (file.read_text(encoding="utf-8") for file in sorted(root.rglob("*.md")))
    pieces = sum(sum(make_token_counter().count([text])) for text in texts)
    with tempfile.TemporaryDirectory(dir=state) as folder:
        with connected(root, Path(folder), RandomVectors()) as memory:
            memory.sync()
            vectors = memory.status().vectors
        index = sum(file.stat().st_size for file in index_dir(root, Path(folder)).glob("index.db*"))
    per_200 = vectors / (pieces / 200)
    return [
        Row("vectors per 200 word pieces", f"{per_200:.2f} ({vectors:,})", "≤ 1.3", per_200 <= 1.3),
        ratio_row("index size over the Markdown's", index / size, 5, f"{index / 1e6:.0f} MB"),
    ]


def _searches(root: Path, data: Path, state: Path) -> list[Row]:
    """Search with a daemon while it indexes the wiki for the first time."""
    questions = rfc_questions(data)
    times: list[float] = []
    silent = 0
    folder = tempfile.TemporaryDirectory(dir=state)
    with folder, running(root, Path(folder.name)) as daemon, daemon.connect() as memory:
        deadline = time.perf_counter() + WATCHED_SECONDS
        while (started := time.perf_counter()) < deadline:
            fresh = memory.search(questions[len(times) % len(questions)]).freshness
            times.append(time.perf_counter() - started)
            silent += not (fresh.pending_text or fresh.pending_vectors)
            time.sleep(PAUSE_SECONDS)
    p95 = percentile(times, 0.95)
    figure = f"{p95:.2f} s (p50 {percentile(times, 0.5):.2f} s, longest {max(times):.2f} s)"
    return [
        Row(f"searches of a daemon meanwhile ({len(times)}): p95", figure, "≤ 2 s", p95 <= 2),
        Row("answers that do not say what is missing", silent, "0", silent == 0),
    ]
