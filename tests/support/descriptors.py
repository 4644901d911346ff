"""Count what a process has open, to notice what leaks."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from memsync.system.user_folders import STATE


def open_descriptors() -> int:
    """Return how many files, sockets and pipes are open, except the states, of which a process keeps some open."""
    found = 0
    for name in os.listdir("/proc/self/fd") if sys.platform == "linux" else ():
        with suppress(FileNotFoundError):
            found += STATE not in os.readlink(f"/proc/self/fd/{name}")
    return found
