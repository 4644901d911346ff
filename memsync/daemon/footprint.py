"""Memory that was freed and is still held: the C library keeps it, unless it is told otherwise (glibc)."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress

_M_ARENA_MAX = -8
ARENAS = 2


def keep_few_arenas() -> None:
    """Let all threads share a few heaps: with one each, what one thread frees is of no use to the others."""
    with suppress(OSError, AttributeError):
        _libc().mallopt(_M_ARENA_MAX, ARENAS)


def give_memory_back() -> None:
    """Return freed memory to the system."""
    gc.collect()
    with suppress(OSError, AttributeError):
        _libc().malloc_trim(0)


def _libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise OSError("only glibc has these")
    return ctypes.CDLL("libc.so.6")
