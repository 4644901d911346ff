"""Exchange shared notes with other machines, in the daemon: soon after a change, and from time to time."""

from __future__ import annotations

from memsync.daemon.health import DaemonFaults
from memsync.daemon.worker import NEVER, Worker
from memsync.edit.share_state import shared_of
from memsync.memory import Memory
from memsync.ports import Clock
from memsync.system import clock as system_clock

SETTLE_SECONDS = 2.0
"""How long after a change it is sent: a file may still be saved again."""
ASK_SECONDS = 60.0
"""Time between two exchanges."""
ASK_SOON_SECONDS = 5.0
"""Time between two exchanges while the memory is in use: for WORKING_SECONDS after a request or a change."""
WORKING_SECONDS = 120.0


class Sharer(Worker):
    """Exchanges the notes on a thread of its own, if they are shared."""

    def __init__(self, memory: Memory, health: DaemonFaults, clock: Clock = system_clock) -> None:
        super().__init__("share", health, clock, ASK_SECONDS)
        self._memory = memory
        self._worked_at = -NEVER

    def worked(self) -> None:
        """Exchange more often for a while: the memory is in use."""
        self._worked_at = self._clock.monotonic()

    def looked(self, *, found: bool) -> None:
        """Exchange soon: the files were compared with the index, mostly because one has changed."""
        if found:
            self.worked()
        self.wake(SETTLE_SECONDS)

    @property
    def is_on(self) -> bool:
        """Whether the notes are shared."""
        return bool(shared_of(self._memory.state).address)

    def step(self) -> float:
        """Exchange once; return when to ask again."""
        if not self.is_on:
            return ASK_SECONDS
        from memsync.features.sharing.share import exchange

        shared = exchange(self._memory)
        if shared.problem:
            return self._health.fault(self._name, shared.problem, longest_retry=ASK_SECONDS)
        self._health.mended(self._name)
        is_working = self._clock.monotonic() - self._worked_at < WORKING_SECONDS
        return ASK_SOON_SECONDS if is_working or shared.taken else ASK_SECONDS
