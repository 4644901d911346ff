"""Writes the notes of agents' sessions, in the daemon of the memory `transcripts`."""

from __future__ import annotations

from contextlib import suppress

from memsync.agents.ingest import transcripts_root
from memsync.daemon.health import DaemonFaults
from memsync.daemon.worker import Worker
from memsync.errors import MemsyncError
from memsync.memories.hook_answer import HookEvent
from memsync.memories.noting import Noter
from memsync.memories.reopening import Opener
from memsync.memory import Memory
from memsync.ports import Clock
from memsync.system import clock as system_clock

CHECK_SECONDS = 60.0
"""How often sessions are looked for that ended without a hook."""
HEARD_SECONDS = 60.0
"""How long after a session has ended its transcript may still grow."""


class SessionNoter(Worker):
    """Makes notes on a thread of its own: when a session ends or is compacted, and of those that have not grown."""

    def __init__(self, memory: Memory, health: DaemonFaults, clock: Clock = system_clock) -> None:
        super().__init__("session notes", health, clock, CHECK_SECONDS)
        self._memory = memory
        self._opener = Opener(memory)
        self._noter = Noter(memory, self._opener)
        self._heard: dict[str, tuple[float, bool]] = {}
        """The session -> when its hook ran, and whether it said that the session has ended."""

    def start(self) -> None:
        """Start the thread, if the memory is the one of transcripts."""
        with suppress(MemsyncError):  # other commands report errors in the list of memories
            if transcripts_root() == self._memory.settings.root:
                super().start()

    def heard(self, event: str, payload: str) -> None:
        """Make the note of a session once its transcript was taken in, if a hook says that it ends or is compacted."""
        with suppress(ValueError, RecursionError):
            session = HookEvent.read(payload, "").session
            with self._condition:
                if event in ("session-end", "compaction") and session:
                    self._heard[session] = (self._clock.monotonic(), event == "session-end")
                elif event in ("prompt", "session-start"):  # it goes on
                    self._heard.pop(session, None)

    def step(self) -> float:
        """Make the notes that are due."""
        now = self._clock.monotonic()
        with self._condition:
            self._heard = {session: heard for session, heard in self._heard.items() if now - heard[0] < HEARD_SECONDS}
            ended = {session for session, (_, has_ended) in self._heard.items() if has_ended}
            paused = self._heard.keys() - ended
        complaints = self._noter.make(ended, paused)
        self._opener.close()
        if complaints:
            return self._health.fault(self._name, complaints[0], longest_retry=CHECK_SECONDS)
        self._health.mended(self._name)
        return CHECK_SECONDS
