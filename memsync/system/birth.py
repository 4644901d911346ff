"""When a folder was made. Systems reuse the inode of a deleted folder, so only this time distinguishes a new one."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

_BIRTH = 0x800
"""The bit of Linux's statx for the time of birth, in the request and in the answer."""


def birth(path: str) -> str:
    """Return when a file or folder was made, as text that only compares; empty if the system does not tell.

    Raises OSError if it does not exist.
    """
    if sys.platform != "linux":
        return str(getattr(os.stat(path), "st_birthtime", ""))
    import ctypes

    call, answer = getattr(ctypes.CDLL(None), "statx", None), ctypes.create_string_buffer(256)
    is_told = call is not None and call(-100, os.fsencode(path), 0, _BIRTH, answer) == 0
    mask = int.from_bytes(answer.raw[:4], sys.byteorder)
    return answer.raw[80:92].hex() if is_told and mask & _BIRTH else ""  # 8 bytes of seconds, 4 of nanoseconds


def birth_seconds(path: str) -> float:
    """Return when a file was made, in Unix time; 0 if the system does not tell, or if it does not exist."""
    with suppress(OSError):
        if sys.platform != "linux":
            return float(birth(path) or 0)
        raw = bytes.fromhex(birth(path))
        return int.from_bytes(raw[:8], sys.byteorder) + int.from_bytes(raw[8:], sys.byteorder) / 1e9
    return 0
