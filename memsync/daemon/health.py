"""The daemon's current faults, each under a name until it is fixed. `status` shows them; the log records them."""

from __future__ import annotations

import logging
import threading

from memsync.errors import MemsyncError

log = logging.getLogger("memsync.daemon")

FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 300.0


class DaemonFaults:
    """The faults of one daemon. Safe to use from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._faults: dict[str, tuple[str, float]] = {}

    def fault(self, name: str, reason: str | MemsyncError, *, longest_retry: float = LONGEST_RETRY_SECONDS) -> float:
        """Record a failure; return in how many seconds to retry, which doubles with each failure in a row."""
        if isinstance(reason, MemsyncError):
            reason = reason.sentences()
        with self._guard:
            known_reason, retry = self._faults.get(name, ("", FIRST_RETRY_SECONDS / 2))
            retry = min(retry * 2, longest_retry)
            self._faults[name] = (reason, retry)
        if reason != known_reason:
            log.warning("%s: %s", name, reason)
        return retry

    def mended(self, name: str) -> None:
        """Remove the fault of this name: it works again."""
        with self._guard:
            fault = self._faults.pop(name, None)
        if fault is not None:
            log.info("%s: works again", name)

    def reason(self, *names: str) -> str:
        """Return the first fault among these names, or empty text."""
        with self._guard:
            return next((self._faults[name][0] for name in names if name in self._faults), "")

    def faults(self) -> tuple[str, ...]:
        """Return each fault as one line, in the order of their names."""
        with self._guard:
            return tuple(f"{name}: {reason}" for name, (reason, _) in sorted(self._faults.items()))
