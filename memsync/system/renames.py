"""Two renames that Python lacks: to a name that must be free, and the exchange of two names.

Both are one system call: renameat2 on Linux, renameatx_np on macOS. If the system or the file system does not support
it, `rename_new` uses a hard link and `exchange` returns False.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

_NEW, _EXCHANGE = (1, 2) if sys.platform != "darwin" else (4, 2)
"""Flags of the system call."""
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)


def rename_new(folder: int, source: str, target: str, target_folder: int) -> None:
    """Rename a file in a folder (a descriptor) to a name that does not exist yet. Raises FileExistsError, OSError."""
    if not _rename(folder, source, target_folder, target, _NEW):
        os.link(source, target, src_dir_fd=folder, dst_dir_fd=target_folder, follow_symlinks=False)
        os.unlink(source, dir_fd=folder)


def exchange(folder: int, first: str, second: str) -> bool:
    """Exchange the names of two files in `folder` (a descriptor); return False if that is not supported."""
    return _rename(folder, first, folder, second, _EXCHANGE)


def _rename(folder: int, source: str, target_folder: int, target: str, flags: int) -> bool:
    """Rename with flags; return False if the system or the file system does not support them."""
    libc = ctypes.CDLL(None, use_errno=True)
    call = getattr(libc, "renameatx_np" if sys.platform == "darwin" else "renameat2", None)
    if call is None:
        return False
    if call(folder, os.fsencode(source), target_folder, os.fsencode(target), ctypes.c_uint(flags)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), target)
