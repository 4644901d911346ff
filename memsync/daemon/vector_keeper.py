"""Embed the passages of an index in the background; retry if the model fails; unload a model that is not used."""

from __future__ import annotations

import logging
from contextlib import suppress

from memsync.daemon.footprint import give_memory_back
from memsync.daemon.health import DaemonFaults
from memsync.daemon.worker import NEVER, Worker
from memsync.errors import IndexBusy, IndexDamaged, MemsyncError
from memsync.memory import Memory
from memsync.ports import Clock
from memsync.system import clock as system_clock

log = logging.getLogger("memsync.daemon")

BUSY_RETRY_SECONDS = 1.0
HANGING_SECONDS = 60.0
IDLE_UNLOAD_MINUTES = 15
"""After so many minutes without a use, the model is unloaded."""
TIDY_NOTES = 100
"""After this many changed notes the index is compacted."""


class VectorKeeper(Worker):
    """Embeds passages on its own thread soon after their text was committed.

    `has_warmed` is True once the model is loaded or has failed to load.
    """

    def __init__(self, memory: Memory, health: DaemonFaults, clock: Clock = system_clock) -> None:
        super().__init__("model", health, clock)
        self._memory = memory
        self._untidy = 0
        self.has_warmed = False
        self._working_since: float | None = None

    def text_committed(self, notes: int) -> None:
        """Schedule embedding after a commit that changed `notes` notes."""
        with self._condition:
            self._untidy += notes
            self.wake()

    def hanging(self) -> str:
        """Return a message if the model has not answered for too long; otherwise empty text."""
        since = self._working_since
        now = self._clock.monotonic()
        seconds = now - max(since, self._memory.syncer.stepped_at) if since is not None else 0.0
        return f"model: it has not answered for {seconds:.0f} s" if seconds > HANGING_SECONDS else ""

    # -------------------------------------------------------------------------------------------- work

    def _run(self) -> None:
        self._warm()
        super()._run()

    def _rest(self) -> None:
        """Unload each model that has been unused for too long."""
        for name, model in (("model", self._memory.models), ("reranking model", self._memory.reranking)):
            if model.is_loaded and model.idle_seconds() >= 60 * IDLE_UNLOAD_MINUTES:
                model.unload()
                give_memory_back()
                log.info("the %s was unused for %d minutes and is unloaded", name, IDLE_UNLOAD_MINUTES)

    def step(self) -> float:
        """Embed what waits. Raises MemsyncError, and Stopped if the gate is closed."""
        self._working_since = self._clock.monotonic()
        syncer = self._memory.syncer
        try:
            report = syncer.embed_in_background()
        except IndexBusy:  # another process syncs and embeds the same passages
            return BUSY_RETRY_SECONDS
        except IndexDamaged as damage:  # the index was replaced by an empty one: index the text first
            log.warning("%s", damage)
            if self._memory.fresh_search.live is not None:
                self._memory.fresh_search.live.notice()
            return BUSY_RETRY_SECONDS
        finally:
            self._working_since = None
        if report.error is not None:
            raise report.error
        if report.unusable is not None:  # new texts need not wait until these are tried again
            return self._failed(report.unusable)
        self._health.mended(self._name)
        syncer.remember_model_failure("")
        if report.pending:
            return BUSY_RETRY_SECONDS
        if self._untidy >= TIDY_NOTES:
            self._untidy = 0
            with suppress(MemsyncError):  # compacting only saves disk space
                syncer.tidy(bulk=True)
        return NEVER

    def _warm(self) -> None:
        """Load the model before the first question needs it. If it fails, embedding fails too and reports the fault."""
        try:
            self._memory.models.configured().embed_query("warm")
            self._memory.models.note_use()
        except Exception as error:  # noqa: BLE001 (because no error of a model may end this thread)
            log.info("the model is not loaded yet: %s", type(error).__name__)
        finally:
            self.has_warmed = True

    def _failed(self, error: Exception) -> float:
        seconds = super()._failed(error)
        with suppress(MemsyncError):
            self._memory.syncer.remember_model_failure(self._health.reason(self._name))
        return seconds
