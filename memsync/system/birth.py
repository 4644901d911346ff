"""When a folder was made. Systems use the inode of a deleted folder again, so only this tells the next one from it."""

from __future__ import annotations

import os
import sys

_BIRTH = 0x800
"""The bit of Linux's statx for the time of birth, in the request and in the answer."""
_PLACE = 80
"""Where the time is in the answer: seconds in 8 bytes, nanoseconds in 4."""


def birth_ns(path: str) -> int:
    """Return when a file or folder was made, in nanoseconds since 1970; 0 if the system does not tell.

    Raises OSError if it does not exist.
    """
    if sys.platform != "linux":
        return int(getattr(os.stat(path), "st_birthtime", 0) * 1e9)
    import ctypes

    call, answer = getattr(ctypes.CDLL(None), "statx", None), bytearray(256)
    if call is None or call(-100, os.fsencode(path), 0, _BIRTH, (ctypes.c_char * 256).from_buffer(answer)) != 0:
        return 0
    if not int.from_bytes(answer[:4], sys.byteorder) & _BIRTH:
        return 0
    seconds, nanoseconds = answer[_PLACE : _PLACE + 8], answer[_PLACE + 8 : _PLACE + 12]
    return int.from_bytes(seconds, sys.byteorder) * 10**9 + int.from_bytes(nanoseconds, sys.byteorder)
