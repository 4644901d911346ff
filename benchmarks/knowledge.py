"""A wiki of link lists, indexed from nothing: seconds until all words and vectors, size, and searches meanwhile.

    python -m benchmarks.knowledge SOURCE TARGET          only write the wiki: 1,063 notes, 16 MB

The wiki has one link a line, and its words are those of the Markdown under SOURCE. Equal sources give equal notes. The
sizes are distributed as in a real wiki of this kind: the 20 largest of 1,063 notes hold a fifth of the text.
"""

from __future__ import annotations

import contextlib
import math
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import NormalDist

import apsw

from benchmarks.figures import Row, ratio_row, seconds
from benchmarks.measures import rfc_questions
from benchmarks.memories import connected, index_dir, opened, running
from benchmarks.search import RandomVectors
from memsync.index.rows import note_rows
from memsync.index.sqlite import schema
from memsync.memory import Memory
from memsync.search.retrievals import percentile
from memsync.wiring import make_token_counter

NOTES = 1_063
WIKI_BYTES = 16_000_000
SPREAD = 1.2
"""Standard deviation of the logarithms of the notes' sizes."""
TOPICS = 40
NESTED = 0.15
"""Share of the items that belong to the item above them."""
DATES = tuple(range(2019, 2026))

_WORD = re.compile(r"[A-Za-z][a-z']{1,14}")

WATCHED_SECONDS = 45.0
PAUSE_SECONDS = 0.1
POLL_SECONDS = 0.2


class _Measured(Exception):
    """Raised to end a sync once everything is measured."""


def from_the_first_minute(data: Path, state: Path) -> list[Row]:
    """Index the wiki from nothing, and search it with a daemon that indexes it."""
    root = state / "wiki"
    size = make_wiki(data / "rfcs", root)
    with tempfile.TemporaryDirectory(dir=state) as folder, opened(root, Path(folder)) as memory:
        fill = _bare_fill(memory, Path(folder))
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


def _bare_fill(memory: Memory, folder: Path) -> float:
    """Return how long FTS5 alone takes for the words of all chunks."""
    notes = (memory.reader.read(path, memory.files.read(path)[0]) for path in sorted(memory.files.scan().files))
    rows = [columns for note in notes for chunk in note_rows(*note).chunks for columns in chunk.columns]
    database = apsw.Connection(str(folder / "fill.db"))
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
    message = ""

    def watch() -> float:
        while memory.status().notes < NOTES:
            time.sleep(POLL_SECONDS)
        return time.perf_counter() - started

    def progress(what: str, done: int, total: int) -> None:
        nonlocal message
        message = message if total else what
        if message and what == "computing vectors" and done >= NOTES:  # the first passages are one of each note
            raise _Measured

    with ThreadPoolExecutor(1) as pool, contextlib.suppress(_Measured):
        words = pool.submit(watch)
        memory.sync(progress=progress)
    return words.result(), time.perf_counter() - started, message


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


# -------------------------------------------------------------------------------------------- the wiki


def make_wiki(source: Path, target: Path, *, notes: int = NOTES) -> int:
    """Write the first `notes` of NOTES notes with about WIKI_BYTES in total; return how many bytes were written.

    They consist of runs of words of the Markdown under `source`, so that tokenizer and model work as on real text.
    """
    words = [word for file in sorted(source.rglob("*.md")) for word in _WORD.findall(file.read_text(errors="replace"))]
    written = 0
    for number, own_size in enumerate(_note_sizes()[:notes]):
        chance = random.Random(number)
        title = _title(words, chance)
        path = target / f"topic-{number % TOPICS:02d}" / f"{_slug(title)}-{number:04d}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "\n".join(_lines(words, chance, title, own_size)) + "\n"
        path.write_text(text, encoding="utf-8")
        written += len(text.encode())
    return written


def _note_sizes() -> list[int]:
    """Return the bytes of each note: log-normal, in random order."""
    normal = NormalDist()
    weights = [math.exp(SPREAD * normal.inv_cdf((number + 0.5) / NOTES)) for number in range(NOTES)]
    random.Random(NOTES).shuffle(weights)
    return [int(WIKI_BYTES * weight / sum(weights)) for weight in weights]


def _lines(words: list[str], chance: random.Random, title: str, size: int) -> Iterator[str]:
    """Yield the lines of one note: two sentences, then lists under headings and sub-headings."""
    opening = [f"# {title}", "", f"{_run(words, chance, 18).capitalize()}. {_run(words, chance, 14).capitalize()}.", ""]
    yield from opening
    left = size - sum(len(line) + 1 for line in opening)
    level = 2
    while left > 0:
        heading = f"{'#' * level} {_title(words, chance)}"
        items = list(_items(words, chance, min(left, chance.randrange(800, 8_000))))
        yield from (heading, "", *items, "")
        left -= len(heading) + 3 + sum(len(item) + 1 for item in items)
        level = chance.choice((2, 3, 3))


def _items(words: list[str], chance: random.Random, size: int) -> Iterator[str]:
    """Yield the items of one list, some nested."""
    is_first = True
    while size > 0:
        name = _title(words, chance)
        year = f" ({chance.choice(DATES)})" if chance.random() < 0.3 else ""
        address = f"https://{_slug(_run(words, chance, 1))}.example/{_slug(name)}/{chance.randrange(10**6)}"
        item = f"- [{name}]({address}){year} - {_run(words, chance, chance.randrange(6, 19)).capitalize()}."
        item = f"  {item}" if not is_first and chance.random() < NESTED else item
        yield item
        size -= len(item) + 1
        is_first = False


def _run(words: list[str], chance: random.Random, length: int) -> str:
    start = chance.randrange(len(words) - length)
    return " ".join(words[start : start + length])


def _title(words: list[str], chance: random.Random) -> str:
    return _run(words, chance, chance.randrange(1, 4)).title()


def _slug(text: str) -> str:
    return text.lower().replace(" ", "-").replace("'", "")


if __name__ == "__main__":
    print(f"{make_wiki(Path(sys.argv[1]), Path(sys.argv[2])):,} bytes")
