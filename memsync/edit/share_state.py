"""How a memory root is shared with other machines, in its state: no config file that comes with notes can begin it."""

from __future__ import annotations

import msgspec

from memsync.model.status import Shared
from memsync.system.state_file import StateFile

_NAME = "shared"


def shared_of(state: StateFile) -> Shared:
    """Return how a memory root is shared."""
    stored = state.single(_NAME)
    return msgspec.json.decode(stored, type=Shared) if stored else Shared()


def keep_shared(state: StateFile, shared: Shared) -> None:
    """Store how a memory root is shared."""
    state.keep_single(_NAME, msgspec.json.encode(shared), waits=True)
