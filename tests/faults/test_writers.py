"""Several processes append to one note while an editor saves it: nothing is torn, and nothing is gone for good."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.writers import run


@pytest.mark.slow
@pytest.mark.parametrize("old_buffers", [False, True], ids=["read before each save", "old buffers"])
def test_appends_survive_an_editor(tmp_path: Path, old_buffers: bool) -> None:
    """What is not in the note at the end is what `memsync recover` shows."""
    outcome = run(tmp_path, processes=3, count=150, old_buffers=old_buffers)
    assert outcome.saves > 0
    assert (outcome.lost, outcome.torn, outcome.doubled) == (0, 0, 0), outcome
