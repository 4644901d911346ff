"""When a file that lost text, or has gone, is believed: by its age in milliseconds, whatever its time of the wall."""

from __future__ import annotations

import pytest

from memsync.notes.settling import unsettled_absence_ns, unsettled_ns

MS = 1_000_000
TOUCHED = 1_795_000_000_123 * MS


@pytest.mark.parametrize(
    ("size", "indexed_size", "age_ms", "left_ms"),
    [
        (0, 100, 0, 500),
        (0, 100, 300, 200),
        (0, 100, 499, 1),
        (0, 100, 500, 0),
        (0, 100, -1, 0),
        (1, 100, 0, 40),
        (99, 100, 39, 1),
        (99, 100, 40, 0),
        (99, 100, 300, 0),
        (100, 100, 0, 0),
        (101, 100, 0, 0),
        (0, 0, 0, 0),
    ],
)
def test_a_file_that_lost_text_is_believed_when_it_has_stood_still(
    size: int, indexed_size: int, age_ms: int, left_ms: int
) -> None:
    """Emptied at 300 ms it waits 200 more, shortened it waits 40 in all; what grew is believed at once."""
    identity = (size, TOUCHED - 10**15, TOUCHED, 7)
    assert unsettled_ns(identity, indexed_size, TOUCHED + age_ms * MS) == left_ms * MS


@pytest.mark.parametrize(("age_ms", "left_ms"), [(0, 100), (99, 1), (100, 0), (-1, 0)])
def test_a_file_that_has_gone_is_missed_a_tenth_of_a_second_later(age_ms: int, left_ms: int) -> None:
    """By its folder's ctime; a clock that is behind the file system's believes it."""
    assert unsettled_absence_ns(TOUCHED, TOUCHED + age_ms * MS) == left_ms * MS
