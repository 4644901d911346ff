"""Collect reported paths until they are due. Each path waits until its file settles; a storm is due as a whole."""

from __future__ import annotations

STORM_PATHS = 100
"""More waiting paths than this are a storm (a checkout or a copy); when it is over, all files are compared."""
STORM_SETTLES = 3
"""A storm is over after this many settle times without a report."""


EVERYTHING = frozenset({""})
"""What is due if any file may have changed: the root itself."""


class ReportedPaths:
    """Reported paths that wait to be due. Times are seconds of a monotonic clock. Not thread-safe.

    A path is due `settle` seconds after its last report, but at most `longest` seconds after its first one, so that a
    file that is saved all the time is indexed, too.
    """

    def __init__(self, settle: float, longest: float) -> None:
        self._settle = settle
        self._longest = longest
        self._paths: dict[str, tuple[float, float]] = {}
        self._everything = False

    def add(self, path: str, now: float) -> None:
        """Record a report about a path."""
        first, _ = self._paths.get(path, (now, now))
        self._paths[path] = (first, now)

    def add_everything(self) -> None:
        """Make everything due: reports were lost, so any file may have changed."""
        self._everything = True

    def due_at(self) -> float:
        """Return when something will be due if no more reports come: -inf is now, inf if nothing waits."""
        if self._everything:
            return float("-inf")
        if self._is_storm():
            return self._storm_due()
        return min((self._due(*span) for span in self._paths.values()), default=float("inf"))

    def take(self, now: float, *, at_once: bool = False) -> frozenset[str]:
        """Remove and return what is due; with `at_once` also paths that have not settled yet."""
        if not at_once and now < self.due_at():
            return frozenset()
        if self._everything or self._is_storm():
            self._everything = False
            self._paths.clear()
            return EVERYTHING
        paths = frozenset(path for path, span in self._paths.items() if at_once or now >= self._due(*span))
        for path in paths:
            del self._paths[path]
        return paths

    def _is_storm(self) -> bool:
        return len(self._paths) > STORM_PATHS

    def _due(self, first: float, last: float) -> float:
        return min(last + self._settle, first + self._longest)

    def _storm_due(self) -> float:
        first = min(span[0] for span in self._paths.values())
        last = max(span[1] for span in self._paths.values())
        return min(last + STORM_SETTLES * self._settle, first + self._longest)
