"""The Python face: open, sync, search, get, status; one test with the real model."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from memsync import Memory
from memsync.edit.note_writer import NoteWriter
from memsync.system.once import once_property
from tests.conftest import Patch, Write

pytestmark = pytest.mark.smoke


def test_search_with_the_real_model_finds_by_meaning(root: Path, write: Write) -> None:
    """The built-in model relates words that share no letters."""
    write("MEMORY.md", "# Memory\n\n## Pets\n\nOscar is our guinea pig.\n\n## Work\n\nThe store is SQLite.\n")
    with Memory.open(root) as memory:
        memory.sync()
        hits = memory.search("which small animal lives with us").hits
    assert hits[0].citation == "MEMORY.md:3-5"
    assert "vector" in hits[0].ranks


def test_readers_in_threads_get_the_same_answer(memory: Memory, write: Write) -> None:
    """One Memory serves many threads."""
    write("a.md", "The heron nests in the alder.\n")
    memory.sync()
    answers: list[list[str]] = []

    def ask() -> None:
        answers.extend([hit.citation for hit in memory.search("heron").hits] for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [["a.md:1"]] * 20


def test_first_writes_of_several_threads_all_arrive(memory: Memory, root: Path, monkeypatch: Patch) -> None:
    """They share one writer, even if they all ask for it at once: two would wait for each other's lock."""
    make_writer = NoteWriter.__init__
    all_ask = threading.Barrier(6, timeout=0.2)

    def make_slowly(writer: NoteWriter, *args: Any) -> None:
        with suppress(threading.BrokenBarrierError):
            all_ask.wait()
        make_writer(writer, *args)

    monkeypatch.setattr(NoteWriter, "__init__", make_slowly)

    def log(number: int) -> None:
        for turn in range(3):
            memory.log(f"entry {number} {turn}")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(log, range(6)))
    [log_file] = root.glob("daily/*.md")
    assert sorted(re.findall(r"entry (\d) (\d)$", log_file.read_text(), re.MULTILINE)) == [
        (str(number), str(turn)) for number in range(6) for turn in range(3)
    ]


def test_what_must_be_one_is_one_for_all_threads() -> None:
    """functools.cached_property computes it for each thread that asks at the same moment."""
    both_ask, computed = threading.Barrier(2, timeout=0.2), []

    class Holder:
        @once_property
        def lock(self) -> object:
            with suppress(threading.BrokenBarrierError):
                both_ask.wait()
            computed.append(object())
            return computed[-1]

    holder = Holder()
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: holder.lock, range(2))
    assert first is second and len(computed) == 1
