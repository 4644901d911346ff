"""The Claude Agent SDK's tests of session stores, with threads in the place of its store in memory."""

from __future__ import annotations

import tempfile

import claude_agent_sdk

from memsync import Memory
from memsync.integrations.claude_agent_sdk import MemsyncSessionStore


class Store(MemsyncSessionStore):
    """Is made as InMemorySessionStore is."""

    def __init__(self) -> None:
        super().__init__(Memory.open(tempfile.mkdtemp()))


claude_agent_sdk.InMemorySessionStore = Store
