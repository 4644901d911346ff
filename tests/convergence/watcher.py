"""A watcher that is told the truth about each change and passes on what its mood lets it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from watchdog.events import FileModifiedEvent

from memsync.daemon.watch import _Handler
from tests.convergence.clock import SimulatedClock


class Mood(StrEnum):
    """What a watcher does with its reports."""

    TRUE = "passes each on at once"
    STUTTERS = "passes each on three times, over a while"
    LATE = "passes each on much later"
    SHUFFLES = "holds them back and passes them on last first"
    OVERFLOWS = "loses all it has not passed on, and says so"
    FORGETFUL = "loses every second one and says nothing"
    DEAF = "loses all and says nothing"
    DEAD = "loses all; asked, it says that it has died"
    BLIND = "loses all, because no watch is on any folder"
    REFUSED = "cannot be started again"


class SimulatedWatcher:
    """What a Keeper takes for a Watcher. `lost_at` is when it last lost a report that nothing tells the loss of."""

    def __init__(self, clock: SimulatedClock) -> None:
        self._clock = clock
        self._handler = _Handler("/root", self._take)
        self._on_path: Callable[[str], None] = lambda path: None
        self._on_lost: Callable[[str], None] = lambda reason: None
        self._watches = False
        self._held: list[str] = []
        self._told = 0
        self._mood = Mood.TRUE
        self._is_dead = False
        self.lost_at = -1.0

    @property
    def mood(self) -> Mood:
        """What it does with its reports; once dead it stays so, whatever the mood, until it is started again."""
        return self._mood

    @mood.setter
    def mood(self, mood: Mood) -> None:
        self._mood = mood
        self._is_dead = self._is_dead or mood is Mood.DEAD

    def attach(self, on_path: Callable[[str], None], on_lost: Callable[[str], None]) -> SimulatedWatcher:
        """Report to a keeper, and to nobody else any more."""
        self._on_path, self._on_lost, self._watches = on_path, on_lost, False
        self._held.clear()
        return self

    def start(self) -> None:
        if self.mood is Mood.REFUSED:
            raise OSError(28, "inotify watch limit reached")
        if self.mood is Mood.DEAD:
            self.mood = Mood.TRUE
        self._is_dead = False
        self._watches = True

    def stop(self) -> None:
        self._watches = False
        self._held.clear()

    def fault(self) -> str:
        return "the thread that watches the memory root has died" if self._is_dead else ""

    def unwatched(self, folder_inodes: list[int]) -> int | None:
        return len(folder_inodes) if self.mood is Mood.BLIND else 0

    def tell(self, paths: Sequence[str]) -> None:
        """Be told where something happened."""
        for path in paths:
            self._handler.on_any_event(FileModifiedEvent(f"/root/{path}"))

    def calm(self) -> None:
        """Be good from now on, unless dead: that only a new start mends. What was held back is passed on."""
        self.mood = Mood.TRUE
        self._pass_held_on()

    def _take(self, path: str) -> None:
        """Do with one report as the mood is."""
        if not self._watches or self._is_dead:
            return
        self._told += 1
        match self.mood:
            case Mood.TRUE | Mood.REFUSED:
                self._on_path(path)
            case Mood.STUTTERS:
                self._on_path(path)
                for wait in (0.02, 0.3):
                    self._later(wait, path)
            case Mood.LATE:
                self._later(0.7, path)
            case Mood.SHUFFLES:
                self._hold(path)
            case Mood.OVERFLOWS:
                self._held.clear()
                self._clock.plan(0.01, self._overflow)
            case Mood.FORGETFUL if self._told % 2:
                self._on_path(path)
            case Mood.FORGETFUL | Mood.DEAF | Mood.BLIND:
                self.lost_at = self._clock.monotonic()

    def _overflow(self) -> None:
        if self._watches:
            self._on_lost("the queue of reports overflowed")

    def _hold(self, path: str) -> None:
        if not self._held:
            self._clock.plan(0.5, self._pass_held_on)
        self._held.append(path)

    def _pass_held_on(self) -> None:
        held, self._held = self._held, []
        for path in reversed(held):
            self._on_path(path)

    def _later(self, seconds: float, path: str) -> None:
        on_path = self._on_path
        self._clock.plan(seconds, lambda: on_path(path) if self._watches and on_path == self._on_path else None)
