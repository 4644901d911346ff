"""The Python face: open, sync, search, get, status; one test with the real model."""

from __future__ import annotations

import threading
from pathlib import Path

from memsync import Memory
from tests.conftest import Write


def test_search_with_the_real_model_finds_by_meaning(root: Path, write: Write) -> None:
    """The built-in model relates words that share no letters."""
    write("MEMORY.md", "# Memory\n\n## Pets\n\nOscar is our guinea pig.\n\n## Work\n\nThe store is SQLite.\n")
    with Memory.open(root) as memory:
        memory.sync()
        hits = memory.search("which small animal lives with us").hits
    assert hits[0].citation == "MEMORY.md:3-5"
    assert "vector" in hits[0].ranks


def test_a_file_saved_before_the_search_is_in_its_answer(memory: Memory, write: Write) -> None:
    """A search scans before it answers; nothing else has to run."""
    memory.sync()
    write("new.md", "The heron nests in the alder.\n")
    assert [hit.citation for hit in memory.search("heron").hits] == ["new.md:1"]


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
