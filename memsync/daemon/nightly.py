"""Runs the curator once a night, if the settings say so; it only proposes."""

from __future__ import annotations

from datetime import date

from memsync.daemon.health import Health
from memsync.daemon.worker import Worker
from memsync.errors import MemsyncError
from memsync.memory import Memory
from memsync.system import clock

CHECK_SECONDS = 600.0
NIGHT_HOUR, LAST_HOUR = 3, 23
"""From the first to the second hour, local time: a machine that sleeps at night runs it in the morning.

`--auto` waits 20 hours: without LAST_HOUR, a run at 3 would be followed by one at 23, and then by one at 19.
"""


class Nightly(Worker):
    """Runs `memsync curate --auto` on a thread of its own."""

    def __init__(self, memory: Memory, health: Health) -> None:
        super().__init__("curator")
        self._memory = memory
        self._health = health
        self._failed_on: date | None = None

    def start(self) -> None:
        """Start the thread, if the settings say so."""
        if self._memory.settings["curator.nightly"]:
            super().start()

    def _run(self) -> None:
        while self._waits(CHECK_SECONDS):
            now = clock.now()
            if NIGHT_HOUR <= now.hour < LAST_HOUR and now.date() != self._failed_on:  # a program may cost money
                self.step()

    def step(self) -> None:
        """Propose what is new since the last night, if there was none today."""
        self._failed_on = clock.today()
        try:
            self._memory.curate(auto=True)
            self._failed_on = None
            self._health.mended("curator")
        except MemsyncError as error:
            self._health.fault("curator", error)
        except Exception as error:  # noqa: BLE001 (because no error may end this thread unseen)
            self._health.fault("curator", f"the curator failed: {type(error).__name__}")
