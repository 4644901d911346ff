"""What several tests of faults use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.killed import Killer


@pytest.fixture
def killer(root: Path) -> Iterator[Killer]:
    """Run operations on the root, and kill them."""
    found = Killer(root)
    yield found
    found.close()
