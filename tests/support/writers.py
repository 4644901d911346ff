"""Several processes append to one note while another saves it as an editor does: `python -m tests.support.writers`.

Prints what became of every append: it stands in the note, or `memsync recover` would show it. Anything else is lost.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

from memsync.edit.addition import Addition
from memsync.edit.journal import missing
from memsync.edit.note_writer import NoteWriter
from memsync.model.vocabulary import NotePath
from memsync.system.state_file import state_of_root

LOG = NotePath("log.md")
MINE = "- mine"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`recoverable` are not in the note but in the journal; `lost` in neither; `torn` are lines that nobody wrote."""

    appended: int
    saves: int
    recoverable: int
    lost: int
    torn: int
    doubled: int
    seconds: float


def append_all(root: Path, keep: Path, number: int, count: int) -> None:
    """Append what one process has to append."""
    writer = NoteWriter(root, state_of_root(keep))
    for text in lines_of(number, count):
        writer.append(LOG, Addition(text))


def lines_of(number: int, count: int) -> Iterator[str]:
    """Yield so many lines, of many lengths, each of which there is but once."""
    lengths = random.Random(number)
    for turn in range(count):
        yield f"- process {number} line {turn} " + "x" * lengths.randrange(200)


def edit(root: Path, stop: Event, old_buffers: bool, saves: object) -> None:
    """Save the note again and again: read shortly before, or with `old_buffers` now and then what was read long ago."""
    chance, number, buffer = random.Random(1), 0, ""
    while not stop.is_set():
        if (root / LOG).exists():
            text = read_whole(root / LOG)
            if old_buffers and buffer and chance.random() < 0.5:
                text = buffer
            buffer = text
            lines = [f"{MINE} {number}", *(one for one in text.split("\n") if not one.startswith(MINE))]
            (root / ".save.tmp").write_text("\n".join(lines))
            (root / ".save.tmp").rename(root / LOG)
            number += 1
        time.sleep(chance.choice([0.001, 0.01, 0.05]))
    saves.value = number  # type: ignore[attr-defined]  # because multiprocessing's Value has no type of its own


def read_whole(path: Path) -> str:
    """Return a file in whose midst nobody writes: a reader may see the first page of a write alone."""
    text = path.read_text()
    while text and not text.endswith("\n"):
        text = path.read_text()
    return text


def run(folder: Path, *, processes: int, count: int, old_buffers: bool) -> Outcome:
    """Let them all write at once, and look at what is there afterwards."""
    root, keep = folder / "notes", folder / "keep"
    root.mkdir()
    context = multiprocessing.get_context("spawn")
    stop, saves = context.Event(), context.Value("i", 0)
    editor = context.Process(target=edit, args=(root, stop, old_buffers, saves))
    writers = [context.Process(target=append_all, args=(root, keep, number, count)) for number in range(processes)]
    began = time.monotonic()
    for process in (editor, *writers):
        process.start()
    for process in writers:
        process.join()
    seconds = time.monotonic() - began
    stop.set()
    editor.join()
    codes = [process.exitcode for process in (editor, *writers)]
    assert codes == [0] * len(codes), codes
    lines = (root / LOG).read_text().split("\n")
    wanted = {text for number in range(processes) for text in lines_of(number, count)}
    recoverable = {
        one.text for one in missing(NoteWriter(root, state_of_root(keep)).journal.since(0.0), "\n".join(lines))
    }
    there = Counter(one for one in lines if one and not one.startswith(MINE))
    return Outcome(
        appended=len(wanted),
        saves=saves.value,
        recoverable=len(recoverable),
        lost=len(wanted - there.keys() - recoverable),
        torn=len(there.keys() - wanted),
        doubled=sum(times > 1 for times in there.values()),
        seconds=seconds,
    )


def main() -> int:
    """Run both editors, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5_000, help="appends of each of four processes")
    chosen = parser.parse_args()
    bad = 0
    for old_buffers in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            outcome = run(Path(folder), processes=4, count=chosen.count, old_buffers=old_buffers)
        print(f"{'old buffers' if old_buffers else 'read before each save'}: {outcome}")  # noqa: T201 (because a person reads it)
        bad += outcome.lost + outcome.torn
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
