"""What writing costs: an append and its answer, an append to a long thread, the sums over one, an import."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import apsw

from benchmarks.daemons import running, settle
from benchmarks.report import Row
from benchmarks.timing import in_turn, seconds
from memsync.edit.markdown import message
from memsync.edit.note_writer import NoteWriter
from memsync.features.evaluation.measures import percentile
from memsync.memory import Memory
from memsync.model.vocabulary import NotePath
from tests.support.writers import run

APPENDS = 5_000
ROUND_TRIPS = 60
SHORT, LONG = 100, 10_000
RUNS = 40
IMPORTED_THREADS, IMPORTED_MESSAGES = 1_000, 100
WORDS = ("the", "store", "heron", "index", "memory", "note", "thread", "agent", "search", "daily", "vector", "model")
SUM = """
SELECT sum(tokens_in), sum(tokens_out), sum(cost_nanos) FROM message JOIN note ON note.id = message.note
WHERE session = 'long'
"""


@contextmanager
def _own_state(state: Path) -> Iterator[None]:
    """Keep locks and journals of the benchmark out of the user's own state folder."""
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(state)
    try:
        yield
    finally:
        del os.environ["XDG_STATE_HOME"]
        if before is not None:
            os.environ["XDG_STATE_HOME"] = before


def appends(state: Path) -> list[Row]:
    """Let four processes append beside an editor; and append through the daemon, and ask it for what was appended."""
    rows = []
    for old_buffers, what in ((False, "reads before it saves"), (True, "saves old buffers")):
        with tempfile.TemporaryDirectory() as folder:
            done = run(Path(folder), processes=4, count=APPENDS, old_buffers=old_buffers)
        figure = f"{done.lost} lost, {done.torn} torn, {done.recoverable} to recover, {done.saves} saves"
        measure = f"4 processes x {APPENDS:,} appends beside an editor that {what}"
        rows.append(Row(measure, figure, "0 lost, 0 torn", not done.lost and not done.torn))
    with tempfile.TemporaryDirectory() as folder, _own_state(state):
        rows.append(_round_trips(Path(folder), state))
    return rows


def _round_trips(root: Path, state: Path) -> Row:
    for number in range(1_000):
        (root / f"note-{number}.md").write_text(f"# Note {number}\n\nThe heron of note {number} nests.\n")
    with running(root, state) as daemon:
        settle(daemon)
        with daemon.connect() as memory:
            times = []
            for number in range(ROUND_TRIPS):
                started = time.perf_counter()
                memory.log(f"The bittern calls zyx{number} tonight.")
                assert memory.search(f"zyx{number}", mode="keyword").hits
                times.append(time.perf_counter() - started)
    p95 = percentile(times, 0.95)
    figure = f"{median(times) * 1000:.0f}, {p95 * 1000:.0f} ms"
    return Row("append, then search for it, over the socket: p50, p95", figure, "p95 ≤ 120 ms", p95 <= 0.120)


def threads(state: Path) -> list[Row]:
    """Append to a long thread and a short one in turn, and sum up what the long one cost, with SQL alone beside."""
    with tempfile.TemporaryDirectory() as folder, _own_state(state):
        root = Path(folder) / "notes"
        (root / "threads").mkdir(parents=True)
        for name, count in (("short", SHORT), ("long", LONG)):
            (root / f"threads/{name}.md").write_text("\n".join(_message(number) for number in range(count)))
        writer = NoteWriter(root, Path(folder) / "keep")
        added = message("user", "Which store?", "2026-11-21 10:02", {})

        def append(name: str) -> None:
            writer.append(NotePath(f"threads/{name}.md"), added)

        rows = [_ratio("the file alone", *in_turn(lambda: append("long"), lambda: append("short"), RUNS))]
        with Memory.open(root) as memory:
            memory.costs()
            asked = in_turn(
                lambda: memory.append_message("long", "user", "Which store?"),
                lambda: memory.append_message("short", "user", "Which store?"),
                RUNS,
            )
            rows.append(_ratio("and what is small is indexed", *asked))
            memory.costs()
            database = apsw.Connection(str(memory.settings.index_dir / "index.db"), flags=apsw.SQLITE_OPEN_READONLY)
            costs, bare, ratio = in_turn(memory.costs, lambda: list(database.execute(SUM)), RUNS)
            database.close()
        figure = f"{ratio:.2f} × ({costs * 1e3:.1f} ms over {bare * 1e3:.1f} ms)"
        rows.append(Row(f"costs of {LONG:,} messages over one SQL sum of them", figure, "≤ 5 ×", ratio <= 5))
    return rows


def _ratio(what: str, long: float, short: float, ratio: float) -> Row:
    figure = f"{ratio:.2f} × ({long * 1e3:.2f} ms over {short * 1e3:.2f} ms)"
    return Row(f"append to a thread of {LONG:,} messages over one of {SHORT}, {what}", figure, "≤ 1.5 ×", ratio <= 1.5)


def _message(number: int) -> str:
    return f"## assistant @ 2026-11-21 10:02 {{model=a in=10 out=5 cost=0.001}}\n\nAnswer {number} in a few words.\n"


def imports(state: Path) -> list[Row]:
    """Import many messages, and import them again."""
    with tempfile.TemporaryDirectory() as folder, _own_state(state):
        root, file = Path(folder) / "notes", Path(folder) / "in.jsonl"
        root.mkdir()
        _make_messages(file)
        with Memory.open(root) as memory:
            imported = seconds(lambda: memory.import_file(file))
            contents = {path.name: path.read_bytes() for path in (root / "threads").iterdir()}
            bare = median(seconds(lambda: _bare(file, contents, Path(folder) / "bare")) for _ in range(3))
            again = memory.import_file(file)
        changed = sum((root / "threads" / name).read_bytes() != content for name, content in contents.items())
    ratio = imported / bare
    count = IMPORTED_THREADS * IMPORTED_MESSAGES
    figure = f"{ratio:.2f} × ({imported:.1f} s over {bare:.1f} s)"
    return [
        Row(f"import of {count:,} messages over reading them and writing the same bytes", figure, "≤ 3 ×", ratio <= 3),
        Row("the same again", f"{again.messages} messages, {changed} files", "0", not again.messages and not changed),
    ]


def _make_messages(file: Path) -> None:
    """Write seeded messages, a tenth with a heading, a tenth with a fence."""
    chance = random.Random(1)
    with file.open("w") as out:
        for number in range(IMPORTED_THREADS * IMPORTED_MESSAGES):
            text = " ".join(chance.choice(WORDS) for _ in range(chance.randrange(5, 60)))
            text = f"# Title\n\n{text}" if number % 10 == 0 else text
            text = f"{text}\n\n```py\nprint(1)\n```" if number % 10 == 1 else text
            line = {
                "thread": f"t{number // IMPORTED_MESSAGES}",
                "role": "user",
                "time": "2026-11-21 10:02",
                "text": text,
            }
            out.write(json.dumps({**line, "attributes": {"model": "a", "in": "10"}}) + "\n")


def _bare(file: Path, contents: dict[str, bytes], folder: Path) -> None:
    by_thread: dict[str, list[object]] = {}
    with file.open() as lines:
        for line in lines:
            read = json.loads(line)
            by_thread.setdefault(read["thread"], []).append(read)
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    os.sync()
