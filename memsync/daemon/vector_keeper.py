"""The vectors of a live index: embedded in the background, tried again when the model fails, unloaded when unused."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from memsync.daemon.footprint import give_memory_back
from memsync.daemon.health import Health
from memsync.errors import IndexBusy, IndexDamaged, MemsyncError
from memsync.memory import Memory
from memsync.ports import Clock
from memsync.sync.clock import SYSTEM_CLOCK
from memsync.sync.gate import Stopped

log = logging.getLogger("memsync.daemon")

BUSY_RETRY_SECONDS = 1.0
HANGING_SECONDS = 60.0
REST_SECONDS = 5.0
TIDY_NOTES = 100
"""After so many changed notes the index is compacted at once, after fewer when nothing has happened for a while."""
TIDY_IDLE_SECONDS = 600.0


class VectorKeeper:
    """Gives every passage its vector soon after its text was committed, on a thread of its own.

    `has_warmed`: the model is loaded, or could not be.
    """

    def __init__(self, memory: Memory, health: Health, clock: Clock = SYSTEM_CLOCK) -> None:
        self._memory = memory
        self._health = health
        self._clock = clock
        self._idle_seconds = 60.0 * memory.settings["daemon.idle_unload_minutes"]
        self._condition = threading.Condition()
        self._wanted = True
        self._stopping = False
        self._retry_at: float | None = None
        self._has_failed = False
        self._untidy = 0
        self.has_warmed = False
        self._last_work = clock.monotonic()
        self._working_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="vectors", daemon=True)

    def start(self) -> None:
        """Begin: load the model, and embed what waits."""
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """End; return whether that happened in time: a model that hangs cannot be stopped."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def text_committed(self, notes: int) -> None:
        """Be told that so many notes were changed: their passages may wait for vectors."""
        with self._condition:
            self._untidy += notes
            self._wanted = True
            if not self._has_failed:  # what waits then is texts that got no vector; new ones need not wait with them
                self._retry_at = None
            self._condition.notify_all()

    def hanging(self) -> str:
        """Return for how long the model has not answered, if too long, or that nobody asks it; else empty text."""
        if self._thread.ident is not None and not self._thread.is_alive() and not self._stopping:
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
        """Wait until there may be something to embed, unloading the model meanwhile; False when it is to end."""
        while not self._stopping:
            if self.take():
                return True
            self._rest(self._clock.monotonic())
            with self._condition:
                seconds = max(0.0, self.due_at() - self._clock.monotonic())
                if seconds and not self._stopping:
                    self._condition.wait(min(seconds, REST_SECONDS))
        return False

    def take(self) -> bool:
        """Tell whether there may be something to embed now; whoever is told so does it."""
        with self._condition:
            is_due = self._clock.monotonic() >= self.due_at()
            self._wanted = self._wanted and not is_due
            return is_due

    def due_at(self) -> float:
        """Return when there may be something to embed (monotonic clock); infinity when nothing is known to wait."""
        with self._condition:
            if not self._wanted:
                return float("inf")
            return self._retry_at if self._retry_at is not None else float("-inf")  # a clock read now is past "now"

    def _rest(self, now: float) -> None:
        """Do what is for quiet times."""
        for name, model in (("model", self._memory.models), ("reranking model", self._memory.reranking)):
            if self._idle_seconds and model.is_loaded and model.idle_seconds() >= self._idle_seconds:
                model.unload()
                give_memory_back()
                log.info("the %s was unused for %.0f minutes and is unloaded", name, self._idle_seconds / 60)
        if self._untidy and now - self._last_work >= TIDY_IDLE_SECONDS:
            self._tidy()

    def step(self) -> None:
        """Embed what waits, and note how that went. Raises Stopped when the gate is closed."""
        self._working_since = self._clock.monotonic()
        try:
            self._embed()
        except Stopped:
            raise
        except IndexBusy:  # another process syncs and embeds the same
            self._again(BUSY_RETRY_SECONDS)
        except IndexDamaged as damage:  # it was begun anew: its text comes first
            log.warning("%s", damage)
            if self._memory.answering.live is not None:
                self._memory.answering.live.notice()
            self._again(BUSY_RETRY_SECONDS)
        except MemsyncError as error:
            self._has_failed = True
            self._failed(error.message)
        except Exception as error:  # noqa: BLE001 (because words must go on being found whatever a model does)
            self._has_failed = True
            self._failed(f"embedding failed: {type(error).__name__}")
        finally:
            self._working_since = None

    def _embed(self) -> None:
        report = self._memory.syncer.embed_in_background()
        self._last_work = self._clock.monotonic()
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
            self._tidy()

    def _warm(self) -> None:
        """Load the model before the first question needs it; whatever fails here fails again where it is told."""
        try:
            self._memory.models.configured().embed_query("warm")
            self._memory.models.note_use()
        except Exception as error:  # noqa: BLE001 (because whatever a model raises, this thread must go on)
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

    def _tidy(self) -> None:
        bulk, self._untidy = self._untidy >= TIDY_NOTES, 0
        with suppress(MemsyncError):  # it is only space
            self._memory.syncer.tidy(bulk=bulk)
