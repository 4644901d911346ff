"""A wiki of link lists from the first minute on: words, vectors, size, and what searches are told meanwhile."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from pathlib import Path

import apsw

from benchmarks.daemons import running
from benchmarks.indexes import connected, index_dir, note_reader, opened
from benchmarks.measures import read_questions
from benchmarks.report import Row
from benchmarks.search import RandomVectors
from benchmarks.timing import seconds
from benchmarks.wiki import NOTES, make_wiki
from memsync.features.evaluation.measures import percentile
from memsync.index.sqlite import schema
from memsync.index.sqlite.rows import note_rows
from memsync.memory import Memory
from memsync.model.vocabulary import NotePath
from memsync.wiring import make_token_counter

WORDS_SECONDS = 15.0
FOUND_SECONDS = 60.0
VECTORS_PER_200 = 1.3
SIZE_OVER_MARKDOWN = 5.0
DEADLINE_SECONDS = 2.0
WATCHED_SECONDS = 45.0
PAUSE_SECONDS = 0.1
POLL_SECONDS = 0.2


class _Enough(Exception):
    """Raised to end a sync: what was to be measured was."""


def from_the_first_minute(data: Path, state: Path) -> list[Row]:
    """Index the wiki from nothing, and ask a daemon that does so."""
    root = state / "wiki"
    size = make_wiki(data / "rfcs", root)
    fill = _bare_fill(root, state)
    with tempfile.TemporaryDirectory(dir=state) as folder, opened(root, Path(folder)) as memory:
        words, found, told = _until_found(memory)
    over_fill = words / fill
    return [
        Row(
            f"wiki of link lists, {NOTES:,} notes, {size / 1e6:.0f} MB: all words found",
            f"{words:.1f} s",
            f"≤ {WORDS_SECONDS:.0f} s",
            words <= WORDS_SECONDS,
        ),
        Row(
            "the same over a bare FTS5 fill of the same rows",
            f"{over_fill:.2f} × ({fill:.1f} s)",
        ),
        Row("every note has a vector", f"{found:.1f} s", f"≤ {FOUND_SECONDS:.0f} s", found <= FOUND_SECONDS),
        Row("what sync then says", told),
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


def _until_found(memory: Memory) -> tuple[float, float, str]:
    """Sync until every note has a vector; return when all were found by word, when that was, and what was said."""
    started = time.perf_counter()
    words: list[float] = []
    told = ""

    def watch() -> None:
        while memory.status().notes < NOTES:
            time.sleep(POLL_SECONDS)
        words.append(time.perf_counter() - started)

    def progress(what: str, done: int, total: int) -> None:
        nonlocal told
        told = told if total else what
        if told and what == "computing vectors" and done >= NOTES and _every_note_has_a_vector(memory):
            raise _Enough

    watching = threading.Thread(target=watch)
    watching.start()
    with contextlib.suppress(_Enough):
        memory.sync(progress=progress)
    watching.join()
    return words[0], time.perf_counter() - started, told


def _every_note_has_a_vector(memory: Memory) -> bool:
    with memory.index.reading() as reader:
        space = reader.active_space()
        return space is not None and all(note.telling not in note.passages for note in reader.waiting_notes(space))


def _sizes(root: Path, state: Path, size: int) -> list[Row]:
    """Return how many vectors there are, and how large the finished index is; stand-ins take the room of vectors."""
    texts = (file.read_text(encoding="utf-8") for file in sorted(root.rglob("*.md")))
    pieces = sum(sum(make_token_counter().count([text])) for text in texts)
    with tempfile.TemporaryDirectory(dir=state) as folder:
        with connected(root, Path(folder), RandomVectors()) as memory:
            memory.sync()
            vectors = memory.status().vectors
        index = sum(file.stat().st_size for file in index_dir(root, Path(folder)).glob("index.db*"))
    per_200, over_markdown = vectors / (pieces / 200), index / size
    return [
        Row(
            "vectors per 200 word pieces",
            f"{per_200:.2f} ({vectors:,})",
            f"≤ {VECTORS_PER_200}",
            per_200 <= VECTORS_PER_200,
        ),
        Row(
            "index size over the Markdown's",
            f"{over_markdown:.2f} × ({index / 1e6:.0f} MB)",
            f"≤ {SIZE_OVER_MARKDOWN:.0f} ×",
            over_markdown <= SIZE_OVER_MARKDOWN,
        ),
    ]


def _searches(root: Path, data: Path, state: Path) -> list[Row]:
    """Ask a daemon that indexes the wiki for the first time."""
    questions = [question.text for question in read_questions(data / "rfcs.questions.jsonl")]
    times: list[float] = []
    silent = 0
    folder = tempfile.TemporaryDirectory(dir=state)
    with folder, running(root, Path(folder.name)) as daemon, daemon.connect() as memory:
        limit = time.monotonic() + WATCHED_SECONDS
        while time.monotonic() < limit:
            started = time.perf_counter()
            fresh = memory.search(questions[len(times) % len(questions)]).freshness
            times.append(time.perf_counter() - started)
            silent += not (fresh.pending_text or fresh.pending_vectors)
            time.sleep(PAUSE_SECONDS)
    p95 = percentile(times, 0.95)
    return [
        Row(
            f"searches of a daemon meanwhile ({len(times)}): p95",
            f"{p95:.2f} s (p50 {percentile(times, 0.5):.2f} s, longest {max(times):.2f} s)",
            f"≤ {DEADLINE_SECONDS:.0f} s",
            p95 <= DEADLINE_SECONDS,
        ),
        Row("answers that do not say what is missing", silent, "0", silent == 0),
    ]
