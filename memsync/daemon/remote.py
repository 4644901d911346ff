"""The memory as its daemon serves it, with everything that a memory can be asked."""

from __future__ import annotations

from typing import Any

from memsync.calls import Answer, Calls
from memsync.daemon.client import Client

TAKE_MINUTES = frozenset({"duplicates", "prune", "undo_prune"})
"""What grows with the memory, the first with its square."""
PATIENCE_SECONDS = 1_800.0


class RemoteMemory(Client, Calls):
    """One connection to a daemon; use it from one thread at a time, or make one a thread: they are cheap.

    with Memory.connect("notes") as memory:
        print(memory.search("which store did we choose").hits[0].citation)
    """

    def _ask(self, kind: type[Answer], name: str, arguments: dict[str, Any]) -> Answer:
        from memsync.model.shaped import shaped

        patience = self._socket.gettimeout()
        self._socket.settimeout(PATIENCE_SECONDS if name in TAKE_MINUTES else patience)
        try:
            answer: Answer = shaped(kind, self.call(name, arguments)["answer"])
        finally:
            self._socket.settimeout(patience)
        return answer
