"""A web application in the test's own process, over a memory with the fake embedder, and clients that may use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from starlette.testclient import TestClient

from memsync.memory import Memory
from memsync.web.access import TOKEN, Access
from memsync.web.app import make_app
from memsync.web.serving import token_of
from memsync.web.site import Site
from tests.conftest import Write

PORT = 8740
URL = f"http://127.0.0.1:{PORT}"


@pytest.fixture
def site(memory: Memory, write: Write) -> Site:
    """Make a site with two indexed notes."""
    write("birds.md", "# Birds\n\n- The heron nests in the alder.\n- The tern dives.\n")
    write("daily/2026-11-21.md", "# 2026-11-21\n\n- 10:02 saw a heron at the harbour\n")
    memory.sync()
    return Site(memory.settings, lambda: nullcontext(memory), PORT)


@pytest.fixture
def access(site: Site) -> Access:
    return Access(site.settings.keep_dir)


@pytest.fixture
def stranger(site: Site) -> Iterator[TestClient]:
    """Open a client without the token."""
    with TestClient(make_app(site), base_url=URL, follow_redirects=False) as client:
        yield client


@pytest.fixture
def client(stranger: TestClient, site: Site) -> TestClient:
    """Give the client the token."""
    stranger.headers["Authorization"] = f"Bearer {token_of(site.settings.keep_dir, TOKEN)}"
    return stranger


class Failing:
    """A memory whose every operation raises an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def run(self, operation: Any, *args: Any, **kwargs: Any) -> Any:
        raise self._error
