"""Keep the text of one index current: index reported changes, and compare all files from time to time."""

from __future__ import annotations

import logging
from collections.abc import Callable

from memsync.daemon.debounce import EVERYTHING, ReportedPaths
from memsync.daemon.health import DaemonFaults
from memsync.daemon.watch import MakeWatcher
from memsync.daemon.worker import NEVER, Worker
from memsync.errors import MemsyncError, RootError
from memsync.memory import Memory
from memsync.model.text import count
from memsync.model.vocabulary import WatcherState
from memsync.notes.files import Places, file_system_of
from memsync.ports import Clock
from memsync.sync.indexer import TextReport
from memsync.system import clock as system_clock

log = logging.getLogger("memsync.daemon")

SETTLE_SECONDS, LONGEST_SETTLE_SECONDS = 0.03, 1.0
"""The daemon reads a file that has not changed for the first time, or that has kept changing for the second."""
RESCAN_SECONDS = 30.0
"""Time between full comparisons of files, besides reported changes."""
POLL_SECONDS = 2.0
"""Time between full comparisons of files where changes are not reported (network file systems)."""
TICK_SECONDS = 5.0
"""How often the watcher and the root are checked."""
REPORT_SECONDS = 3.0
"""If a file changed longer ago than this and no report came, reports get lost."""
ROOT_RETRY_SECONDS = 5.0
LONGEST_RETRY_SECONDS = 60.0
WATCH_RETRY_SECONDS = 60.0
SHORTEST_PAUSE_IN_SCANS = 20
"""After a comparison of all files the keeper pauses at least this many times as long as the comparison took."""
STORE_SECONDS = 60.0
"""How often at most the keeper stores that a comparison found nothing to do: others read it as the index's age."""
SET_SECONDS = 1.0
"""The wall clock and the monotonic clock differ by more only if the wall clock was set or the machine slept."""


