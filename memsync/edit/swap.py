"""Renames that never replace a file unseen: into a name that nothing has, and two files exchanged in one step.

Python offers neither; both are one system call (renameat2 on Linux, renameatx_np on macOS). Where the system or the
file system does not know it, the first is a link and the second is not to be had.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

_NEW, _EXCHANGE = (1, 2) if sys.platform != "darwin" else (4, 2)
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)


def rename_new(folder: int, source: str, target: str, target_folder: int | None = None) -> None:
    """Give a file of the folder (a descriptor) another name, there or elsewhere, which nothing may have.

    Raises FileExistsError, OSError.
    """
    there = folder if target_folder is None else target_folder
    if _rename(folder, source, there, target, _NEW):
        return
    os.link(source, target, src_dir_fd=folder, dst_dir_fd=there, follow_symlinks=False)
    os.unlink(source, dir_fd=folder)


def exchange(folder: int, one: str, other: str) -> bool:
    """Let two files of the folder (a descriptor) change names; return False where that cannot be had."""
    return _rename(folder, one, folder, other, _EXCHANGE)


def _rename(folder: int, source: str, there: int, target: str, flags: int) -> bool:
    """Rename with flags; return False where the system or the file system does not know them."""
    libc = ctypes.CDLL(None, use_errno=True)
    call = getattr(libc, "renameatx_np" if sys.platform == "darwin" else "renameat2", None)
    if call is None:
        return False
    if call(folder, os.fsencode(source), there, os.fsencode(target), ctypes.c_uint(flags)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), target)
