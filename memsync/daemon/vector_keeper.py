"""Embed the passages of an index in the background; retry if the model fails; unload a model that is not used."""

from __future__ import annotations

import logging
from contextlib import suppress

from memsync.daemon.footprint import give_memory_back
from memsync.daemon.health import Health
from memsync.daemon.worker import Worker
from memsync.errors import IndexBusy, IndexDamaged, MemsyncError
from memsync.memory import Memory
from memsync.ports import Clock
from memsync.sync.gate import Stopped
from memsync.system import clock as system_clock

log = logging.getLogger("memsync.daemon")

BUSY_RETRY_SECONDS = 1.0
HANGING_SECONDS = 60.0
REST_SECONDS = 5.0
TIDY_NOTES = 100
"""After this many changed notes the index is compacted."""


class VectorKeeper(Worker):
    """Embeds passages on its own thread soon after their text was committed.

    `has_warmed` is True once the model is loaded or has failed to load.
    """

    def __init__(self, memory: Memory, health: Health, clock: Clock = system_clock) -> None:
        super().__init__("vectors")
        self._memory = memory
        self._health = health
        self._clock = clock
        self._idle_seconds = 60.0 * memory.settings["daemon.idle_unload_minutes"]
        self._wanted = True
        self._retry_at: float | None = None
        self._has_failed = False
        self._untidy = 0
        self.has_warmed = False
        self._working_since: float | None = None

    def text_committed(self, notes: int) -> None:
        """Schedule embedding after a commit that changed `notes` notes."""
        with self._condition:
            self._untidy += notes
            self._wanted = True
            if not self._has_failed:  # after a failure keep the retry time; otherwise new texts need not wait
                self._retry_at = None
            self._condition.notify_all()

    def hanging(self) -> str:
        """Return a message if the thread has died or the model has not answered for too long; otherwise empty text."""
        if self._has_died():
            return "model: the thread that embeds has died: run memsync restart"
        since = self._working_since
        now = self._clock.monotonic()
        seconds = now - max(since, self._memory.syncer.stepped_at) if since is not None else 0.0
        return f"model: it has not answered for {seconds:.0f} s" if seconds > HANGING_SECONDS else ""

    # -------------------------------------------------------------------------------------------- work

    def _run(self) -> None:
        with suppress(Stopped):
            self._warm()
            while self._wait():
                self.step()

    def _wait(self) -> bool:
        """Wait until there may be something to embed, and unload idle models meanwhile; return False when stopping."""
        while not self._stopping:
            if self.take():
                return True
            self._rest()
            with self._condition:
                seconds = max(0.0, self.due_at() - self._clock.monotonic())
                if seconds and not self._stopping:
                    self._condition.wait(min(seconds, REST_SECONDS))
        return False

    def take(self) -> bool:
        """Return whether there may be something to embed now; if so, the caller must embed it."""
        with self._condition:
            is_due = self._clock.monotonic() >= self.due_at()
            self._wanted = self._wanted and not is_due
            return is_due

    def due_at(self) -> float:
        """Return when there may be something to embed (monotonic clock); infinity if nothing waits."""
        with self._condition:
            if not self._wanted:
                return float("inf")
            return self._retry_at if self._retry_at is not None else float("-inf")  # -inf: due now

    def _rest(self) -> None:
        """Unload each model that has been unused for too long."""
        for name, model in (("model", self._memory.models), ("reranking model", self._memory.reranking)):
            if self._idle_seconds and model.is_loaded and model.idle_seconds() >= self._idle_seconds:
                model.unload()
                give_memory_back()
                log.info("the %s was unused for %.0f minutes and is unloaded", name, self._idle_seconds / 60)

    def step(self) -> None:
        """Embed what waits and record faults. Raises Stopped if the gate is closed."""
        self._working_since = self._clock.monotonic()
        try:
            self._embed()
        except Stopped:
            raise
        except IndexBusy:  # another process syncs and embeds the same passages
            self._again(BUSY_RETRY_SECONDS)
        except IndexDamaged as damage:  # the index was replaced by an empty one: index the text first
            log.warning("%s", damage)
            if self._memory.fresh_search.live is not None:
                self._memory.fresh_search.live.notice()
            self._again(BUSY_RETRY_SECONDS)
        except Exception as error:  # noqa: BLE001 (because keyword search must work even if the model fails in an unknown way)
            self._has_failed = True
            is_known = isinstance(error, MemsyncError)
            self._failed(str(error) if is_known else f"embedding failed: {type(error).__name__}")
        finally:
            self._working_since = None

    def _embed(self) -> None:
        report = self._memory.syncer.embed_in_background()
        self._has_failed = report.error is not None
        if report.problem is not None:
            self._failed(report.problem.message)
            return
        self._health.mended("model")
        self._memory.syncer.remember_model_failure("")
        self._retry_at = None
        if report.pending:
            self._again(BUSY_RETRY_SECONDS)
        elif self._untidy >= TIDY_NOTES:
            self._untidy = 0
            with suppress(MemsyncError):  # compacting only saves disk space
                self._memory.syncer.tidy(bulk=True)

    def _warm(self) -> None:
        """Load the model before the first question needs it. If it fails, embedding fails too and reports the fault."""
        try:
            self._memory.models.configured().embed_query("warm")
            self._memory.models.note_use()
        except Exception as error:  # noqa: BLE001 (because no error of a model may end this thread)
            log.info("the model is not loaded yet: %s", type(error).__name__)
        finally:
            self.has_warmed = True

    def _failed(self, reason: str) -> None:
        with suppress(MemsyncError):
            self._memory.syncer.remember_model_failure(reason)
        self._again(self._health.fault("model", reason))

    def _again(self, seconds: float) -> None:
        with self._condition:
            self._wanted = True
            self._retry_at = self._clock.monotonic() + seconds
