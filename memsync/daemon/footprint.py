"""Keep memory use small: glibc holds memory that the program has freed, unless it is set up differently."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress

_M_ARENA_MAX = -8
ARENAS = 2


def keep_few_arenas() -> None:
    """Let all threads share a few heaps; otherwise one thread cannot use the memory that another has freed."""
    with suppress(OSError, AttributeError):
        _libc().mallopt(_M_ARENA_MAX, ARENAS)


def give_memory_back() -> None:
    """Return freed memory to the system."""
    gc.collect()
    with suppress(OSError, AttributeError):
        _libc().malloc_trim(0)


def _libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise OSError("only glibc has these functions")
    return ctypes.CDLL("libc.so.6")