class Keeper(Worker):
    """Keeps the text of one memory's index current, on its own thread. Searches use it as `Live` (memsync/ports.py).

    `on_text` is called after each commit with its number of files, so that their passages can be embedded.
    """

    def __init__(
        self,
        memory: Memory,
        make_watcher: MakeWatcher,
        health: DaemonFaults,
        on_text: Callable[[int], None],
        clock: Clock = system_clock,
    ) -> None:
        super().__init__("index", health, clock, LONGEST_RETRY_SECONDS)
        settings = memory.settings
        self._memory = memory
        self._watcher = make_watcher(self._reported, self._lost)
        self._on_text = on_text
        self._reports = ReportedPaths(SETTLE_SECONDS, LONGEST_SETTLE_SECONDS)
        self._hurries = False
        self._taken, self._finished = 0, 0
        file_system = file_system_of(settings.root)
        self._remote = file_system.type if file_system.is_remote else ""
        self._watches = False
        self._has_just_started = False
        self._has_failed = False
        self._ahead_seconds = self._wall_clock_ahead()
        self._next_tick = self._next_scan = self._next_store = clock.monotonic()
        self.pending_text = 0

    def start(self) -> None:
        """Start the thread. It first compares all files; a search with bounded freshness waits for that."""
        self.notice()
        super().start()

    def join(self, seconds: float) -> bool:
        """Wait for the thread and stop watching; return whether the thread ended in time."""
        has_ended = super().join(seconds)
        if self._watches:
            self._watcher.stop()
        return has_ended

    # -------------------------------------------------------------------------------------------- Live

    def watching(self) -> tuple[WatcherState, str]:
        """Return how the daemon learns of changes, and the reason if that is not `live` (otherwise empty text)."""
        if reason := self._health.reason("root", "watcher"):
            return WatcherState.DEGRADED, f"{reason}; files are compared every {POLL_SECONDS:g} s instead"
        if self._remote:
            return WatcherState.POLLING, f"{self._remote} does not report changes"
        return WatcherState.LIVE, ""

    def catch_up(self, seconds: float) -> bool:
        """Index everything reported so far, without waiting until the files settle.

        Wait at most `seconds`; return whether all of it is in the index now. Call this only during a search.
        """
        with self._memory.syncer.gate.awaiting(), self._condition:
            turn = self.hasten()
            self._condition.wait_for(lambda: self.has_finished(turn) or self._has_failed or self._stopping, seconds)
            return self.has_finished(turn)

    def hasten(self) -> int:
        """Make everything reported so far due at once; return the number of the turn that will index it."""
        has_new_head = self._has_new_head()
        with self._condition:
            if has_new_head:
                self._reports.add_everything()
            self._hurries = self._reports.due_at() < float("inf")
            self._condition.notify_all()
            return self._taken + self._hurries

    def has_finished(self, turn: int) -> bool:
        """Return whether a turn is done, and no failure or pending file is left to be indexed."""
        return self._finished >= turn and not self._has_failed and self.pending_text == 0

    def notice(self) -> None:
        """Schedule a comparison of all files: a search found more changes than it could index itself."""
        with self._condition:
            self._reports.add_everything()
            self._condition.notify_all()

    # ------------------------------------------------------------------------------------------ reports

    def _reported(self, path: str) -> None:
        if not path:
            self.notice()
            return
        with self._condition:
            self._reports.add(path, self._clock.monotonic())
            self._condition.notify_all()

    def _lost(self, reason: str) -> None:
        log.warning("watcher: %s; comparing all files", reason)
        with self._condition:
            self._next_tick = self._clock.monotonic()
            self.notice()

    # -------------------------------------------------------------------------------------------- work

    def due_at(self) -> float:
        """Return when something will be due (monotonic clock); -inf is now."""
        with self._condition:
            return -NEVER if self._hurries else min(self._next_tick, self._next_scan, self._reports.due_at())

    def attempt(self) -> None:
        """Index what is due. An error becomes a fault in the status, and leads to a retry. Raises Stopped."""
        super().attempt()
        with self._condition:
            self._finished = self._taken
            self._condition.notify_all()

    def step(self) -> float:
        """Index the reported files, compare all files, check the watcher: what is due. `due_at` tells what is next."""
        now = self._clock.monotonic()
        with self._condition:
            due = self._reports.take(now, at_once=self._hurries)
            self._hurries = False
            self._taken += bool(due)
        has_new_head = False
        if now >= self._next_tick:
            self._look_after_watching()
            self._next_tick = now + TICK_SECONDS
            has_new_head = self._has_new_head()
        # After a failure a report is not enough: what was reported before the failure is not in the index yet.
        full = due == EVERYTHING or has_new_head or now >= self._next_scan or (bool(due) and self._has_failed)
        if full or due:
            periodic = full and due != EVERYTHING and not self._has_just_started
            self._has_just_started = self._has_just_started and not full
            self._refresh(None if full else Places(due), periodic=periodic)
        return NEVER

    def _failed(self, error: Exception) -> float:
        if isinstance(error, RootError):
            retry = self._health.fault("root", error, longest_retry=ROOT_RETRY_SECONDS)
        else:
            retry = super()._failed(error)
        # The changes found next may have been reported before this failure.
        self._has_failed = self._has_just_started = True
        self._next_scan = self._clock.monotonic() + retry
        return retry

    def _has_new_head(self) -> bool:
        """Return whether git's HEAD moved since the index took its dates; the watcher does not report that."""
        try:
            return not self._memory.syncer.has_current_dates()
        except MemsyncError:  # the index has a fault; the next comparison finds and handles it
            return False

    def _refresh(self, places: Places | None, *, periodic: bool) -> None:
        report = self._memory.syncer.refresh(places=places, on_commit=self._committed)
        if places is None and report.pending == 0:
            self._store_comparison()
        self.pending_text = report.pending if places is None else max(self.pending_text, report.pending)
        self._has_failed = False
        self._on_text(0)  # a search or another process may have committed passages without vectors
        self._health.mended("index")
        self._health.mended("root")
        if places is None:
            self._judge_reports(report if periodic else None)
            usual = POLL_SECONDS if self.watching()[0] is not WatcherState.LIVE else RESCAN_SECONDS
            pause = SHORTEST_PAUSE_IN_SCANS * self._memory.syncer.scanner.scan_seconds
            self._next_scan = self._clock.monotonic() + max(usual, pause)

    def _store_comparison(self) -> None:
        now = self._clock.monotonic()
        if now >= self._next_store:
            self._next_store = now + STORE_SECONDS
            self._memory.syncer.remember_comparison()

    def _committed(self, done: int, pending: int) -> None:
        self.pending_text = pending
        self._on_text(done)

    # ---------------------------------------------------------------------------------------- watching

    def _look_after_watching(self) -> None:
        if self._remote:
            return
        fault = self._watcher.fault() if self._watches else "not started"
        if not fault:
            return
        if self._watches:
            self._watcher.stop()
            self._watches = False
            log.warning("watcher: %s; restarting it", fault)
        try:
            self._watcher.start()
        except OSError as error:
            self._health.fault("watcher", f"the memory root cannot be watched: {error.strerror or error}")
            self._next_scan = min(self._next_scan, self._clock.monotonic() + POLL_SECONDS)
            return
        self._watches = self._has_just_started = True
        self._next_scan = self._clock.monotonic()  # files may have changed while nobody watched

    def _judge_reports(self, periodic: TextReport | None) -> None:
        """After a full comparison, check that every folder is watched and every change was reported.

        `periodic` is the comparison's report if nothing but the schedule caused it, otherwise None.
        """
        was_set = self._was_clock_set()  # if so, a file's timestamp does not show how long ago it changed
        if self._remote or not self._watches:
            return
        unwatched = self._watcher.unwatched(self._memory.syncer.scanner.scan.folder_inodes)
        judged = periodic.paths if periodic and not was_set else []
        missed = self._memory.syncer.unreported(judged, REPORT_SECONDS)
        if unwatched:
            folders = count(unwatched, "folder is", "folders are")
            self._restart_watcher(f"{folders} not watched (fs.inotify.max_user_watches may be too low)")
        elif missed:
            self._restart_watcher(f"{count(len(missed), 'change was', 'changes were')} not reported")
        elif periodic is not None or self._health.reason("watcher"):
            self._health.mended("watcher")

    def _was_clock_set(self) -> bool:
        before, self._ahead_seconds = self._ahead_seconds, self._wall_clock_ahead()
        return abs(self._ahead_seconds - before) > SET_SECONDS

    def _wall_clock_ahead(self) -> float:
        return self._clock.time_ns() / 1e9 - self._clock.monotonic()

    def _restart_watcher(self, fault: str) -> None:
        """Restart the watcher after a growing pause: each start compares all files, and it may fail again."""
        retry = self._health.fault("watcher", fault, longest_retry=WATCH_RETRY_SECONDS)
        self._watcher.stop()
        self._watches = False
        self._next_tick = self._clock.monotonic() + retry
