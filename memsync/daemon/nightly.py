"""Runs the curator once a night, if the settings say so; it only proposes."""

from __future__ import annotations

from datetime import date

from memsync.daemon.health import DaemonFaults
from memsync.daemon.worker import Worker
from memsync.memory import Memory
from memsync.system import clock

CHECK_SECONDS = 600.0
NIGHT_HOUR, LAST_HOUR = 3, 23
"""From the first to the second hour, local time: a machine that sleeps at night runs it in the morning.

`--auto` waits 20 hours: without LAST_HOUR, a run at 3 would be followed by one at 23, and then by one at 19.
"""


class Nightly(Worker):
    """Runs `memsync curate --auto` on a thread of its own."""

    def __init__(self, memory: Memory, health: DaemonFaults) -> None:
        super().__init__("curator", health)
        self._memory = memory
        self._tried_on: date | None = None

    def start(self) -> None:
        """Start the thread, if the settings say so."""
        if self._memory.settings["curator.nightly"]:
            self._due_at = clock.monotonic() + CHECK_SECONDS
            super().start()

    def step(self) -> float:
        """Propose what is new since the last night, once a day even if that fails: a program may cost money."""
        now = clock.now()
        if NIGHT_HOUR <= now.hour < LAST_HOUR and now.date() != self._tried_on:
            self._tried_on = now.date()
            self._memory.curate(auto=True)
            self._health.mended(self._name)
        return CHECK_SECONDS
