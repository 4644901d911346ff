"""What is wrong at the moment, each fault under a name until it is mended; told in `status` and written to the log."""

from __future__ import annotations

import logging
import threading

from memsync.errors import MemsyncError

log = logging.getLogger("memsync.daemon")

FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 300.0


class Health:
    """The faults of one daemon. Safe to use from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._faults: dict[str, tuple[str, float]] = {}

    def fault(self, name: str, reason: str | MemsyncError, *, longest_retry: float = LONGEST_RETRY_SECONDS) -> float:
        """Note that something failed, and return in how many seconds to try it again: twice as long each time."""
        if isinstance(reason, MemsyncError):
            reason = reason.sentences()
        with self._guard:
            known, retry = self._faults.get(name, ("", FIRST_RETRY_SECONDS / 2))
            retry = min(retry * 2, longest_retry)
            self._faults[name] = (reason, retry)
        if reason != known:
            log.warning("%s: %s", name, reason)
        return retry

    def mended(self, name: str) -> None:
        """Note that something works."""
        with self._guard:
            gone = self._faults.pop(name, None)
        if gone is not None:
            log.info("%s: works again", name)

    def reason(self, *names: str) -> str:
        """Return what is wrong with the first of these that has a fault, or empty text."""
        with self._guard:
            return next((self._faults[name][0] for name in names if name in self._faults), "")

    def faults(self) -> tuple[str, ...]:
        """Return every fault as one line."""
        with self._guard:
            return tuple(f"{name}: {reason}" for name, (reason, _) in sorted(self._faults.items()))
