"""The power goes at a random moment, a hundred times; `python -m tests.faults.soak_database` loses it 2,000 times."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.losing_database import SECTOR, lose_power
from tests.support.power_loss import record_life, survive
from tests.support.recording_database import Event, Named, Sync, Truncate, Write
from tests.support.sampling import sampled

LOSSES = 100
GROUPS = 4


@pytest.mark.slow
@pytest.mark.parametrize("group", sampled(range(GROUPS), 1))
def test_index_survives_a_loss_of_power(tmp_path: Path, group: int) -> None:
    """A state that was once committed is found, no older than the last synced one; a sync brings it up to date."""
    recording = record_life(tmp_path / "life")
    took = [survive(recording, seed, tmp_path / "after") for seed in range(group, LOSSES, GROUPS)]
    assert any(took)


@pytest.mark.slow
@pytest.mark.parametrize("group", sampled(range(2), 1))
def test_index_survives_a_loss_of_power_while_a_rebuilt_one_takes_over(tmp_path: Path, group: int) -> None:
    """Names may be changed on the disk in another order, or in part: no log is found beside what it is not of."""
    recording = record_life(tmp_path / "life")
    rename = recording.take_over()
    for seed in sampled(range(group, LOSSES, 2), 20):
        survive(recording, seed, tmp_path / "after", rename + seed % 8 - 2)


def left(events: list[Event], moment: int, seeds: int = 1_000) -> set[bytes]:
    """Return all that is found of the file in so many losses."""
    losses = (lose_power(events, "/f/db", moment, random.Random(seed)) for seed in range(seeds))
    return {loss.files.get("/f/db", b"none") for loss in losses}


def test_simulated_loss_takes_nothing_that_was_synced() -> None:
    """Contents and name synced: one outcome only."""
    events: list[Event] = [Named("", "/f/db"), Write("/f/db", 0, b"abc"), Sync("/f/db"), Sync("")]
    assert left(events, len(events)) == {b"abc"}


def test_simulated_loss_takes_names_and_writes_that_were_not_synced() -> None:
    """A file may be gone whole; of two writes the first or the second may be missing, and zeroes stand for it."""
    events: list[Event] = [Named("", "/f/db"), Write("/f/db", 0, b"ab"), Write("/f/db", 2, b"cd")]
    assert left(events, 3) == {b"none", b"", b"ab", b"\0\0cd", b"abcd"}
    assert left([*events, Sync("/f/db"), Truncate("/f/db", 1)], 5) == {b"none", b"a", b"abcd"}


def test_simulated_loss_tears_writes_at_the_edges_of_sectors() -> None:
    """Part of a sector is never written."""
    data = b"x" * (3 * SECTOR)
    zeroes = Write("/f/db", 0, bytes(len(data)))
    events: list[Event] = [Named("", "/f/db"), zeroes, Sync("/f/db"), Sync(""), Write("/f/db", 0, data)]
    found = left(events, 5)
    assert len(found) == 8
    assert all(content[at : at + SECTOR] in (bytes(SECTOR), b"x" * SECTOR) for content in found for at in (0, SECTOR))
