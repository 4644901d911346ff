"""Keeps one index live: what was reported is looked at, everything is compared now and then, text before vectors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from memsync.daemon.health import Health
from memsync.daemon.hints import Due, Hints
from memsync.daemon.watch import MakeWatcher
from memsync.errors import IndexDamaged, MemsyncError, RootError
from memsync.memory import Memory
from memsync.model.vocabulary import WatcherState
from memsync.notes.files import Places
from memsync.notes.filesystem import file_system_of
from memsync.ports import Clock
from memsync.sync.clock import SYSTEM_CLOCK
from memsync.sync.gate import Stopped
from memsync.sync.indexer import TextReport

log = logging.getLogger("memsync.daemon")

TICK_SECONDS = 5.0
"""How often the watching and the root are looked after."""
REPORT_SECONDS = 3.0
"""What changed longer ago than this and was not reported shows that reports get lost."""
ROOT_RETRY_SECONDS = 5.0
WATCH_RETRY_SECONDS = 60.0
SHORTEST_PAUSE_IN_LOOKS = 20
"""Looking at all files may take so small a share of the time, however many there are."""
SET_SECONDS = 1.0
"""By so much the wall clock and the monotonic one drift apart only when the wall clock is set, or the machine slept."""
WATCH_FAULTS = ("root", "watcher")


class Keeper:
    """Keeps the text of one memory's index live, on a thread of its own; see Live for what searches ask of it.

    `on_text` is called after each commit with its number of files, so that vectors can follow.
    """

    def __init__(
        self,
        memory: Memory,
        make_watcher: MakeWatcher,
        health: Health,
        on_text: Callable[[int], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        settings = memory.settings
        self._memory = memory
        self._watcher = make_watcher(self._reported, self._lost)
        self._health = health
        self._on_text = on_text
        self._clock = clock
        self._rescan_seconds = float(settings["daemon.rescan_seconds"])
        self._poll_seconds = float(settings["daemon.poll_seconds"])
        self._hints = Hints(settings["daemon.settle_ms"] / 1000, settings["daemon.longest_settle_ms"] / 1000)
        self._condition = threading.Condition()
        self._hurry = 0
        self._taken, self._finished = 0, 0
        self._stopping = False
        file_system = file_system_of(settings.root)
        self._remote = file_system.type if file_system.is_remote else ""
        self._watches = False
        self._has_just_started = False
        self._failed = 0  # the newest turn of work, when it failed
        self._ahead_seconds = self._wall_clock_ahead()
        self._next_tick = self._next_scan = clock.monotonic()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self.pending_text = 0

    def start(self) -> None:
        """Begin: the first thing it does is to compare everything, and a search that takes its word waits for that."""
        self.notice()
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """End, after the commit that is under way; return whether it did in time. The gate must be closed before."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        self._thread.join(seconds)
        if self._watches:
            self._watcher.stop()
        return not self._thread.is_alive()

    # -------------------------------------------------------------------------------------------- Live

    def watching(self) -> tuple[WatcherState, str]:
        """Return how changes are learned of, and why that is not `live`, or else empty text."""
        if not self._thread.is_alive() and not self._stopping and self._thread.ident is not None:
            return WatcherState.DEGRADED, "the thread that indexes changes has died: run memsync restart"
        reason = self._health.reason(*WATCH_FAULTS)
        if reason:
            return WatcherState.DEGRADED, f"{reason}; files are compared every {self._poll_seconds:g} s instead"
        if self._remote:
            return WatcherState.POLLING, f"{self._remote} does not report changes"
        return WatcherState.LIVE, ""

    def catch_up(self, seconds: float) -> bool:
        """Index what was reported up to now without letting it settle, for at most so many seconds.

        Return whether all of it is in the index now. Only within a search.
        """
        with self._memory.syncer.gate.awaiting(), self._condition:
            turn = self.hasten()
            self._condition.wait_for(lambda: self.has_finished(turn) or self._failed >= turn or self._stopping, seconds)
            return self.has_finished(turn)

    def hasten(self) -> int:
        """Let what was reported up to now be due at once, and return the turn of work that it is indexed in."""
        has_new_head = self._has_new_head()
        with self._condition:
            if has_new_head:
                self._hints.add_everything(self._clock.monotonic())
            if self._hints.due_at() is None:
                return self._taken
            self._hurry += 1
            self._condition.notify_all()
            return self._taken + 1

    def has_finished(self, turn: int) -> bool:
        """Tell whether a turn of work is done, and went well."""
        return self._finished >= turn and not self._failed and self.pending_text == 0

    def notice(self) -> None:
        """Be told that a comparison found more than a search could index itself."""
        with self._condition:
            self._hints.add_everything(self._clock.monotonic())
            self._condition.notify_all()

    # ------------------------------------------------------------------------------------------ reports

    def _reported(self, path: str) -> None:
        with self._condition:
            now = self._clock.monotonic()
            if path:
                self._hints.add(path, now)
            else:
                self._hints.add_everything(now)
            self._condition.notify_all()

    def _lost(self, reason: str) -> None:
        """Compare everything, and check the watches once that is done."""
        log.warning("watcher: %s; everything is compared", reason)
        with self._condition:
            self._hints.add_everything(self._clock.monotonic())
            self._next_tick = self._clock.monotonic()
            self._condition.notify_all()

    # -------------------------------------------------------------------------------------------- work

    def _run(self) -> None:
        try:
            while True:
                due = self._wait()
                if self._stopping:
                    return
                self.step(due)
        except Stopped:
            return
        except BaseException as error:
            log.error("the keeper died of %s", type(error).__name__)
            raise

    def _wait(self) -> Due:
        """Return what is to be looked at next, once it is time."""
        with self._condition:
            while not self._stopping:
                due = self.take()
                if due is not None:
                    return due
                self._condition.wait(max(0.001, self.due_at() - self._clock.monotonic()))
            return Due()

    def take(self) -> Due | None:
        """Return what is to be looked at now, nothing when only the watching is; None while it is not yet time."""
        with self._condition:
            now = self._clock.monotonic()
            due = self._hints.take(now, at_once=self._hurry > 0)
            self._hurry = 0
            if not due and now < min(self._next_tick, self._next_scan):
                return None
            self._taken += bool(due)
            return due

    def due_at(self) -> float:
        """Return when there will be something to do (monotonic clock)."""
        with self._condition:
            hint = self._hints.due_at()
            return min(self._next_tick, self._next_scan, hint if hint is not None else float("inf"))

    def step(self, due: Due) -> None:
        """Do one thing: look at what is due, or compare everything, or look after the watching.

        Whatever goes wrong is a fault that is told, and tried again: what keeps an index live must outlive it.
        """
        try:
            self._do(due)
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001 (because of what the docstring says)
            log.error("looking after the memory root failed: %s", type(error).__name__)
            self._failed = self._taken
            retry = self._health.fault("index", f"indexing failed: {type(error).__name__}", longest_retry=60.0)
            self._next_scan = self._clock.monotonic() + retry
        if due:
            with self._condition:
                self._finished += 1
                self._condition.notify_all()

    def _do(self, due: Due) -> None:
        now = self._clock.monotonic()
        has_new_head = False
        if now >= self._next_tick:
            self._look_after_watching()
            self._next_tick = now + TICK_SECONDS
            has_new_head = self._has_new_head()
        full = due.everything or has_new_head or now >= self._next_scan
        if full or due.paths:
            periodic = full and not due.everything and not self._has_just_started
            self._has_just_started = self._has_just_started and not full
            self._refresh(None if full else Places(due.paths), periodic=periodic)

    def _has_new_head(self) -> bool:
        """Tell whether git's HEAD is another than the index is dated by; nothing reports that."""
        try:
            return not self._memory.syncer.has_current_dates()
        except MemsyncError:  # of the index; the next comparison finds it, and knows what to do about it
            return False

    def _refresh(self, places: Places | None, *, periodic: bool) -> None:
        retry: float | None = None
        pause = 0.0
        try:
            try:
                report = self._memory.syncer.refresh(places=places, on_commit=self._committed)
            except IndexDamaged as damage:  # it was begun anew: everything is missing now
                log.warning("%s", damage)
                places = None
                report = self._memory.syncer.refresh(on_commit=self._committed)
        except RootError as error:
            retry = self._health.fault("root", error, longest_retry=ROOT_RETRY_SECONDS)
        except MemsyncError as error:
            retry = self._health.fault("index", error, longest_retry=60.0)
        else:
            self.pending_text = report.pending if places is None else max(self.pending_text, report.pending)
            pause = SHORTEST_PAUSE_IN_LOOKS * report.look_seconds
            self._on_text(0)  # what a search or another process committed waits for vectors, too
            self._health.mended("index")
            self._health.mended("root")
            if places is None:
                self._judge_reports(report if periodic else None)
        self._failed = self._taken if retry is not None else 0
        if retry is not None:
            self._has_just_started = True  # what is found next was reported, if it was, before this failed
        if places is None or retry is not None:
            usual = self._poll_seconds if self.watching()[0] is not WatcherState.LIVE else self._rescan_seconds
            self._next_scan = self._clock.monotonic() + (retry or max(usual, pause))

    def _committed(self, done: int, pending: int) -> None:
        self.pending_text = pending
        self._on_text(done)

    # ---------------------------------------------------------------------------------------- watching

    def _look_after_watching(self) -> None:
        """Start what does not watch, or watches what is no longer there."""
        if self._remote:
            return
        fault = self._watcher.fault() if self._watches else "not started"
        if not fault:
            return
        if self._watches:
            self._watcher.stop()
            self._watches = False
            log.warning("watcher: %s; it is started again", fault)
        try:
            self._watcher.start()
        except OSError as error:
            self._health.fault("watcher", f"the memory root cannot be watched: {error.strerror or error}")
            self._next_scan = min(self._next_scan, self._clock.monotonic() + self._poll_seconds)
            return
        self._watches = self._has_just_started = True
        self._next_scan = self._clock.monotonic()  # what changed while nobody watched

    def _judge_reports(self, periodic: TextReport | None) -> None:
        """Judge, after everything was compared, whether each folder is watched and each change found was reported."""
        was_set = self._was_clock_set()  # then a file's stamp does not tell how long ago it changed
        if self._remote or not self._watches:
            return
        unwatched = self._watcher.unwatched(self._memory.syncer.folder_inodes())
        judged = periodic.paths if periodic and not was_set else []
        missed = self._memory.syncer.unreported(judged, REPORT_SECONDS)
        if unwatched:
            self._restart_watcher(f"{unwatched} folders are not watched (fs.inotify.max_user_watches may be too low)")
        elif missed:
            self._restart_watcher(f"{len(missed)} changes were not reported")
        elif periodic is not None or self._health.reason("watcher"):
            self._health.mended("watcher")

    def _was_clock_set(self) -> bool:
        """Tell whether the wall clock was set since this was last asked."""
        before, self._ahead_seconds = self._ahead_seconds, self._wall_clock_ahead()
        return abs(self._ahead_seconds - before) > SET_SECONDS

    def _wall_clock_ahead(self) -> float:
        return self._clock.time_ns() / 1e9 - self._clock.monotonic()

    def _restart_watcher(self, fault: str) -> None:
        """Watch anew, after a pause that grows: each start compares everything, and too few watches stay too few."""
        retry = self._health.fault("watcher", fault, longest_retry=WATCH_RETRY_SECONDS)
        self._watcher.stop()
        self._watches = False
        self._next_tick = self._clock.monotonic() + retry
