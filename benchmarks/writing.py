"""What writing costs: an append and the search for it, an append to a long thread, the sum of its costs, an import."""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from unittest import mock

import apsw
from msgspec.structs import replace

from benchmarks.figures import Row, in_turn, ms_over, ratio_row, seconds
from benchmarks.memories import running
from memsync.edit.markdown import message
from memsync.edit.note_writer import NoteWriter
from memsync.integrations.items import items_of, message_of
from memsync.memory import Memory
from memsync.model.vocabulary import NotePath
from memsync.search.retrievals import percentile
from memsync.system.state_file import state_of_root
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


def _own_state(state: Path) -> AbstractContextManager[object]:
    """Keep locks and journals of the benchmark out of the user's own state folder."""
    return mock.patch.dict(os.environ, {"XDG_STATE_HOME": str(state)})


def appends(state: Path) -> list[Row]:
    """Let four processes append beside an editor; then append through the daemon, and search for each append."""
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
        daemon.settle()
        with daemon.connect() as memory:

            def log_and_search(number: int) -> None:
                memory.log(f"The bittern calls zyx{number} tonight.")
                assert memory.search(f"zyx{number}", mode="keyword").hits

            times = [seconds(log_and_search, number) for number in range(ROUND_TRIPS)]
    p95 = percentile(times, 0.95)
    figure = f"{median(times) * 1000:.0f}, {p95 * 1000:.0f} ms"
    return Row("append, then search for it, over the socket: p50, p95", figure, "p95 ≤ 120 ms", p95 <= 0.120)


def threads(state: Path) -> list[Row]:
    """Append to a long thread and a short one in turn; then sum up the costs of the long one, in turn with bare SQL."""
    with tempfile.TemporaryDirectory() as folder, _own_state(state):
        root = Path(folder) / "notes"
        (root / "threads").mkdir(parents=True)
        for name, count in (("short", SHORT), ("long", LONG)):
            (root / f"threads/{name}.md").write_text("\n".join(_message(number) for number in range(count)))
        writer = NoteWriter(root, state_of_root(Path(folder) / "keep"))
        added = message("user", "Which store?", "2026-11-21 10:02", {})
        rows = [_append_row("the file alone", lambda name: writer.append(NotePath(f"threads/{name}.md"), added))]
        with Memory.open(root) as memory:
            memory.costs()
            what = "and what is small is indexed"
            rows.append(_append_row(what, lambda name: memory.append_message(name, "user", "Which store?")))
            memory.costs()
            database = apsw.Connection(str(memory.settings.index_dir / "index.db"), flags=apsw.SQLITE_OPEN_READONLY)
            costs, bare, ratio = in_turn(memory.costs, lambda: list(database.execute(SUM)), RUNS)
            database.close()
    measure = f"costs of {LONG:,} messages over one SQL sum of them"
    return [*rows, ratio_row(measure, ratio, 5, ms_over(costs, bare, 1))]


def _append_row(what: str, append: Callable[[str], object]) -> Row:
    long, short, ratio = in_turn(lambda: append("long"), lambda: append("short"), RUNS)
    measure = f"append to a thread of {LONG:,} messages over one of {SHORT}, {what}"
    return ratio_row(measure, ratio, 1.5, ms_over(long, short, 2))


def _message(number: int) -> str:
    return f"## assistant @ 2026-11-21 10:02 {{model=a in=10 out=5 cost=0.001}}\n\nAnswer {number} in a few words.\n"


def sessions(state: Path) -> list[Row]:
    """Append to a framework's session, in turn with a bare append and fsync; load it, in turn with JSON Lines."""
    with tempfile.TemporaryDirectory() as folder, _own_state(state):
        root, file = Path(folder) / "notes", Path(folder) / "items.jsonl"
        root.mkdir()
        items = [_item(number) for number in range(LONG)]
        file.write_text("".join(f"{json.dumps(item)}\n" for item in items))
        with Memory.open(root) as memory, file.open("ab") as bare:

            def append(thread: str = "id:short") -> None:
                memory.append_messages(thread, [message_of(items[0])], index=False)

            def bare_append() -> None:
                bare.write(b"x" * 100)
                bare.flush()
                os.fsync(bare.fileno())

            rows = [
                ratio_row(
                    "append of an item over a bare one with fsync", *_ratio(in_turn(append, bare_append, RUNS), 3)
                )
            ]
            said = [replace(message_of(item), time=_second(number)) for number, item in enumerate(items)]
            memory.append_messages("id:long", said, index=False)
            lines = file.read_text().splitlines()[:LONG]
            loads = in_turn(
                lambda: items_of(memory.read_thread("id:long")), lambda: [json.loads(line) for line in lines], 9
            )
        rows.append(ratio_row(f"loading {LONG:,} items over decoding them as JSON Lines", *_ratio(loads, 2)))
    return rows


def _ratio(times: tuple[float, float, float], limit: float) -> tuple[float, float, str]:
    ours, theirs, ratio = times
    return ratio, limit, ms_over(ours, theirs, 2)


def _second(number: int) -> str:
    return f"{datetime(2026, 11, 21) + timedelta(seconds=number)}"


def _item(number: int) -> dict[str, object]:
    if number % 3:
        return {"role": "user" if number % 3 == 1 else "assistant", "content": f"Answer {number} in a few words."}
    return {"type": "function_call", "call_id": f"c{number}", "name": "search", "arguments": '{"query": "store"}'}


def imports(state: Path) -> list[Row]:
    """Import many messages, and import them again."""
    with tempfile.TemporaryDirectory() as folder, _own_state(state):
        root, file = Path(folder) / "notes", Path(folder) / "in.jsonl"
        root.mkdir()
        _make_messages(file)
        with Memory.open(root) as memory:
            imported = seconds(memory.import_file, file)
            contents = {path.name: path.read_bytes() for path in (root / "threads").iterdir()}
            bare = median(seconds(_bare_import, file, contents, Path(folder) / "bare") for _ in range(3))
            again = memory.import_file(file)
        changed = sum((root / "threads" / name).read_bytes() != content for name, content in contents.items())
    count = IMPORTED_THREADS * IMPORTED_MESSAGES
    measure = f"import of {count:,} messages over reading them and writing the same bytes"
    return [
        ratio_row(measure, imported / bare, 3, f"{imported:.1f} s over {bare:.1f} s"),
        Row("the same again", f"{again.messages} messages, {changed} files", "0", not again.messages and not changed),
    ]


def _make_messages(file: Path) -> None:
    """Write pseudo-random messages, the same on every run; a tenth has a heading, a tenth a fence."""
    chance = random.Random(1)
    with file.open("w") as out:
        for number in range(IMPORTED_THREADS * IMPORTED_MESSAGES):
            text = " ".join(chance.choice(WORDS) for _ in range(chance.randrange(5, 60)))
            text = f"# Title\n\n{text}" if number % 10 == 0 else text
            text = f"{text}\n\n```py\nprint(1)\n```" if number % 10 == 1 else text
            line = {"thread": f"t{number // IMPORTED_MESSAGES}", "role": "user", "time": "2026-11-21 10:02"}
            out.write(json.dumps({**line, "text": text, "attributes": {"model": "a", "in": "10"}}) + "\n")


def _bare_import(file: Path, contents: dict[str, bytes], folder: Path) -> None:
    messages: defaultdict[str, list[object]] = defaultdict(list)
    with file.open() as lines:
        for line in lines:
            row = json.loads(line)
            messages[row["thread"]].append(row)
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    os.sync()
