"""Every test here that opens a memory runs on each index backend."""

from __future__ import annotations

import pytest

from tests.support.backends import BACKENDS


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Return the index backend of `make_memory`."""
    return str(request.param)
