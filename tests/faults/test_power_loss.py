"""The power goes at a random moment, a hundred times; `python -m tests.faults.soak_database` loses it 2,000 times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.power_loss import record_life, survive
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
