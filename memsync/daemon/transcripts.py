"""Take in agents' transcripts as they grow, in the daemon of the memory `transcripts`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from memsync.agents import agent_named, agent_names
from memsync.agents.ingest import Ingester, transcripts_root
from memsync.agents.sources import Transcript
from memsync.daemon.health import DaemonFaults
from memsync.daemon.worker import Worker
from memsync.errors import IndexBusy, MemsyncError
from memsync.memory import Memory
from memsync.notes import secrets
from memsync.ports import Clock
from memsync.sync.gate import Stopped
from memsync.system import clock as system_clock

FOLLOW_SECONDS = 0.5
"""How often transcripts that have grown lately are read."""
LATELY_SECONDS = 600.0
SCAN_SECONDS = 60.0
"""How often all transcripts are checked, including those of agents without a hook."""


class TranscriptKeeper(Worker):
    """Takes in transcripts on its own thread: when a hook has run, while they grow, and all of them every minute."""

    def __init__(
        self, memory: Memory, health: DaemonFaults, on_taken: Callable[[], None], clock: Clock = system_clock
    ) -> None:
        super().__init__("transcripts", health, clock, SCAN_SECONDS)
        self._memory = memory
        self._on_taken = on_taken
        self._scan_at = clock.monotonic()
        self._hooked: set[str] = set()
        self._again: set[str] = set()
        self._growing: dict[tuple[str, str], float] = {}

    def start(self) -> None:
        """Start the thread, if the memory is the one of transcripts."""
        with suppress(MemsyncError):  # other commands report errors in the list of memories
            if transcripts_root() == self._memory.settings.root:
                super().start()

    def hooked(self, agent: str) -> None:
        """Check an agent's transcripts at once, because it has run a hook."""
        with self._condition:
            self._hooked |= {agent} & {*agent_names()}
            self.wake()

    def _run(self) -> None:
        with suppress(MemsyncError):  # the first transcript to scan raises it again
            secrets.load()
        super()._run()

    def step(self) -> float:
        """Take in the transcripts of agents that ran a hook, those that grow, and each minute all. Raises Stopped."""
        with self._condition:
            hooked, self._hooked = self._hooked, set()
        now = self._clock.monotonic()
        found, self._again = hooked | self._again, hooked  # Copilot CLI writes its file after its last hook
        if now >= self._scan_at:
            found, self._scan_at = set(agent_names()), now + SCAN_SECONDS
        with suppress(IndexBusy):  # memsync ingest is doing this now
            self._take_in(found)
        return FOLLOW_SECONDS if self._growing or self._again else max(0.0, self._scan_at - now)

    def _take_in(self, hooked: set[str]) -> None:
        ingester = Ingester(self._memory.settings.root)
        with ingester.locked():
            growing = [Transcript(agent_named(name), path) for name, path in self._growing if name not in hooked]
            report = ingester.run(growing, self._progress, hooked)
        now = self._clock.monotonic()
        self._growing |= {file: now for file in report.files if _is_growing(file[1])}
        self._growing = {found: at for found, at in self._growing.items() if now - at < LATELY_SECONDS}
        if hooked or report.files:
            self._on_taken()
        if report.wrong:
            self._health.fault(self._name, report.wrong[0])
        elif hooked:
            self._health.mended(self._name)

    def _progress(self, what: str, done: int, total: int) -> None:  # noqa: ARG002 (because a Progress has these)
        if self._stopping:
            raise Stopped


def _is_growing(path: str) -> bool:
    """Tell whether a transcript has grown lately. A first run also takes in thousands of old ones."""
    with suppress(OSError):
        return system_clock.file_seconds() - os.stat(path).st_mtime < LATELY_SECONDS
    return False
