"""What a keeper asks of whoever watches the memory root (watch.py, by the system's reports)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Watching(Protocol):
    """Reports where something may have changed."""

    def start(self) -> None:
        """Begin to watch. Raises OSError."""

    def stop(self) -> None:
        """End watching."""

    def fault(self) -> str:
        """Return why reports can no longer be relied on, or empty text."""

    def unwatched(self, folder_inodes: list[int]) -> int | None:
        """Return how many folders no watch is on."""


MakeWatcher = Callable[[Callable[[str], None], Callable[[str], None]], Watching]
"""Given where to report a path to, and where to tell why reports were lost."""
