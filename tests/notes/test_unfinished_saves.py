"""When a file that lost text, or has gone, is believed: once it was seen to stand still for so long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from memsync.model.note import FileStamp
from memsync.model.vocabulary import NotePath
from memsync.notes import unfinished_saves
from memsync.notes.unfinished_saves import State, Stillness, read_settled, stillness_needed

GONE: State = 1_795_000_000_000_000_000


@pytest.mark.parametrize(
    ("size", "indexed_size", "seconds"),
    [(0, 100, 0.5), (1, 100, 0.04), (99, 100, 0.04), (100, 100, 0.0), (101, 100, 0.0), (0, 0, 0.0)],
)
def test_a_file_that_lost_text_must_stand_still(size: int, indexed_size: int, seconds: float) -> None:
    """Half a second when it is empty, 40 ms when it is shorter; what grew is believed at once."""
    assert stillness_needed((size, 1, 2, 7), indexed_size) == seconds


def test_a_file_that_has_gone_is_missed_a_tenth_of_a_second_later() -> None:
    """Editors move a note away and create it anew."""
    assert stillness_needed(GONE, 100) == 0.1


def test_stillness_counts_from_the_last_change_that_was_seen() -> None:
    """Emptied at 0 s and at 300 ms again, it has stood still for 200 ms at 500 ms, by no clock that can be set."""
    emptied, again = (0, 1, 2, 7), (0, 5, 6, 7)
    still = Stillness(emptied, 100.0)
    assert still.seconds(emptied, 100.25) == 0.25
    assert still.seconds(again, 100.25) == 0.0
    assert still.seconds(again, 100.5) == 0.25
    assert still.seconds(emptied, 101.0) == 0.0


class Saving:
    """A file with another size at each read, its clock, which is behind the file's, and how often it was read."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self._sizes = iter(sizes)
        self.reads = 0

    def read(self, path: NotePath) -> tuple[bytes, FileStamp]:
        size = next(self._sizes)
        self.reads += 1
        return b"x" * size, FileStamp(size, 1, 2, 7, b"", 0)

    def monotonic(self) -> float:
        return 100.0 + 0.015 * self.reads

    def time_ns(self) -> int:
        return 0

    def sleep(self, seconds: float) -> None:
        """Let no time go by: only reading takes time."""


@pytest.mark.parametrize(
    ("sizes", "until", "reads"), [((1, 5, 5, 5, 5, 6), 200.0, 5), ((1, 2, 3, 4), 100.025, 3), ((10, 11), 200.0, 1)]
)
def test_a_file_that_lost_text_is_read_once_it_is_still(
    sizes: tuple[int, ...], until: float, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or when the time is up; what grew is read at once."""
    files: Any = Saving(sizes)
    monkeypatch.setattr(unfinished_saves, "clock", files)
    assert len(read_settled(files, NotePath("a.md"), 10, until)[0]) == sizes[reads - 1]
    assert files.reads == reads
