"""Every test here that opens a memory with `make_memory` runs on each index backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memsync.settings.load import Settings
from tests.conftest import Write
from tests.support.backends import backend as backend
from tests.support.own_postgres import OwnServer, own_server
from tests.support.postgres_memory import Open, memories


@pytest.fixture
def own() -> OwnServer:
    """Return a server that a test may stop."""
    return own_server()


@pytest.fixture
def open_memory(settings: Settings, write: Write) -> Iterator[Open]:
    """Open the root's two notes on a database."""
    write("birds.md", "# Birds\n\nThe heron nests.\n")
    write("boats.md", "# Boats\n\nThe ketch leaks.\n")
    with memories(settings) as found:
        yield found
