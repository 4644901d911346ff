"""Take in agents' transcripts as they grow, in the daemon of the memory `transcripts`."""

from __future__ import annotations

import os
from contextlib import suppress

from memsync.agents import NAMES, agent_named
from memsync.agents.ingest import Ingester, transcripts_root
from memsync.agents.sources import Source
from memsync.daemon.health import Health
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

    def __init__(self, memory: Memory, health: Health, clock: Clock = system_clock) -> None:
        super().__init__("transcripts")
        self._memory = memory
        self._health = health
        self._clock = clock
        self._hooked: set[str] = set()
        self._growing: dict[tuple[str, str], float] = {}

    def start(self) -> None:
        """Start the thread, if the memory is the one of transcripts."""
        with suppress(MemsyncError):  # other commands report errors in the list of memories
            if transcripts_root() == self._memory.settings.root:
                super().start()

    def hooked(self, agent: str) -> None:
        """Check an agent's transcripts at once, because it has run a hook."""
        with self._condition:
            self._hooked |= {agent} & {*NAMES}
            self._condition.notify_all()

    def _run(self) -> None:
        with suppress(MemsyncError):  # the first transcript to scan raises it again
            secrets.load()
        scan_at, again = self._clock.monotonic(), set[str]()
        with suppress(Stopped):
            while not self._stopping:
                with self._condition:
                    hooked, self._hooked = self._hooked, set()
                now = self._clock.monotonic()
                found, again = hooked | again, hooked  # Copilot CLI writes its file after its last hook
                if now >= scan_at:
                    found, scan_at = set(NAMES), now + SCAN_SECONDS
                self.step(found)
                with self._condition:
                    if not self._hooked and not self._stopping:
                        self._condition.wait(FOLLOW_SECONDS if self._growing or again else scan_at - now)

    def step(self, hooked: set[str]) -> None:
        """Take in the transcripts of these agents, and those that have grown lately. Raises Stopped."""
        ingester = Ingester(self._memory.settings.root)
        try:
            with ingester.locked():
                growing = [Source(agent_named(name), path) for name, path in self._growing if name not in hooked]
                report = ingester.run(growing, self._progress, hooked)
        except IndexBusy:  # memsync ingest is doing this now
            return
        except MemsyncError as error:
            self._health.fault("transcripts", error)
            return
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001 (because no error may end this thread unseen)
            self._health.fault("transcripts", f"taking in transcripts failed: {type(error).__name__}")
            return
        now = self._clock.monotonic()
        self._growing |= {file: now for file in report.files if _is_growing(file[1])}
        self._growing = {found: at for found, at in self._growing.items() if now - at < LATELY_SECONDS}
        if report.wrong:
            self._health.fault("transcripts", report.wrong[0])
        elif hooked:
            self._health.mended("transcripts")

    def _progress(self, what: str, done: int, total: int) -> None:  # noqa: ARG002 (because a Progress has these)
        if self._stopping:
            raise Stopped


def _is_growing(path: str) -> bool:
    """Tell whether a transcript has grown lately. A first run also takes in thousands of old ones."""
    with suppress(OSError):
        return system_clock.file_seconds() - os.stat(path).st_mtime < LATELY_SECONDS
    return False
