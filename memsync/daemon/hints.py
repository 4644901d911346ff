"""What was reported and not looked at yet: each path until it has stood still, a storm of them together. Pure."""

from __future__ import annotations

from dataclasses import dataclass

STORM_PATHS = 100
"""So many paths at once are a checkout or a copy: they are looked at together, when it is over."""
STORM_SETTLES = 3
"""How many times longer than one file a storm must have been quiet."""


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be looked at now: everything, or these paths; neither when nothing is due."""

    everything: bool = False
    paths: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return self.everything or bool(self.paths)


class Hints:
    """Reports waiting to be looked at. Times are seconds of a monotonic clock; not safe for several threads by itself.

    A path is due when nothing was reported of it for `settle` seconds, or `longest` seconds after its first report, so
    that a file which is saved all the time is not starved.
    """

    def __init__(self, settle: float, longest: float) -> None:
        self._settle = settle
        self._longest = max(settle, longest)
        self._paths: dict[str, tuple[float, float]] = {}
        self._everything_since: float | None = None

    def add(self, path: str, now: float) -> None:
        """Note that something was reported of a path."""
        first, _ = self._paths.get(path, (now, now))
        self._paths[path] = (first, now)

    def add_everything(self, now: float) -> None:
        """Note that reports were lost: anything may have changed."""
        if self._everything_since is None:
            self._everything_since = now

    def due_at(self) -> float | None:
        """Return when something will be due if nothing more is reported; None when nothing waits."""
        times = [self._storm_due()] if self._is_storm() else [self._due(*span) for span in self._paths.values()]
        if self._everything_since is not None:
            times.append(self._everything_since)
        return min(times, default=None)

    def take(self, now: float, *, at_once: bool = False) -> Due:
        """Return what is due and forget it; with `at_once` also what has not settled yet."""
        if self._everything_since is not None:
            self._everything_since = None
            self._paths.clear()
            return Due(everything=True)
        if self._is_storm():
            if not at_once and now < self._storm_due():
                return Due()
            self._paths.clear()
            return Due(everything=True)
        paths = frozenset(path for path, span in self._paths.items() if at_once or now >= self._due(*span))
        for path in paths:
            del self._paths[path]
        return Due(paths=paths)

    def _is_storm(self) -> bool:
        return len(self._paths) > STORM_PATHS

    def _due(self, first: float, last: float) -> float:
        return min(last + self._settle, first + self._longest)

    def _storm_due(self) -> float:
        first = min(span[0] for span in self._paths.values())
        last = max(span[1] for span in self._paths.values())
        return min(last + STORM_SETTLES * self._settle, first + max(self._longest, STORM_SETTLES * self._settle))
